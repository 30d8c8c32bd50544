//! Where etcd listens for clients: with TLS at every address of the Pod. A Pod of a dual-stack cluster has one of each family. As soon as
//! a Service is dual-stack, too, clients are sent to both, and `$(POD_IP)` of the Pod's template is the first one only.
//!
//! What whoever gets there may read stays at the first one: without TLS the data, and the metrics. The second address is often one that
//! the whole internet can route to. Peers stay there, too: they find each other by names, and try the next address where one is refused.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::log;

/// The flag with what Services send clients to, and the scheme that asks them for a certificate.
const FOR_CLIENTS: &str = "--listen-client-urls=";
const TLS: &str = "https://";

/// How long an address may take until it can be listened at: an IPv6 address is looked for on its network first (RFC 4862, a second or two).
const SETTLES_WITHIN: Duration = Duration::from_secs(5);

/// How often that is tried.
const PACE: Duration = Duration::from_millis(100);

/// The first address of the Pod, by the downward API.
const FIRST: &str = "POD_IP";

/// All of them, with commas.
const ALL: &str = "POD_IPS";

/// etcd's command with the Pod's further addresses.
pub(super) async fn at_every_address(command: &[OsString]) -> Vec<OsString> {
    let Ok(first) = std::env::var(FIRST).unwrap_or_default().parse() else { return command.to_vec() };
    let others = usable(first, addresses(), SETTLES_WITHIN).await;
    with_others(command, first, &others)
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

/// Those at which this Pod can listen. With one at which it cannot, etcd would not start.
async fn usable(first: IpAddr, addresses: Vec<IpAddr>, within: Duration) -> Vec<IpAddr> {
    let end = Instant::now() + within;
    let mut usable = Vec::new();
    for address in addresses.into_iter().filter(|address| *address != first) {
        match can_listen(address, end).await {
            Ok(()) => usable.push(address),
            Err(error) => log::warn(&format!(
                "etcd does not listen at {address} of this Pod, and refuses clients that a Service sends there: {error}"
            )),
        }
    }
    usable
}

async fn can_listen(address: IpAddr, end: Instant) -> io::Result<()> {
    loop {
        match TcpListener::bind((address, 0)) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() >= end => return Err(error),
            Err(_) => sleep(PACE).await,
        }
    }
}

fn with_others(command: &[OsString], first: IpAddr, others: &[IpAddr]) -> Vec<OsString> {
    let added = |flag: &OsString| {
        let at: SocketAddr = flag.to_str()?.strip_prefix(FOR_CLIENTS)?.strip_prefix(TLS)?.parse().ok()?;
        let addresses = (at.ip() == first).then(|| [first].into_iter().chain(others.iter().copied()))?;
        let urls = addresses.map(|address| format!("{TLS}{}", SocketAddr::new(address, at.port())));
        Some(OsString::from(format!("{FOR_CLIENTS}{}", urls.collect::<Vec<_>>().join(","))))
    };
    command.iter().map(|flag| added(flag).unwrap_or_else(|| flag.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_with_tls_are_served_at_both_addresses_and_all_else_stays_at_the_first() {
        let command = [
            "etcd",
            "--listen-peer-urls=https://10.1.2.3:2380",
            "--listen-client-urls=https://10.1.2.3:2379",
            "--listen-metrics-urls=http://10.1.2.3:2381",
            "--advertise-client-urls=https://demo-0.demo.default.svc:2379",
        ]
        .map(OsString::from);
        let (four, six): (IpAddr, IpAddr) = ("10.1.2.3".parse().unwrap(), "fd00::7".parse().unwrap());
        let seen = with_others(&command, four, &[six]);
        assert_eq!(seen[2], "--listen-client-urls=https://10.1.2.3:2379,https://[fd00::7]:2379");
        let others = |flags: &[OsString]| [&flags[..2], &flags[3..]].concat();
        assert_eq!(others(&seen), others(&command));
        let first_six = ["--listen-client-urls=https://[fd00::7]:2379"].map(OsString::from);
        let seen = with_others(&first_six, six, &[four]);
        assert_eq!(seen[0], "--listen-client-urls=https://[fd00::7]:2379,https://10.1.2.3:2379");
        assert_eq!(with_others(&command, four, &[]), command);
        let plain = ["--listen-client-urls=http://10.1.2.3:2379"].map(OsString::from);
        assert_eq!(with_others(&plain, four, &[six]), plain, "whoever gets there may read all data");
    }

    #[tokio::test]
    async fn an_address_at_which_nobody_can_listen_and_the_first_one_are_left_out() {
        let first = "127.0.0.1".parse().unwrap();
        // The second one is kept for documents.
        let addresses = ["127.0.0.1", "192.0.2.7", "127.0.0.2"].map(|address| address.parse().unwrap());
        let seen = usable(first, addresses.to_vec(), Duration::from_millis(200)).await;
        assert_eq!(seen, ["127.0.0.2".parse::<IpAddr>().unwrap()]);
    }
}
