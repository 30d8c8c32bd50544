//! Faults that affect every test on a real Kubernetes, so these run alone: the API server, nodes and the operator fail.

mod api_server;
mod drains;
mod nodes;
mod operator;
