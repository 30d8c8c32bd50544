//! The whole operator against an API server in the same process.

mod backups;
mod backups_before;
mod calm;
mod campaign;
mod catalog;
mod certificates;
mod clients;
mod connection;
mod crash;
mod crash_life;
mod faults;
mod figures;
mod issuance;
mod leader;
mod life;
mod network_policy;
mod other_operator;
mod outdated;
mod own_namespace;
mod publish;
mod refused;
mod secrecy;
mod shell;
mod watches;
mod waves;
mod world;
