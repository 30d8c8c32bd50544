//! What breaks and heals, and what is wrong from the start, in the playground.

quorate_scenarios::faults!(quorate_scenarios::Playground::start());
quorate_scenarios::input!(quorate_scenarios::Playground::start());
