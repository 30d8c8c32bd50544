//! The built-in controllers from outside: objects are written, the controllers run until they settle, and the store
//! must be as on a real cluster. Each settling is followed by a second run that must not write.

mod any_history;
mod budgets;
mod cluster;
mod endpoints;
mod garbage;
mod jobs;
mod jobs_any_history;
mod namespaces;
mod running;
mod scheduler;
mod volumes;
