//! Behaviours that every world runs, in the playground.

mod life {
    quorate_scenarios::life!(quorate_scenarios::Playground::start());
}

mod faults {
    quorate_scenarios::faults!(quorate_scenarios::Playground::start());
}

mod input {
    quorate_scenarios::input!(quorate_scenarios::Playground::start());
}

mod repair {
    quorate_scenarios::repair!(quorate_scenarios::Playground::start());
}

mod recover {
    quorate_scenarios::recover!(quorate_scenarios::Playground::start());
}

mod versions {
    quorate_scenarios::versions!(quorate_scenarios::Playground::start());
}

mod backup {
    quorate_scenarios::backup!(quorate_scenarios::Playground::start());
}
