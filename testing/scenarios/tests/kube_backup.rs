//! Backups and restores on a real Kubernetes.

quorate_scenarios::backup!(quorate_scenarios::Kubernetes::start());
