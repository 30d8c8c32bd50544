//! All integration tests of this crate, in one program.

mod explore;
mod found;
mod gate;
mod mutants;
mod random;
mod rubbish;
mod world;
