//! Where etcd listens for clients: at every address of the Pod. A Pod of a dual-stack cluster has one of each family. As soon as a
//! Service is dual-stack, too, clients are sent to both, and `$(POD_IP)` of the Pod's template is the first one only.
//!
//! Peers go on to listen at the first one: they find each other by names, and try the next address where one is refused.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr, TcpListener};

use crate::log;

/// The flags with what Services send clients to.
const FOR_CLIENTS: [&str; 2] = ["--listen-client-urls=", "--listen-metrics-urls="];

/// The first address of the Pod, by the downward API.
const FIRST: &str = "POD_IP";

/// All of them, with commas. A Pod that an earlier release created does not have it.
const ALL: &str = "POD_IPS";

/// etcd's command with the Pod's further addresses.
pub(super) fn at_every_address(command: &[OsString]) -> Vec<OsString> {
    let first = std::env::var(FIRST).unwrap_or_default().parse();
    first.map_or_else(|_| command.to_vec(), |first| with_others(command, first, usable(first, addresses())))
}

/// Where clients of etcd may be connected that is reached here: at the same port of every address.
pub(super) fn everywhere(etcd: SocketAddr) -> Vec<SocketAddr> {
    let others = addresses().into_iter().filter(|address| *address != etcd.ip());
    [etcd].into_iter().chain(others.map(|address| SocketAddr::new(address, etcd.port()))).collect()
}

/// The Pod's addresses.
fn addresses() -> Vec<IpAddr> {
    let all = std::env::var(ALL).unwrap_or_default();
    all.split(',').filter_map(|address| address.trim().parse().ok()).collect()
}

/// Those at which this Pod can listen now. With one at which it cannot, etcd would not start.
fn usable(first: IpAddr, addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let can_listen = |address: &IpAddr| match TcpListener::bind((*address, 0)) {
        Ok(_) => true,
        Err(error) => {
            log::warn(&format!("etcd does not listen at {address} of this Pod: {error}"));
            false
        }
    };
    addresses.into_iter().filter(|address| *address != first && can_listen(address)).collect()
}

fn with_others(command: &[OsString], first: IpAddr, others: Vec<IpAddr>) -> Vec<OsString> {
    let first = host(first);
    let for_clients = |flag: &str| FOR_CLIENTS.iter().any(|name| flag.starts_with(name));
    let added = |flag: &OsString| {
        let text = flag.to_str().filter(|flag| for_clients(flag))?;
        let (name, urls) = text.split_once('=')?;
        let of_first: Vec<&str> =
            urls.split(',').filter(|url| url.contains(&format!("//{first}:"))).collect();
        let more = others.iter().flat_map(|other| {
            of_first.iter().map(|url| url.replace(&format!("//{first}:"), &format!("//{}:", host(*other))))
        });
        let all: Vec<String> = urls.split(',').map(str::to_owned).chain(more).collect();
        Some(OsString::from(format!("{name}={}", all.join(","))))
    };
    command.iter().map(|flag| added(flag).unwrap_or_else(|| flag.clone())).collect()
}

/// An address as a part of a URL.
fn host(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_metrics_are_served_at_both_addresses_and_peers_at_the_first() {
        let command = [
            "etcd",
            "--listen-peer-urls=https://10.1.2.3:2380",
            "--listen-client-urls=https://10.1.2.3:2379",
            "--listen-metrics-urls=http://10.1.2.3:2381",
            "--advertise-client-urls=https://demo-0.demo.default.svc:2379",
        ]
        .map(OsString::from);
        let seen = with_others(&command, "10.1.2.3".parse().unwrap(), vec!["fd00::7".parse().unwrap()]);
        let expected = [
            "etcd",
            "--listen-peer-urls=https://10.1.2.3:2380",
            "--listen-client-urls=https://10.1.2.3:2379,https://[fd00::7]:2379",
            "--listen-metrics-urls=http://10.1.2.3:2381,http://[fd00::7]:2381",
            "--advertise-client-urls=https://demo-0.demo.default.svc:2379",
        ];
        assert_eq!(seen, expected.map(OsString::from));
        let six = ["etcd", "--listen-client-urls=https://[fd00::7]:2379"].map(OsString::from);
        let seen = with_others(&six, "fd00::7".parse().unwrap(), vec!["10.1.2.3".parse().unwrap()]);
        assert_eq!(seen[1], "--listen-client-urls=https://[fd00::7]:2379,https://10.1.2.3:2379");
        assert_eq!(with_others(&command, "10.1.2.3".parse().unwrap(), Vec::new()), command);
    }

    #[test]
    fn an_address_at_which_nobody_can_listen_and_the_first_one_are_left_out() {
        let first = "127.0.0.1".parse().unwrap();
        // The second one is kept for documents.
        let addresses = ["127.0.0.1", "192.0.2.7", "127.0.0.2"].map(|address| address.parse().unwrap());
        assert_eq!(usable(first, addresses.to_vec()), ["127.0.0.2".parse::<IpAddr>().unwrap()]);
    }
}
