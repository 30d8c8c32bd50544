//! The in-memory Kubernetes as clients and controllers meet it.

mod api;
mod controllers;
