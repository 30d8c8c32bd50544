//! The replies of a member, in the types of the domain.

use std::str::FromStr;

use quorate_model::snapshot::{Alarm, AlarmKind, KeysHash};
use quorate_model::version::Minor;
use quorate_model::{ClusterId, MemberId, MemberName, PeerUrl, Revision, Version};

use crate::CallError;
use crate::wire;

/// The status of a member, from its own state. Needs no quorum; learners answer too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The id of its cluster.
    pub cluster_id: ClusterId,
    /// Its id.
    pub member_id: MemberId,
    /// The version of its etcd.
    pub version: Version,
    /// The leader it follows; `None` if it knows none, as without a quorum.
    pub leader: Option<MemberId>,
    /// Whether it is a learner in its own state. The member list may be newer (hazard 18).
    pub is_learner: bool,
    /// Its term.
    pub raft_term: u64,
    /// Its committed index.
    pub raft_index: u64,
    /// Its applied index.
    pub raft_applied_index: u64,
    /// The size of the database file, in bytes.
    pub db_size: u64,
    /// The used part of the database file, in bytes.
    pub db_size_in_use: u64,
    /// The quota in bytes; `None` before 3.6, which does not report it, and where there is none.
    pub db_size_quota: Option<u64>,
    /// The revision of its store.
    pub revision: Revision,
    /// The alarms it knows of, of any member.
    pub alarms: Vec<Alarm>,
    /// Its other errors, as etcd writes them.
    pub errors: Vec<String>,
    /// The version of its database file, which follows the cluster version. Before 3.6 it is not reported.
    pub storage_version: Option<Minor>,
    /// The minor version that the cluster is being downgraded to. Before 3.6 it is not reported.
    pub downgrade: Option<Minor>,
}

/// The member list as one member returned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberList {
    /// The cluster.
    pub cluster_id: ClusterId,
    /// The member that returned it.
    pub responder: MemberId,
    /// The members, in the order of the list.
    pub members: Vec<ListedMember>,
}

/// One member in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedMember {
    /// Its id.
    pub id: MemberId,
    /// Its name; `None` until it has started for the first time.
    pub name: Option<MemberName>,
    /// Where its peers reach it.
    pub peer_urls: Vec<PeerUrl>,
    /// Where its clients reach it; empty until it has started for the first time.
    pub client_urls: Vec<String>,
    /// It replicates but does not vote.
    pub is_learner: bool,
}

/// A value and when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredValue {
    /// The value.
    pub value: Vec<u8>,
    /// When it was written.
    pub mod_revision: Revision,
}

/// What a member reports of etcd's auth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthStatus {
    /// Whether it is enabled.
    pub enabled: bool,
    /// The revision of users, roles and permissions: it grows with every change of them.
    pub revision: u64,
}

/// What a role may do with a key or with a range of keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// The key, or the first one of the range.
    pub key: Vec<u8>,
    /// The first key after the range. Empty: `key` alone. One zero byte: all keys from `key` on.
    pub range_end: Vec<u8>,
    /// What is allowed.
    pub access: KeyAccess,
}

/// What a permission allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyAccess {
    /// To read and to watch.
    Read,
    /// To write and to delete.
    Write,
    /// Both.
    ReadWrite,
}

impl MemberStatus {
    /// Whether it is the leader in its own state.
    pub fn is_leader(&self) -> bool {
        self.leader == Some(self.member_id)
    }
}

impl MemberList {
    /// The member with this id.
    pub fn member(&self, id: MemberId) -> Option<&ListedMember> {
        self.members.iter().find(|member| member.id == id)
    }

    /// The member with this peer URL.
    pub fn by_peer_url(&self, url: &PeerUrl) -> Option<&ListedMember> {
        self.members.iter().find(|member| member.peer_urls.contains(url))
    }
}

impl ListedMember {
    /// Whether it has ever started.
    pub fn started(&self) -> bool {
        self.name.is_some()
    }
}

impl TryFrom<wire::StatusResponse> for MemberStatus {
    type Error = CallError;

    fn try_from(reply: wire::StatusResponse) -> Result<Self, CallError> {
        let header = header(reply.header)?;
        // A release candidate ("3.7.0-rc.1") counts as its release.
        let release = reply.version.split(['-', '+']).next().unwrap_or_default();
        let version = Version::from_str(release).map_err(|error| CallError::Unknown(error.to_string()))?;
        // `leader` reports it already.
        let texts = reply.errors.into_iter().filter(|error| error != "etcdserver: no leader");
        let (alarms, errors): (Vec<_>, Vec<_>) = texts.partition(|error| alarm_from_text(error).is_some());
        Ok(Self {
            cluster_id: ClusterId(header.cluster_id),
            member_id: MemberId(header.member_id),
            version,
            leader: (reply.leader != 0).then_some(MemberId(reply.leader)),
            is_learner: reply.is_learner,
            raft_term: reply.raft_term,
            raft_index: reply.raft_index,
            raft_applied_index: reply.raft_applied_index,
            db_size: reply.db_size.max(0).cast_unsigned(),
            db_size_in_use: reply.db_size_in_use.max(0).cast_unsigned(),
            db_size_quota: u64::try_from(reply.db_size_quota).ok().filter(|quota| *quota > 0),
            revision: Revision(header.revision),
            alarms: alarms.iter().filter_map(|text| alarm_from_text(text)).collect(),
            errors,
            storage_version: minor(&reply.storage_version),
            downgrade: reply
                .downgrade_info
                .filter(|info| info.enabled)
                .and_then(|info| minor(&info.target_version)),
        })
    }
}

impl TryFrom<wire::MemberListResponse> for MemberList {
    type Error = CallError;

    fn try_from(reply: wire::MemberListResponse) -> Result<Self, CallError> {
        let header = header(reply.header)?;
        Ok(Self {
            cluster_id: ClusterId(header.cluster_id),
            responder: MemberId(header.member_id),
            members: reply.members.into_iter().map(ListedMember::from).collect(),
        })
    }
}

impl From<wire::Member> for ListedMember {
    fn from(member: wire::Member) -> Self {
        Self {
            id: MemberId(member.id),
            name: (!member.name.is_empty()).then(|| MemberName::new(member.name)),
            peer_urls: member.peer_urls.into_iter().map(PeerUrl::new).collect(),
            client_urls: member.client_urls,
            is_learner: member.is_learner,
        }
    }
}

/// An entry of the alarm list; `None` for kinds unknown here.
pub(crate) fn alarm_from_wire(alarm: wire::AlarmMember) -> Option<Alarm> {
    let kind = match alarm.alarm() {
        wire::AlarmType::None => return None,
        wire::AlarmType::NoSpace => AlarmKind::NoSpace,
        wire::AlarmType::Corrupt => AlarmKind::Corrupt,
    };
    Some(Alarm { member: MemberId(alarm.member_id), kind })
}

/// An alarm in a status, which carries them as protobuf text with spacing that varies:
/// `memberID:10501334649042878790  alarm:NOSPACE`. The proper list costs a raft entry. One without a member, such as the
/// CORRUPT of etcd's periodic check when it does not know which member is wrong, stays an error, and so counts for every
/// member.
fn alarm_from_text(text: &str) -> Option<Alarm> {
    let field = |name: &str| text.split_whitespace().find_map(|field| field.strip_prefix(name));
    let kind = match field("alarm:")? {
        "NOSPACE" => AlarmKind::NoSpace,
        "CORRUPT" => AlarmKind::Corrupt,
        _ => return None,
    };
    Some(Alarm { member: MemberId(field("memberID:")?.parse().ok()?), kind })
}

/// A minor version as etcd writes it: `3.6.0`, or nothing where it is not known.
fn minor(text: &str) -> Option<Minor> {
    Version::from_str(text).ok().map(Version::line)
}

/// The header. Every reply of etcd has one.
/// The hash of the keys up to a revision that was asked for; up to the latest if none was.
pub(crate) fn keys_hash(reply: wire::HashKvResponse, asked: Option<Revision>) -> Result<KeysHash, CallError> {
    let header = header(reply.header)?;
    let latest = Revision(header.revision);
    // 3.5 does not report it.
    let reported = Some(Revision(reply.hash_revision)).filter(|revision| revision.0 > 0);
    Ok(KeysHash {
        member_id: MemberId(header.member_id),
        hash: reply.hash,
        revision: reported.or(asked).unwrap_or(latest),
        compacted: Revision(reply.compact_revision),
        latest,
    })
}

pub(crate) fn header(header: Option<wire::ResponseHeader>) -> Result<wire::ResponseHeader, CallError> {
    header.ok_or_else(|| CallError::Unknown("the reply has no header".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(version: &str, errors: &[&str]) -> wire::StatusResponse {
        wire::StatusResponse {
            header: Some(wire::ResponseHeader { cluster_id: 1, member_id: 2, revision: 3, raft_term: 4 }),
            version: version.to_owned(),
            errors: errors.iter().map(|&error| error.to_owned()).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn alarms_are_parsed_from_the_errors_of_a_status() {
        let spaced = reply(
            "3.6.11",
            &[
                "etcdserver: no leader",
                "memberID:2 alarm:NOSPACE ",
                "memberID:7  alarm:CORRUPT",
                "alarm:CORRUPT",
                "disk on fire",
            ],
        );
        let status = MemberStatus::try_from(spaced).unwrap();
        let alarm = |member, kind| Alarm { member: MemberId(member), kind };
        assert_eq!(status.alarms, [alarm(2, AlarmKind::NoSpace), alarm(7, AlarmKind::Corrupt)]);
        assert_eq!(status.errors, ["alarm:CORRUPT", "disk on fire"], "one without a member counts for all");
        assert_eq!(status.leader, None);
    }

    #[test]
    fn a_release_candidate_counts_as_its_release_and_another_text_is_an_error() {
        assert_eq!(MemberStatus::try_from(reply("3.7.0-rc.1", &[])).unwrap().version, Version::new(3, 7, 0));
        assert!(MemberStatus::try_from(reply("not etcd", &[])).is_err());
    }

    #[test]
    fn the_revision_of_a_hash_is_the_reported_one_else_the_one_that_was_asked_for_else_the_latest() {
        let of = |hash_revision, asked: Option<i64>| {
            let header =
                Some(wire::ResponseHeader { cluster_id: 1, member_id: 2, revision: 9, raft_term: 4 });
            let reply = wire::HashKvResponse { header, hash: 77, compact_revision: 3, hash_revision };
            keys_hash(reply, asked.map(Revision)).unwrap()
        };
        let expected = |revision| KeysHash {
            member_id: MemberId(2),
            hash: 77,
            revision: Revision(revision),
            compacted: Revision(3),
            latest: Revision(9),
        };
        assert_eq!(of(7, Some(7)), expected(7));
        assert_eq!(of(0, Some(7)), expected(7), "3.5");
        assert_eq!(of(0, None), expected(9), "3.5");
        assert!(keys_hash(wire::HashKvResponse::default(), None).is_err(), "no header");
    }
}
