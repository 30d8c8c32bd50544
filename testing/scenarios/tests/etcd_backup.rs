//! Backups and restores in the playground.

quorate_scenarios::backup!(quorate_scenarios::Playground::start());
