//! A world in which everything goes wrong, explored exhaustively and at random: the real planner, the real translation and
//! the real requests, around them models of everything else, and every choice made from outside.
//!
//! - [`world`]: Kubernetes, nodes, the operator's process; [`world::faults`]: what may go wrong
//! - [`etcd`]: membership and data, as etcd has them
//! - [`oracle`]: what must never happen; `goal`: where everything must end; [`ending`]: whether two ends are the same
//! - [`explore`]: every history of a small scope; [`campaign`]: histories by lot
//! - [`history`]: one history, as it can be kept, told again and shortened; [`edits`]: what people may write into a spec
//!
//! Nothing here is linked into the operator, and nothing here waits, sleeps or rolls dice of its own.

pub mod campaign;
pub mod edits;
pub mod ending;
pub mod etcd;
pub mod explore;
mod fingerprint;
mod goal;
pub mod history;
pub mod oracle;
pub mod world;
