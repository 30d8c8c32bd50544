//! Clusters on a real Kubernetes of this machine.

mod alone;
mod conformance;
mod definition;
mod disruptions;
mod install;
mod ipv6;
mod readme;
mod shared;
mod tenants;
mod volumes;
