//! Real etcd processes for tests, on loopback addresses of their own and in temporary directories. Dropping the value kills
//! them, also in a failing test; the kernel kills them when the test process dies.
//!
//! The binaries are `etcd-3.5`, `etcd-3.6` and `etcd-3.7` in `$QUORATE_ETCD_BIN_DIR`, or where `cargo xtask tools` puts
//! them. A test fails without its etcd.

mod address;
mod binary;
mod cluster;
mod member;
mod pki;
mod wait;

pub use address::own_address;
pub use binary::etcd;
pub use cluster::{Cluster, PEER_NAME, Setup};
pub use member::Member;
pub use pki::{Leaf, Pki};
pub use wait::eventually;

use quorate_model::Minor;
use quorate_model::version::KNOWN_MINORS;

/// The minor versions that every behaviour is tested on.
pub const MINORS: [Minor; 3] = [KNOWN_MINORS[0].minor, KNOWN_MINORS[1].minor, KNOWN_MINORS[2].minor];
