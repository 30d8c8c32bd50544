//! Behaviours that every world runs, on a real Kubernetes.

mod life {
    quorate_scenarios::life!(quorate_scenarios::Kubernetes::start());
}

mod faults {
    quorate_scenarios::faults!(quorate_scenarios::Kubernetes::start());
}

mod input {
    quorate_scenarios::input!(quorate_scenarios::Kubernetes::start());
}

mod repair {
    quorate_scenarios::repair!(quorate_scenarios::Kubernetes::start());
}

mod recover {
    quorate_scenarios::recover!(quorate_scenarios::Kubernetes::start());
}

mod versions {
    quorate_scenarios::versions!(quorate_scenarios::Kubernetes::start());
}

mod backup {
    quorate_scenarios::backup!(quorate_scenarios::Kubernetes::start());
}
