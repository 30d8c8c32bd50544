//! The life of a cluster on a real Kubernetes.

quorate_scenarios::life!(quorate_scenarios::Kubernetes::start());
