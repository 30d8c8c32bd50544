//! The life of a cluster in the playground.

quorate_scenarios::life!(quorate_scenarios::Playground::start());
