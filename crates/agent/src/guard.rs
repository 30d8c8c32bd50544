//! The guard inspects a member's volume before every start of etcd. It refuses with a [`GuardVerdict`] in the Pod's
//! termination message. It writes the identity file of the volume and changes nothing else.
//!
//! The decision is [`quorate_model::guard::judge`], with the table of verdicts; this module reads what it needs from the
//! disk. Data are a log in `member/wal`, as for etcd itself. A database without a log is a first start that was cut short;
//! etcd begins it again.
//!
//! - `identity`: the identity file; `data`, `wal`, `bolt`: etcd's data directory; `volume`: whether it takes writes
//! - `restored`: the marker of a restore
//! - `report`: the verdict as it is reported; `stored`: what the member has, for the facts

mod bolt;
mod data;
mod identity;
mod report;
pub(crate) mod restored;
#[cfg(test)]
mod rubbish;
mod stored;
pub(crate) mod volume;
mod wal;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use quorate_model::guard::{self, Expected, Refusal, VolumeContents};
use quorate_model::{ClusterId, ClusterUid, GuardVerdict, MemberName, Token};

use data::Data;
pub use report::{Facts, Report};
pub use stored::stored;

/// The guard's flags.
#[derive(Clone, Debug, Args)]
pub struct GuardArgs {
    /// etcd's --data-dir.
    #[arg(long, default_value = "/var/lib/etcd/data")]
    pub data_dir: PathBuf,
    /// The volume's identity file.
    #[arg(long, default_value = "/var/lib/etcd/quorate.json")]
    pub identity: PathBuf,
    /// --initial-cluster-token of the cluster the member belongs to.
    #[arg(long)]
    pub token: String,
    /// The uid of the EtcdCluster.
    #[arg(long)]
    pub cluster_uid: String,
    /// The member's name.
    #[arg(long)]
    pub member: String,
    /// Whether the volume must have data.
    #[arg(long, value_enum)]
    pub expect: Expect,
    /// A file that contains `true` once the member has joined its cluster: then its data must be there, whatever
    /// `--expect` says. The containers of a Pod can all restart long after its first start.
    #[arg(long)]
    pub joined: Option<PathBuf>,
    /// A file of the Pod that exists once etcd has written data: then they must be there, whatever `--expect` says. The
    /// file of `--joined` follows its annotation a minute later.
    #[arg(long)]
    pub seen: Option<PathBuf>,
    /// The cluster's id, once it is recorded: data of another cluster are refused.
    #[arg(long)]
    pub cluster_id: Option<ClusterId>,
    /// Where the kubelet reads the verdict.
    #[arg(long, default_value = "/dev/termination-log")]
    pub termination_log: PathBuf,
}

/// What the operator knows about the data on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Expect {
    /// The member is not known to have joined: there are data only if it has started meanwhile.
    Fresh,
    /// The member has joined: its data must be there.
    Data,
    /// The member begins with the data of a restore: they must be there, made by the restore of this very token.
    Restored,
}

/// Whether etcd has written data, as the guard judges it. An unreadable directory counts as none.
pub(crate) fn has_data(data_dir: &Path) -> bool {
    data::logs_in(data_dir).is_ok_and(|logs| !logs.is_empty())
}

/// The version of the data that a database names, from etcd 3.6 on. The inner error says what is wrong with the content.
pub(crate) fn storage_version(database: &Path) -> io::Result<Result<Option<String>, String>> {
    bolt::storage_version(database)
}

/// The cluster version of a database, such as `3.7.0`: no older minor version of etcd runs on it. The inner error says what is wrong with the
/// content.
pub(crate) fn cluster_version(database: &Path) -> io::Result<Result<Option<String>, String>> {
    bolt::cluster_version(database)
}

/// The last revision among the keys of a database. The inner error says what is wrong with the content.
pub(crate) fn last_revision(database: &Path) -> io::Result<Result<i64, String>> {
    bolt::last_revision(database)
}

/// The verdict without reporting it. On `Fit` the identity file is written.
pub fn inspect(args: &GuardArgs) -> Report {
    let mut facts = Facts::default();
    match check(args, &mut facts) {
        Ok(message) => Report { verdict: GuardVerdict::Fit, message, facts },
        Err(Refusal { verdict, message }) => Report { verdict, message, facts },
    }
}

fn check(args: &GuardArgs, facts: &mut Facts) -> Result<String, Refusal> {
    let recorded = identity::read(&args.identity)?;
    let data = Data::read(&args.data_dir)?;
    facts.note(recorded.as_ref(), &data);

    // An unreadable database is reported only if the volume is this member's: whose it is comes first.
    let opened = data.opens();
    let corrupt = opened.as_ref().ok().and_then(|opened| opened.as_ref().err());
    let contents = VolumeContents {
        identity: recorded.as_ref(),
        data: data.summary(),
        corrupt: corrupt.map(String::as_str),
    };
    let identity = match args.expect {
        Expect::Fresh | Expect::Data => guard::judge(&contents, &expected(args)?)?,
        Expect::Restored => {
            let marker = restored::read(&args.identity)?;
            let token = marker.map(|marker| Token::new(marker.token));
            guard::judge_restored(&contents, &expected(args)?, token.as_ref())?
        }
    };
    drop(opened?);
    facts.free_bytes = Some(volume::writable_with_room(&args.identity, &data)?);
    if recorded.as_ref() != Some(&identity) {
        identity::write(&identity, &args.identity)?;
    }
    Ok(match &data {
        Data::Absent { .. } => format!("{} starts on an empty volume", args.member),
        Data::Present { .. } => format!("{} continues on its data", args.member),
    })
}

fn expected(args: &GuardArgs) -> Result<Expected, Refusal> {
    Ok(Expected {
        cluster_uid: ClusterUid::new(&*args.cluster_uid),
        token: Token::new(&*args.token),
        member: MemberName::new(&*args.member),
        cluster_id: args.cluster_id,
        data_required: args.expect == Expect::Data || has_joined(args)? || has_seen_data(args)?,
    })
}

fn has_joined(args: &GuardArgs) -> Result<bool, Refusal> {
    let Some(file) = &args.joined else { return Ok(false) };
    match fs::read_to_string(file) {
        Ok(text) => Ok(text.trim() == "true"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        // It may contain `true`: no start is better than one on data that were lost.
        Err(error) => Err(unreadable(file, &error)),
    }
}

fn has_seen_data(args: &GuardArgs) -> Result<bool, Refusal> {
    let Some(file) = &args.seen else { return Ok(false) };
    file.try_exists().map_err(|error| unreadable(file, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> Refusal {
    Refusal::new(GuardVerdict::NotWritable, format!("cannot read {}: {error}", path.display()))
}
