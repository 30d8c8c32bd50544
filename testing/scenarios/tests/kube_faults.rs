//! Faults and recovery, and invalid input, on a real Kubernetes.

quorate_scenarios::faults!(quorate_scenarios::Kubernetes::start());
quorate_scenarios::input!(quorate_scenarios::Kubernetes::start());
quorate_scenarios::repair!(quorate_scenarios::Kubernetes::start());
