//! What the built-in controllers do, seen from outside: objects go into the store, the controllers run until nothing is
//! left to do, and the store then looks as on a real cluster. Every settling is followed by a second run that must not
//! write.

mod any_history;
mod budgets;
mod cluster;
mod endpoints;
mod garbage;
mod namespaces;
mod running;
mod scheduler;
mod volumes;
