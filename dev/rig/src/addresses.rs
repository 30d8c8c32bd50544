//! Addresses: of nodes, Pods and Services. Every cluster of a machine has its own, so several can run.

use std::net::Ipv4Addr;

/// The addresses of one cluster.
#[derive(Clone, Copy)]
pub struct Addresses {
    index: u8,
}

/// The largest number of nodes. Each needs a subnet for its Pods.
pub const NODES: u8 = 9;

impl Addresses {
    /// The addresses of the machine's cluster of this number, below 16.
    pub fn new(index: u8) -> Self {
        Self { index }
    }

    /// The host, as nodes and Pods see it.
    pub fn host(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.index, 1)
    }

    /// The control plane, and the cluster's DNS.
    pub fn control(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.index, 2)
    }

    /// The API server.
    pub fn api(self) -> String {
        format!("https://{}:6443", self.control())
    }

    /// A node, from 1.
    pub fn node(self, node: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.index, 10 + node)
    }

    /// The prefix length of the network of host, control plane and nodes.
    pub const PREFIX: u8 = 24;

    /// The Pods of a node.
    pub fn pods_of(self, node: u8) -> String {
        format!("10.214.{}.0/24", self.index * 16 + node - 1)
    }

    /// The Pods of all nodes.
    pub fn pods(self) -> String {
        format!("10.214.{}.0/20", self.index * 16)
    }

    /// The Services.
    pub fn services(self) -> String {
        format!("10.215.{}.0/20", self.index * 16)
    }

    /// The Service of the API server: the first of all.
    pub fn api_service(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 215, self.index * 16, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_of_one_machine_share_no_address() {
        let last = Addresses::new(15);
        assert_eq!(last.pods(), "10.214.240.0/20");
        assert_eq!(last.pods_of(NODES), "10.214.248.0/24");
        assert_eq!(Addresses::new(14).pods_of(NODES), "10.214.232.0/24");
        assert_eq!(last.services(), "10.215.240.0/20");
        assert_eq!(last.api_service(), Ipv4Addr::new(10, 215, 240, 1));
        assert_eq!(last.node(NODES), Ipv4Addr::new(10, 213, 15, 19));
    }
}
