//! Who is connected to etcd's client port, from the kernel's socket table. The agent has no rights in Kubernetes, so this is how it
//! learns that clients have stopped coming.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The state of a socket that accepts connections.
const LISTEN: &str = "0A";

/// A connection, by the address of the client.
type Clients = BTreeSet<SocketAddr>;

struct Row {
    local: SocketAddr,
    remote: SocketAddr,
    inode: u64,
}

/// The clients that are connected to one of these addresses, or were a moment ago. Without those of this process.
pub(super) fn clients_of(servers: &[SocketAddr]) -> io::Result<Clients> {
    let mut rows = Vec::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        match fs::read_to_string(table) {
            Ok(text) => rows.extend(text.lines().skip(1).filter_map(row)),
            // A kernel without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let own = own_inodes()?;
    let ours: Clients = rows.iter().filter(|row| own.contains(&row.inode)).map(|row| row.local).collect();
    let to_server = rows.iter().filter(|row| servers.contains(&row.local));
    Ok(to_server.map(|row| row.remote).filter(|client| !ours.contains(client)).collect())
}

/// The sockets of this process.
fn own_inodes() -> io::Result<BTreeSet<u64>> {
    let links = fs::read_dir("/proc/self/fd")?.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    Ok(links
        .filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect())
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...`
fn row(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if *fields.get(3)? == LISTEN {
        return None;
    }
    Some(Row {
        local: address(fields.get(1)?)?,
        remote: address(fields.get(2)?)?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

/// The address in words of 32 bits in the byte order of the machine, the port as a number.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let words = address
        .as_bytes()
        .chunks(8)
        .map(|word| Some(u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?.to_ne_bytes()));
    let bytes: Vec<u8> = words.collect::<Option<Vec<_>>>()?.concat();
    let ip = match <[u8; 4]>::try_from(&*bytes) {
        Ok(bytes) => IpAddr::from(Ipv4Addr::from(bytes)),
        Err(_) => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(&*bytes).ok()?)).to_canonical(),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn rows_of_both_tables_are_read() {
        let four = "   1: 0100007F:094B 0200007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1";
        let row = row(four).unwrap();
        assert_eq!(
            (row.local, row.remote),
            ("127.0.0.1:2379".parse().unwrap(), "127.0.0.2:50000".parse().unwrap())
        );
        assert_eq!(row.inode, 4711);
        let mapped = address("0000000000000000FFFF00000100007F:094B");
        assert_eq!(mapped, Some("127.0.0.1:2379".parse().unwrap()), "a dual-stack socket");
        assert_eq!(address("00000000000000000000000001000000:094B"), Some("[::1]:2379".parse().unwrap()));
    }

    #[test]
    fn listening_sockets_and_our_own_connections_do_not_count() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        assert!(clients_of(&[server]).unwrap().is_empty());
        let _client = TcpStream::connect(server).unwrap();
        assert!(clients_of(&[server]).unwrap().is_empty(), "this process is both ends");
    }
}
