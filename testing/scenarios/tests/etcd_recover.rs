//! A lost quorum, in the playground.

quorate_scenarios::recover!(quorate_scenarios::Playground::start());
