//! A lost quorum, on a real Kubernetes.

quorate_scenarios::recover!(quorate_scenarios::Kubernetes::start());
