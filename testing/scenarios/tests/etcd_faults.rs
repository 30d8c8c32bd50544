//! Faults and recovery, and invalid input, in the playground.

quorate_scenarios::faults!(quorate_scenarios::Playground::start());
quorate_scenarios::input!(quorate_scenarios::Playground::start());
quorate_scenarios::repair!(quorate_scenarios::Playground::start());
