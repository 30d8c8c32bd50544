//! Versions, in the playground.

quorate_scenarios::versions!(quorate_scenarios::Playground::start());
