//! Addresses: of nodes, Pods and Services. Every cluster of a machine has its own, so several can run.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The addresses of one cluster in one family.
#[derive(Clone, Copy)]
pub struct Addresses {
    index: u8,
    family: Family,
}

/// The families of a cluster's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Families {
    /// IPv4 only.
    #[default]
    Ipv4,
    /// IPv6 only.
    Ipv6,
    /// Dual stack: nodes, Pods and Services have addresses of both families, IPv4 first.
    Dual,
}

/// The family of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Such as 10.213.0.2.
    Ipv4,
    /// Such as fd00:d5::2.
    Ipv6,
}

/// The largest number of nodes. Each needs a subnet for its Pods.
pub const NODES: u8 = 9;

/// The first part of the addresses of nodes, Pods and Services.
const PARTS: [u8; 3] = [213, 214, 215];

impl Families {
    /// They, the first one first: Services that ask for none have an address of that one.
    pub fn list(self) -> &'static [Family] {
        match self {
            Self::Ipv4 => &[Family::Ipv4],
            Self::Ipv6 => &[Family::Ipv6],
            Self::Dual => &[Family::Ipv4, Family::Ipv6],
        }
    }
}

impl Addresses {
    /// The addresses of the machine's cluster of this number, below 16.
    pub fn new(index: u8, family: Family) -> Self {
        Self { index, family }
    }

    /// The host, as nodes and Pods see it.
    pub fn host(self) -> IpAddr {
        self.of_link(1)
    }

    /// The control plane, and the cluster's DNS.
    pub fn control(self) -> IpAddr {
        self.of_link(2)
    }

    /// The API server.
    pub fn api(self) -> String {
        format!("https://{}:6443", in_url(self.control()))
    }

    /// A node, from 1.
    pub fn node(self, node: u8) -> IpAddr {
        self.of_link(10 + node)
    }

    /// The prefix length of the network of host, control plane and nodes.
    pub fn prefix(self) -> u8 {
        match self.family {
            Family::Ipv4 => 24,
            Family::Ipv6 => 64,
        }
    }

    /// What `ip address` is called with besides: an IPv6 address is else not used until no neighbour has it for a second.
    pub fn at_once(self) -> &'static str {
        match self.family {
            Family::Ipv4 => "",
            Family::Ipv6 => " nodad",
        }
    }

    /// The switch by which a node forwards packets, below /proc/sys/net.
    pub fn forwards(self) -> &'static str {
        match self.family {
            Family::Ipv4 => "ipv4/ip_forward",
            Family::Ipv6 => "ipv6/conf/all/forwarding",
        }
    }

    /// The Pods of a node.
    pub fn pods_of(self, node: u8) -> String {
        match self.family {
            Family::Ipv4 => format!("10.{}.{}.0/24", PARTS[1], self.index * 16 + node - 1),
            Family::Ipv6 => format!("{}/64", self.v6(1, u16::from(node), 0)),
        }
    }

    /// The Pods of all nodes.
    pub fn pods(self) -> String {
        match self.family {
            Family::Ipv4 => format!("10.{}.{}.0/20", PARTS[1], self.index * 16),
            Family::Ipv6 => format!("{}/48", self.v6(1, 0, 0)),
        }
    }

    /// The Services.
    pub fn services(self) -> String {
        match self.family {
            Family::Ipv4 => format!("10.{}.{}.0/20", PARTS[2], self.index * 16),
            Family::Ipv6 => format!("{}/112", self.v6(2, 0, 0)),
        }
    }

    /// The Service of the API server: the first of all.
    pub fn api_service(self) -> IpAddr {
        match self.family {
            Family::Ipv4 => Ipv4Addr::new(10, PARTS[2], self.index * 16, 1).into(),
            Family::Ipv6 => self.v6(2, 0, 1).into(),
        }
    }

    fn of_link(self, last: u8) -> IpAddr {
        match self.family {
            Family::Ipv4 => Ipv4Addr::new(10, PARTS[0], self.index, last).into(),
            Family::Ipv6 => self.v6(0, 0, u16::from(last)).into(),
        }
    }

    fn v6(self, part: usize, net: u16, last: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, u16::from(PARTS[part]), u16::from(self.index), net, 0, 0, 0, last)
    }
}

/// An address as a part of a URL.
pub fn in_url(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_of_one_machine_share_no_address() {
        let last = Addresses::new(15, Family::Ipv4);
        assert_eq!(last.pods(), "10.214.240.0/20");
        assert_eq!(last.pods_of(NODES), "10.214.248.0/24");
        assert_eq!(Addresses::new(14, Family::Ipv4).pods_of(NODES), "10.214.232.0/24");
        assert_eq!(last.services(), "10.215.240.0/20");
        assert_eq!(last.api_service(), Ipv4Addr::new(10, 215, 240, 1));
        assert_eq!(last.node(NODES), Ipv4Addr::new(10, 213, 15, 19));
    }

    #[test]
    fn all_addresses_are_of_one_family() {
        let cluster = Addresses::new(3, Family::Ipv6);
        assert_eq!(cluster.api(), "https://[fd00:d5:3::2]:6443");
        assert_eq!(cluster.node(1).to_string(), "fd00:d5:3::b");
        assert_eq!(cluster.pods(), "fd00:d6:3::/48");
        assert_eq!(cluster.pods_of(2), "fd00:d6:3:2::/64");
        assert_eq!(cluster.services(), "fd00:d7:3::/112");
        assert_eq!(cluster.api_service().to_string(), "fd00:d7:3::1");
    }
}
