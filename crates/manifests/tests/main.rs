//! Objects in, requests and status out.

mod available;
mod backups;
mod backups_before;
mod certificates;
mod connection;
mod in_place;
mod jobs;
mod messages;
mod metadata;
mod network_policy;
mod newer;
mod objects;
mod observe;
mod peers;
mod placement;
mod quarantine;
mod ready;
mod record;
mod request;
mod restore;
mod restored;
mod rubbish;
mod status;
mod target;
mod trust;
mod world;
