//! Versions, on a real Kubernetes.

quorate_scenarios::versions!(quorate_scenarios::Kubernetes::start());
