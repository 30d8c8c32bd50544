//! The guard's decision: whether etcd may start on a volume. [`judge`] is a pure function. The agent calls it with what it
//! read from the disk, the simulation with its modelled volume.
//!
//! | on the volume | data may be absent | data required |
//! |---|---|---|
//! | nothing | `Fit` | `DataMissing` |
//! | own identity, no data yet | `Fit` (1) | `DataMissing` |
//! | own identity, data were seen before and are gone | `DataMissing` (2) | `DataMissing` |
//! | own identity, own data | `Fit` (3) | `Fit` |
//! | own identity, data of another cluster | `ForeignData` | `ForeignData` |
//! | no identity, data | `ForeignData` | `ForeignData` |
//! | identity of another member, cluster or bootstrap attempt | `ForeignIdentity` (4) | `ForeignIdentity` |
//! | own identity, data that do not open | `CorruptData` | `CorruptData` |
//!
//! 1. A crash between the guard and etcd's first write must not make the member unusable.
//! 2. The identity file records that a guard has seen data. A volume that was emptied since must not start as new.
//! 3. Token and name are used for one incarnation only (R2), so these are the data of the very member that starts: its Pod
//!    was created again before the operator observed that it joined. etcd resumes them, whatever `--initial-cluster-state`
//!    says.
//! 4. The token names the incarnation, so the identity file decides alone, with data beside it or without. The file of
//!    an earlier attempt is another incarnation's (R2), and its member must neither resume nor start as new here (R1).
//!
//! A member whose data come from a restore never starts on nothing: [`judge_restored`] requires data, and that this very attempt has
//! restored them. Two members that start empty would be a quorum beside one that was restored.
//!
//! A volume with the same token and another cluster uid is an adopted one: the operator passes the old token only where a
//! person asked it to adopt. The identity is renewed.

use std::fmt;
use std::str::FromStr;

use crate::ids::ClusterId;
use crate::names::{ClusterUid, MemberName, Token};

/// What the identity file of a volume says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VolumeIdentity {
    /// The EtcdCluster.
    pub cluster_uid: ClusterUid,
    /// The incarnation: `--initial-cluster-token`.
    pub token: Token,
    /// The member.
    pub member: MemberName,
    /// A guard has seen data on the volume.
    pub data_seen: bool,
}

/// What lies on a volume.
#[derive(Clone, Copy, Debug)]
pub struct VolumeContents<'a> {
    /// The identity file, if there is one.
    pub identity: Option<&'a VolumeIdentity>,
    /// etcd's data.
    pub data: EtcdData,
    /// Why etcd could not open them, if so.
    pub corrupt: Option<&'a str>,
}

/// etcd's data, as etcd itself decides: it resumes where there is a log, and begins anew where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdData {
    /// There is no log.
    Absent,
    /// There is a log.
    Present {
        /// The cluster that wrote it; `None` if the log is unreadable.
        cluster_id: Option<ClusterId>,
    },
}

/// What a volume must be for a member to start on it.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The EtcdCluster.
    pub cluster_uid: ClusterUid,
    /// The incarnation: `--initial-cluster-token`.
    pub token: Token,
    /// The member.
    pub member: MemberName,
    /// The cluster id, once it is recorded.
    pub cluster_id: Option<ClusterId>,
    /// The member has joined its cluster, so its data must be there.
    pub data_required: bool,
}

/// Why etcd must not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In one word.
    pub verdict: GuardVerdict,
    /// In a sentence.
    pub message: String,
}

/// Whether the member may start on the volume. If so, the identity to write to it.
pub fn judge(contents: &VolumeContents<'_>, expected: &Expected) -> Result<VolumeIdentity, Refusal> {
    let own = own(contents, expected);
    is_own_volume(contents, &own)?;
    is_own_data(contents, expected)?;
    has_data_if_required(contents, expected)?;
    match contents.corrupt {
        Some(why) => Err(Refusal::new(GuardVerdict::CorruptData, why)),
        None => Ok(own),
    }
}

/// As [`judge`], for a member that begins with the data of a restore. `restored`: the token of the restore that made the data, as the volume
/// records it.
pub fn judge_restored(
    contents: &VolumeContents<'_>,
    expected: &Expected,
    restored: Option<&Token>,
) -> Result<VolumeIdentity, Refusal> {
    if !contents.data.is_present() && !contents.identity.is_some_and(|identity| identity.data_seen) {
        let message = "the volume has no etcd data, but this member begins with those of a restore";
        is_own_volume(contents, &own(contents, expected))?;
        return Err(Refusal::new(GuardVerdict::DataMissing, message));
    }
    let identity = judge(contents, expected)?;
    if restored == Some(&expected.token) {
        return Ok(identity);
    }
    let by = restored.map_or_else(|| "no restore".to_owned(), |token| format!("the restore of {token}"));
    let message = format!("the data on the volume come from {by}, not from that of {}", expected.token);
    Err(Refusal::new(GuardVerdict::ForeignData, message))
}

fn own(contents: &VolumeContents<'_>, expected: &Expected) -> VolumeIdentity {
    VolumeIdentity {
        cluster_uid: expected.cluster_uid.clone(),
        token: expected.token.clone(),
        member: expected.member.clone(),
        data_seen: contents.data.is_present() || contents.identity.is_some_and(|identity| identity.data_seen),
    }
}

fn is_own_volume(contents: &VolumeContents<'_>, own: &VolumeIdentity) -> Result<(), Refusal> {
    match contents.identity {
        Some(identity) if (&identity.member, &identity.token) == (&own.member, &own.token) => Ok(()),
        Some(identity) => Err(Refusal::new(
            GuardVerdict::ForeignIdentity,
            format!("the volume belongs to {identity}, not to {own}"),
        )),
        None if contents.data.is_present() => Err(Refusal::new(
            GuardVerdict::ForeignData,
            "the volume has etcd data and no identity file, so this member did not write them",
        )),
        None => Ok(()),
    }
}

fn is_own_data(contents: &VolumeContents<'_>, expected: &Expected) -> Result<(), Refusal> {
    match (contents.data, expected.cluster_id) {
        (EtcdData::Present { cluster_id: Some(found) }, Some(own)) if found != own => Err(Refusal::new(
            GuardVerdict::ForeignData,
            format!("the data on the volume belong to cluster {found}, not to {own}"),
        )),
        (EtcdData::Present { .. } | EtcdData::Absent, _) => Ok(()),
    }
}

fn has_data_if_required(contents: &VolumeContents<'_>, expected: &Expected) -> Result<(), Refusal> {
    if contents.data.is_present() {
        return Ok(());
    }
    let missing = |why| {
        let message = format!("the volume has no etcd data, but {why}");
        Err(Refusal::new(GuardVerdict::DataMissing, message))
    };
    if expected.data_required {
        return missing("the member has joined its cluster before");
    }
    if contents.identity.is_some_and(|identity| identity.data_seen) {
        return missing("it had some at an earlier start");
    }
    Ok(())
}

impl EtcdData {
    /// Whether there is a log.
    pub fn is_present(self) -> bool {
        match self {
            Self::Present { .. } => true,
            Self::Absent => false,
        }
    }
}

impl Refusal {
    /// Etcd must not start, for this reason.
    pub fn new(verdict: GuardVerdict, message: impl Into<String>) -> Self {
        Self { verdict, message: message.into() }
    }
}

impl fmt::Display for VolumeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member {} of cluster {} (token {})", self.member, self.cluster_uid, self.token)
    }
}

/// Whether etcd may start on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GuardVerdict {
    /// The volume is this member's and has the data it must have; etcd may start.
    Fit,
    /// The volume must have data and has none: it was emptied.
    DataMissing,
    /// The data belong to another cluster, or no identity file says whose they are.
    ForeignData,
    /// The identity file names another member, cluster or bootstrap attempt.
    ForeignIdentity,
    /// etcd could not open the data.
    CorruptData,
    /// The volume cannot be written.
    NotWritable,
    /// No space is left.
    DiskFull,
    /// etcd is older than its data, and has refused them.
    DataTooNew,
}

impl GuardVerdict {
    /// Every verdict.
    pub const ALL: [Self; 8] = [
        Self::Fit,
        Self::DataMissing,
        Self::ForeignData,
        Self::ForeignIdentity,
        Self::CorruptData,
        Self::NotWritable,
        Self::DiskFull,
        Self::DataTooNew,
    ];

    /// Whether the member's data are not on its volume, or cannot be read. A volume that cannot be written, is full, or is that of a newer etcd, has
    /// them.
    pub fn is_loss(self) -> bool {
        match self {
            Self::DataMissing | Self::ForeignData | Self::ForeignIdentity | Self::CorruptData => true,
            Self::Fit | Self::NotWritable | Self::DiskFull | Self::DataTooNew => false,
        }
    }

    /// Its name in the termination message and in conditions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fit => "Fit",
            Self::DataMissing => "DataMissing",
            Self::ForeignData => "ForeignData",
            Self::ForeignIdentity => "ForeignIdentity",
            Self::CorruptData => "CorruptData",
            Self::NotWritable => "NotWritable",
            Self::DiskFull => "DiskFull",
            Self::DataTooNew => "DataTooNew",
        }
    }
}

impl fmt::Display for GuardVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for GuardVerdict {
    type Err = UnknownVerdict;

    fn from_str(text: &str) -> Result<Self, UnknownVerdict> {
        Self::ALL
            .into_iter()
            .find(|verdict| verdict.as_str() == text)
            .ok_or_else(|| UnknownVerdict(text.to_owned()))
    }
}

/// The text is not the name of a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVerdict(pub String);

impl fmt::Display for UnknownVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a verdict of the guard", self.0)
    }
}

impl std::error::Error for UnknownVerdict {}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(cluster: &str, token: &str, member: &str, data_seen: bool) -> VolumeIdentity {
        VolumeIdentity {
            cluster_uid: ClusterUid::new(cluster),
            token: Token::new(token),
            member: MemberName::new(member),
            data_seen,
        }
    }

    fn verdict(identity: Option<&VolumeIdentity>, data: EtcdData, data_required: bool) -> GuardVerdict {
        let expected = Expected {
            cluster_uid: ClusterUid::new("uid-1"),
            token: Token::new("uid-1-1"),
            member: MemberName::new("demo-0"),
            cluster_id: Some(ClusterId(7)),
            data_required,
        };
        judge(&VolumeContents { identity, data, corrupt: None }, &expected)
            .map_or_else(|refusal| refusal.verdict, |_| GuardVerdict::Fit)
    }

    #[test]
    fn the_table_of_verdicts() {
        use GuardVerdict::{DataMissing, Fit, ForeignData, ForeignIdentity};
        const ABSENT: EtcdData = EtcdData::Absent;
        const OWN: EtcdData = EtcdData::Present { cluster_id: Some(ClusterId(7)) };
        const OTHER: EtcdData = EtcdData::Present { cluster_id: Some(ClusterId(8)) };
        let unused = identity("uid-1", "uid-1-1", "demo-0", false);
        let used = identity("uid-1", "uid-1-1", "demo-0", true);
        let adopted = identity("uid-0", "uid-1-1", "demo-0", true);
        let other_member = identity("uid-1", "uid-1-1", "demo-1", true);
        let other_cluster = identity("uid-2", "uid-2-1", "demo-0", true);
        let other_attempt = identity("uid-1", "uid-1-2", "demo-0", true);
        for (identity, data, may_be_absent, required) in [
            (None, ABSENT, Fit, DataMissing),
            (None, OWN, ForeignData, ForeignData),
            (Some(&unused), ABSENT, Fit, DataMissing),
            (Some(&unused), OWN, Fit, Fit),
            (Some(&used), ABSENT, DataMissing, DataMissing),
            (Some(&used), OWN, Fit, Fit),
            (Some(&used), OTHER, ForeignData, ForeignData),
            (Some(&used), EtcdData::Present { cluster_id: None }, Fit, Fit),
            (Some(&adopted), OWN, Fit, Fit),
            (Some(&other_member), ABSENT, ForeignIdentity, ForeignIdentity),
            (Some(&other_member), OWN, ForeignIdentity, ForeignIdentity),
            (Some(&other_cluster), OTHER, ForeignIdentity, ForeignIdentity),
            (Some(&other_attempt), ABSENT, ForeignIdentity, ForeignIdentity),
            (Some(&other_attempt), OWN, ForeignIdentity, ForeignIdentity),
        ] {
            assert_eq!(verdict(identity, data, false), may_be_absent, "{identity:?} {data:?}");
            assert_eq!(verdict(identity, data, true), required, "{identity:?} {data:?}, required");
        }
    }

    #[test]
    fn a_member_of_a_restore_starts_only_on_data_of_that_very_restore() {
        use GuardVerdict::{DataMissing, Fit, ForeignData, ForeignIdentity};
        const OWN: EtcdData = EtcdData::Present { cluster_id: None };
        let expected = Expected {
            cluster_uid: ClusterUid::new("uid-1"),
            token: Token::new("uid-1-1"),
            member: MemberName::new("demo-0"),
            cluster_id: None,
            data_required: false,
        };
        let unused = identity("uid-1", "uid-1-1", "demo-0", false);
        let used = identity("uid-1", "uid-1-1", "demo-0", true);
        let other = identity("uid-1", "uid-1-2", "demo-0", false);
        let (this, earlier) = (Token::new("uid-1-1"), Token::new("uid-1-0"));
        for (identity, data, restored, verdict) in [
            (None, EtcdData::Absent, None, DataMissing),
            (Some(&unused), EtcdData::Absent, None, DataMissing),
            (Some(&unused), EtcdData::Absent, Some(&this), DataMissing),
            (Some(&used), EtcdData::Absent, Some(&this), DataMissing),
            (Some(&other), EtcdData::Absent, Some(&this), ForeignIdentity),
            (None, OWN, Some(&this), ForeignData),
            (Some(&unused), OWN, None, ForeignData),
            (Some(&unused), OWN, Some(&earlier), ForeignData),
            (Some(&unused), OWN, Some(&this), Fit),
            (Some(&used), OWN, Some(&this), Fit),
        ] {
            let judged =
                judge_restored(&VolumeContents { identity, data, corrupt: None }, &expected, restored);
            let found = judged.map_or_else(|refusal| refusal.verdict, |_| Fit);
            assert_eq!(found, verdict, "{identity:?} {data:?} {restored:?}");
        }
    }

    #[test]
    fn a_fit_volume_gets_an_identity_that_remembers_its_data() {
        let expected = Expected {
            cluster_uid: ClusterUid::new("uid-2"),
            token: Token::new("uid-1-1"),
            member: MemberName::new("demo-0"),
            cluster_id: None,
            data_required: false,
        };
        let of = |identity, data| judge(&VolumeContents { identity, data, corrupt: None }, &expected);
        let present = EtcdData::Present { cluster_id: None };
        assert_eq!(of(None, EtcdData::Absent), Ok(identity("uid-2", "uid-1-1", "demo-0", false)));
        let before = identity("uid-1", "uid-1-1", "demo-0", false);
        assert_eq!(of(Some(&before), present), Ok(identity("uid-2", "uid-1-1", "demo-0", true)));
    }

    #[test]
    fn whose_data_they_are_comes_before_whether_they_open() {
        let other = identity("uid-2", "uid-2-1", "demo-0", true);
        let own = identity("uid-1", "uid-1-1", "demo-0", true);
        let expected = Expected {
            cluster_uid: ClusterUid::new("uid-1"),
            token: Token::new("uid-1-1"),
            member: MemberName::new("demo-0"),
            cluster_id: None,
            data_required: true,
        };
        let data = EtcdData::Present { cluster_id: None };
        for (identity, verdict) in
            [(&own, GuardVerdict::CorruptData), (&other, GuardVerdict::ForeignIdentity)]
        {
            let contents = VolumeContents { identity: Some(identity), data, corrupt: Some("no database") };
            assert_eq!(judge(&contents, &expected).unwrap_err().verdict, verdict);
        }
    }
}
