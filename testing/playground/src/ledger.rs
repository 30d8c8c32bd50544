//! Assigned addresses and ports: addresses of Pods, local ports of client Services. They are saved in a file, so that
//! a restarted playground uses the same ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};

use crate::home::write_atomically;

/// Each playground on a machine has one block B of this range: Pods are in 127.B.0.0/16, Services in
/// 127.(B+64).0.0/16.
const BLOCKS: std::ops::Range<u8> = 32..96;

/// The port on which a playground listens to reserve its block.
const CLAIM_PORT: u16 = 40127;

/// The first local port of client Services.
const FIRST_PORT: u16 = 32379;

/// The ports that member Pods listen on.
const MEMBER_PORTS: [u16; 4] = [2379, 2380, 2381, 9980];

/// Assigned addresses and ports.
#[derive(Debug)]
pub struct Ledger {
    writer: Writer,
    entries: Mutex<Entries>,
    block: u8,
    _claim: TcpListener,
}

/// The network of this machine cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another program listens on all addresses.
    #[error(
        "port {0} is taken on all addresses of this machine by another program, so no etcd member can listen on it. \
         See which with `ss -ltnp 'sport = :{0}'`, and stop it"
    )]
    PortTaken(u16),
    /// All blocks are in use.
    #[error("{} playgrounds run on this machine already; stop one with `quorate playground down`", BLOCKS.len())]
    NoFreeBlock,
    /// The loopback network is incomplete.
    #[error("cannot listen on {0}; the playground needs the whole of 127.0.0.0/8 on the loopback interface")]
    Loopback(Ipv4Addr, #[source] io::Error),
    /// The file cannot be read or written.
    #[error("cannot read or write {0}")]
    File(PathBuf, #[source] io::Error),
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Entries {
    block: Option<u8>,
    next: u16,
    pods: BTreeMap<String, u16>,
    ports: BTreeMap<String, u16>,
    api_port: Option<u16>,
}

impl Ledger {
    /// Opens the ledger and reserves a block of addresses: the last one, if it is free.
    pub fn open(file: PathBuf) -> Result<Self, LedgerError> {
        let mut entries: Entries = match fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Entries::default(),
            Err(error) => return Err(LedgerError::File(file, error)),
        };
        let before = entries.block;
        let (block, claim) = take_block(before)?;
        for port in MEMBER_PORTS {
            let address = SocketAddr::from((nowhere(block), port));
            if let Err(error) = TcpListener::bind(address)
                && error.kind() == io::ErrorKind::AddrInUse
            {
                return Err(LedgerError::PortTaken(port));
            }
        }
        entries.block = Some(block);
        let refused = |error| LedgerError::File(file.clone(), error);
        write_atomically(&file, &entries.text()).map_err(refused)?;
        let writer = Writer::start(file.clone()).map_err(refused)?;
        Ok(Self { writer, entries: Mutex::new(entries), block, _claim: claim })
    }

    /// The second byte of the addresses of Services.
    pub fn service_block(&self) -> u8 {
        self.block + (BLOCKS.end - BLOCKS.start)
    }

    /// The address of a node, counted from 1.
    pub fn node_address(&self, number: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, self.block, 255, number)
    }

    /// The address of the S3 server.
    pub fn store_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(127, self.block, 255, 200)
    }

    /// An address where nothing listens.
    pub fn nowhere(&self) -> Ipv4Addr {
        nowhere(self.block)
    }

    /// The address of a Pod, always the same. A new Pod gets the address that has been unused longest.
    pub fn pod_address(&self, uid: &str) -> Ipv4Addr {
        let known = self.lock().pods.get(uid).copied();
        let number = known.unwrap_or_else(|| {
            self.change(|entries| {
                let taken: BTreeSet<u16> = entries.pods.values().copied().collect();
                // The last network is for nodes.
                let after = |number: u16| if number >= 0xfeff { 1 } else { number + 1 };
                let mut number = after(entries.next);
                while taken.contains(&number) || number.is_multiple_of(256) {
                    number = after(number);
                }
                entries.next = number;
                entries.pods.insert(uid.to_owned(), number);
                number
            })
        });
        let [high, low] = number.to_be_bytes();
        Ipv4Addr::new(127, self.block, high, low)
    }

    /// Releases the address of a Pod.
    pub fn release_pod(&self, uid: &str) {
        self.change(|entries| {
            entries.pods.remove(uid);
        });
    }

    /// The uids of Pods that have addresses.
    pub fn pods(&self) -> Vec<String> {
        self.lock().pods.keys().cloned().collect()
    }

    /// The local port of a Service, always the same.
    pub fn client_port(&self, service: &str) -> u16 {
        if let Some(port) = self.lock().ports.get(service) {
            return *port;
        }
        self.change(|entries| {
            let taken: BTreeSet<u16> = entries.ports.values().copied().collect();
            let free =
                |port: &u16| !taken.contains(port) && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
            let port = (FIRST_PORT..u16::MAX).find(free).unwrap_or(FIRST_PORT);
            entries.ports.insert(service.to_owned(), port);
            port
        })
    }

    /// The port of the Kubernetes API, if one was chosen.
    pub fn api_port(&self) -> Option<u16> {
        self.lock().api_port
    }

    /// Saves the port of the Kubernetes API.
    pub fn keep_api_port(&self, port: u16) {
        self.change(|entries| entries.api_port = Some(port));
    }

    fn change<T>(&self, change: impl FnOnce(&mut Entries) -> T) -> T {
        let mut entries = self.lock();
        let result = change(&mut entries);
        // While the entries are locked, so that the texts arrive in the order of the changes.
        self.writer.write(entries.text());
        result
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn text(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }
}

/// Writes the file on a thread of its own: no caller waits for the disk. Of several texts that wait, the last is written.
#[derive(Debug)]
struct Writer {
    texts: Option<Sender<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    fn start(file: PathBuf) -> io::Result<Self> {
        let (texts, waiting) = mpsc::channel::<Vec<u8>>();
        let thread = thread::Builder::new().name("ledger".to_owned()).spawn(move || {
            while let Ok(text) = waiting.recv() {
                let newest = waiting.try_iter().last().unwrap_or(text);
                if let Err(error) = write_atomically(&file, &newest) {
                    tracing::warn!(file = %file.display(), %error, "cannot write the ledger; addresses may change with the next start");
                }
            }
        })?;
        Ok(Self { texts: Some(texts), thread: Some(thread) })
    }

    fn write(&self, text: Vec<u8>) {
        // The thread lives as long as this.
        let _ = self.texts.as_ref().map(|texts| texts.send(text));
    }
}

impl Drop for Writer {
    /// Waits until the last text is written.
    fn drop(&mut self) {
        drop(self.texts.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn nowhere(block: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, block, 255, 253)
}

fn take_block(before: Option<u8>) -> Result<(u8, TcpListener), LedgerError> {
    for block in before.into_iter().filter(|block| BLOCKS.contains(block)).chain(BLOCKS) {
        let address = Ipv4Addr::new(127, block, 255, 254);
        match TcpListener::bind((address, CLAIM_PORT)) {
            Ok(claim) => return Ok((block, claim)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(LedgerError::Loopback(address, error)),
        }
    }
    Err(LedgerError::NoFreeBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_with_their_pods_over_restarts_and_are_not_reused_quickly() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ledger.json");
        let ledger = Ledger::open(file.clone()).unwrap();
        let (a, b) = (ledger.pod_address("a"), ledger.pod_address("b"));
        assert_ne!(a, b);
        assert_eq!(ledger.pod_address("a"), a);
        ledger.release_pod("a");
        assert_ne!(ledger.pod_address("c"), a, "given out again at once");
        drop(ledger);
        let ledger = Ledger::open(file).unwrap();
        // Another playground of this machine may have taken the block meanwhile; the address within it stays.
        let within = |address: Ipv4Addr| [address.octets()[2], address.octets()[3]];
        assert_eq!(within(ledger.pod_address("b")), within(b));
    }

    #[test]
    fn two_playgrounds_on_a_machine_have_different_addresses() {
        let dir = tempfile::tempdir().unwrap();
        let one = Ledger::open(dir.path().join("one")).unwrap();
        let other = Ledger::open(dir.path().join("other")).unwrap();
        assert_ne!(one.pod_address("a"), other.pod_address("a"));
        assert_ne!(one.service_block(), other.service_block());
    }

    #[test]
    fn a_client_port_stays_with_its_service() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(dir.path().join("ledger")).unwrap();
        let port = ledger.client_port("default/demo-client");
        assert!(port >= FIRST_PORT);
        assert_ne!(ledger.client_port("default/other-client"), port);
        assert_eq!(ledger.client_port("default/demo-client"), port);
    }
}
