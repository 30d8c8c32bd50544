//! What nothing else can run beside on a real Kubernetes: the API server, nodes, the operator itself go away.

mod api_server;
mod definition;
mod nodes;
mod operator;
