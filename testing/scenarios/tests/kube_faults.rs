//! What breaks and heals, and what is wrong from the start, on a real Kubernetes.

quorate_scenarios::faults!(quorate_scenarios::Kubernetes::start());
quorate_scenarios::input!(quorate_scenarios::Kubernetes::start());
