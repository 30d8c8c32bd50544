//! Loopback addresses that no other test process uses.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// A loopback address of this process's own, on which etcd's ports are free.
pub fn own_address() -> IpAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..1000 {
        let turn = NEXT.fetch_add(1, Ordering::Relaxed);
        let [.., high, low] = process::id().wrapping_add((turn / 64) << 12).to_be_bytes();
        let [.., turn] = (turn % 64).to_be_bytes();
        let address = IpAddr::from(Ipv4Addr::new(127, 128 + turn, high, low.clamp(1, 254)));
        if [2379, 2380].into_iter().all(|port| TcpListener::bind((address, port)).is_ok()) {
            return address;
        }
    }
    panic!("no free loopback address found");
}
