//! The API as clients see it: through the `kube` crate in process, and through kubectl over HTTP. Refusals are worded as
//! a real kube-apiserver (1.36) words them.
#![expect(clippy::disallowed_methods, reason = "these tests are about what the API does with such requests")]

mod built_in;
mod client;
mod custom;
mod definitions;
mod jobs;
mod kubectl;
mod logs;
mod refusals;
mod server;
mod state;
mod watching;
mod world;
