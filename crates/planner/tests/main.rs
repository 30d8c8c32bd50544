//! Plans for observed situations.

mod adopt;
mod attempts;
mod backups_before;
mod certificates;
mod claims;
mod clients;
mod corruption;
mod delivery;
mod evictions;
mod hazards;
mod health;
mod in_place;
mod leadership;
mod learners;
mod liveness;
mod losses;
mod placement;
mod recover;
mod replace;
mod restore;
mod rules;
mod space;
mod traces;
mod versions;
mod volumes;
mod world;
