//! Clusters of real etcd in the playground.

mod alerts;
mod auth;
mod auth_restores;
mod backups_before;
mod certificates;
mod connection;
mod corruption;
mod disaster;
mod gitops;
mod histories;
mod kamaji;
mod model;
mod playground;
mod playground_faults;
mod playground_jobs;
mod rotate;
mod shared;
mod space;
mod stores;
mod trust;
mod users;
