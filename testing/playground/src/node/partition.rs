//! Nodes that are cut off: their Pods and those of other nodes do not reach each other.
//!
//! All Pods share the network of this machine, so nothing can be filtered. Instead the names of Pods on the other side resolve
//! to an address where nothing listens, and connections that exist are shut down, again and again while the cut lasts: etcd
//! reads its hosts file again after 5 s. The operator and the kubelets reach every Pod by its address.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, Shutdown, TcpStream};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// Which nodes are cut off.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    /// The nodes that are cut off, each from all others.
    pub nodes: BTreeSet<String>,
    /// An address where nothing listens.
    pub nowhere: Ipv4Addr,
}

/// A process of a Pod.
pub(super) struct Placed {
    pub node: String,
    pub pid: i32,
}

impl Partition {
    /// Whether Pods of these nodes do not reach each other.
    pub(crate) fn divides(&self, one: &str, other: &str) -> bool {
        one != other && (self.nodes.contains(one) || self.nodes.contains(other))
    }

    /// Shuts down what connects processes with Pods on the other side.
    pub(super) fn sever(&self, processes: &[Placed], pods: &BTreeMap<Ipv4Addr, String>) {
        let table = fs::read_to_string("/proc/self/net/tcp").unwrap_or_default();
        let servers: BTreeMap<u64, &String> = table
            .lines()
            .filter_map(connection)
            .filter_map(|(inode, server)| Some((inode, pods.get(&server)?)))
            .collect();
        for process in processes {
            for (fd, inode) in sockets(process.pid) {
                if servers.get(&inode).is_some_and(|node| self.divides(&process.node, node)) {
                    // It may be closed meanwhile.
                    let _ = shut_down(process.pid, fd);
                }
            }
        }
    }
}

/// A connection of the kernel's table by the inode of its socket, with the address of the other end.
fn connection(line: &str) -> Option<(u64, Ipv4Addr)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, _) = fields.get(2)?.split_once(':')?;
    let server = Ipv4Addr::from(u32::from_str_radix(address, 16).ok()?.to_ne_bytes());
    Some((fields.get(9)?.parse().ok()?, server))
}

/// The sockets of a process: descriptor and inode.
fn sockets(pid: i32) -> Vec<(i32, u64)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let socket = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, inode))
    };
    entries.filter_map(socket).collect()
}

/// Both ends see the end of the connection.
fn shut_down(pid: i32, fd: i32) -> Option<()> {
    let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    let socket = pidfd_getfd(process, fd, PidfdGetfdFlags::empty()).ok()?;
    TcpStream::from(socket).shutdown(Shutdown::Both).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_connections_between_the_two_sides_are_shut_down() {
        let nowhere = Ipv4Addr::new(127, 0, 0, 99);
        let partition = Partition { nodes: ["node-1".to_owned()].into(), nowhere };
        assert!(partition.divides("node-1", "node-2") && partition.divides("node-3", "node-1"));
        assert!(!partition.divides("node-2", "node-3") && !partition.divides("node-1", "node-1"));

        let address = Ipv4Addr::new(127, 9, 8, 7);
        let listener = TcpListener::bind((address, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_server, _) = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        let own = |node: &str| [Placed { node: node.to_owned(), pid: std::process::id().cast_signed() }];
        let pods = BTreeMap::from([(address, "node-2".to_owned())]);
        partition.sever(&own("node-3"), &pods);
        let blocked = client.read(&mut [0]).unwrap_err();
        assert_eq!(blocked.kind(), std::io::ErrorKind::WouldBlock, "both are on the same side");
        partition.sever(&own("node-1"), &pods);
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "it has ended");
    }
}
