//! The kinds as users and the API server meet them.

mod argocd;
mod backups;
mod definition;
mod etcd_io;
mod in_place;
mod runbook;
mod users;
mod validation;
