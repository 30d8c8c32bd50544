//! R22: the hash that stands beside the record in status. An API server whose CustomResourceDefinition has no schema for a field drops the
//! field from every object that it stores or returns, and reports no error. A person may edit status, and a backup tool may restore a part of
//! it. The hash shows all of these.

use quorate_api::keys;
use quorate_api::status::EtcdClusterStatus;
use quorate_model::Record;
use quorate_model::mutants::{Rule, is_broken};
use quorate_model::record::RecordDoubt;
use sha2::{Digest, Sha256};

use super::{from_status, into_status};
use crate::certificate::parsed::hex;

/// The SHA-256 of the record in a status, in hexadecimal. The record is written to an empty status first, so that nothing that status only
/// reports changes the hash.
pub fn hash(status: &EtcdClusterStatus) -> String {
    let mut canonical =
        EtcdClusterStatus { accepted_spec: status.accepted_spec.clone(), ..EtcdClusterStatus::default() };
    into_status(&from_status(status), &mut canonical);
    // Fields have the order of their declarations, and maps are ordered by key. The recorded status of a test has a hash, and so notices a
    // declaration that moves.
    hex(&Sha256::digest(serde_json::to_vec(&canonical).unwrap_or_default()))
}

/// Whether the record in a status is whole: it has its hash, or nothing was ever recorded.
pub fn is_whole(status: &EtcdClusterStatus) -> bool {
    is_witnessed(status, &hash(status))
}

fn is_witnessed(status: &EtcdClusterStatus, hash: &str) -> bool {
    match &status.record_hash {
        Some(recorded) => recorded == hash,
        None => status.accepted_spec.is_none() && from_status(status) == Record::default(),
    }
}

/// Why the record of an EtcdCluster is not known to be whole, if so. Whoever names the hash of the record as it is confirms it.
pub(crate) fn doubt(status: &EtcdClusterStatus, confirmed: Option<&String>) -> Option<RecordDoubt> {
    if let Some(why) = status.from_newer_version() {
        return Some(RecordDoubt::Newer(why));
    }
    let hash = hash(status);
    let is_known = is_witnessed(status, &hash) || confirmed == Some(&hash) || is_broken(Rule::R22);
    (!is_known).then_some(RecordDoubt::Incomplete { hash })
}

/// What a person writes to confirm the record with this hash.
pub fn confirmation(hash: &str) -> String {
    format!("{}={hash}", keys::CONFIRM_RECORD)
}
