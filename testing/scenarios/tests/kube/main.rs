//! Clusters on a real Kubernetes of this machine.

mod alone;
mod backups;
mod cert_manager;
mod conformance;
mod definition;
mod disruptions;
mod hosting;
mod install;
mod ipv6;
mod kamaji;
mod network_policy;
mod pages;
mod readme;
mod rounds;
mod shared;
mod tenants;
mod volumes;
