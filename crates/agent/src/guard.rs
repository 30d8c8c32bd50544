//! The guard: an init container that looks at a member's volume before etcd may touch it, and refuses with one of
//! [`GuardVerdict`]'s names in the Pod's termination message. It stamps the volume with the member's identity and
//! changes nothing else.
//!
//! What counts as data is what etcd itself goes by: a log in `member/wal`. A database without a log is a first start
//! that was cut short; etcd begins it again.
//!
//! | on the volume | `fresh` | `data` | `either` |
//! |---|---|---|---|
//! | nothing | stamped, fit | DataMissing | stamped, fit |
//! | own stamp, no data yet | fit (1) | DataMissing | fit |
//! | own stamp, no data any more | DataMissing (2) | DataMissing | fit |
//! | own stamp, own data | fit (3) | fit | fit |
//! | data without a stamp | ForeignData | ForeignData | ForeignData |
//! | stamp of another member or cluster | ForeignIdentity | ForeignIdentity | ForeignIdentity |
//! | data of another bootstrap attempt | ForeignData | ForeignData | ForeignData |
//!
//! 1. A crash between the guard and etcd's first write must not brick the member.
//! 2. The stamp remembers that a guard has once seen data: what was emptied since must not be founded anew.
//! 3. Token and name together are used for one incarnation only (R2), so these are the data of the very member that
//!    shall start: its Pod was made again before the operator could see it join. etcd resumes them, whatever
//!    `--initial-cluster-state` says. A restart of the etcd container alone does not run the guard at all.
//!
//! A volume stamped with the same token for another cluster uid is an adopted one: the token is what the data were
//! founded with, and the operator passes it only where it was told to adopt. The stamp is renewed.

mod bolt;
mod data;
mod identity;
mod report;
mod volume;
mod wal;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use quorate_model::{ClusterId, GuardVerdict};

use data::Data;
use identity::Identity;
pub use report::{Facts, Report};

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
    /// Whether the volume must hold data.
    #[arg(long, value_enum)]
    pub expect: Expect,
    /// A file that says `true` once the member has joined its cluster: then its data must be there, whatever `--expect`
    /// says. The Pod that the guard runs in can start over long after its first start.
    #[arg(long)]
    pub joined: Option<PathBuf>,
    /// The cluster's id, once it is known: data of another are refused.
    #[arg(long)]
    pub cluster_id: Option<ClusterId>,
    /// Where the kubelet reads the verdict.
    #[arg(long, default_value = "/dev/termination-log")]
    pub termination_log: PathBuf,
}

/// What the operator knows of the volume's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Expect {
    /// The member is not known to have joined: data are there only if it has started meanwhile.
    Fresh,
    /// The member has joined: its data must be there.
    Data,
    /// The operator can not tell: whatever is there must be the member's own.
    Either,
}

/// Inspects the volume and tells the verdict: as JSON in the termination message, in words on stderr.
pub fn run(args: &GuardArgs) -> ExitCode {
    let report = inspect(args);
    // Without it the kubelet has only the exit code; that is no reason to judge otherwise.
    if let Err(error) = fs::write(&args.termination_log, report.to_json()) {
        eprintln!("guard: cannot write {}: {error}", args.termination_log.display());
    }
    eprintln!("guard: {}: {}", report.verdict, report.message);
    match report.verdict {
        GuardVerdict::Fit => ExitCode::SUCCESS,
        GuardVerdict::DataMissing
        | GuardVerdict::ForeignData
        | GuardVerdict::ForeignIdentity
        | GuardVerdict::CorruptData
        | GuardVerdict::NotWritable
        | GuardVerdict::DiskFull => ExitCode::FAILURE,
    }
}

/// The guard without its outlets. On `Fit` the volume is stamped.
pub fn inspect(args: &GuardArgs) -> Report {
    let mut facts = Facts::default();
    match judge(args, &mut facts) {
        Ok(message) => Report { verdict: GuardVerdict::Fit, message, facts },
        Err(Refusal(verdict, message)) => Report { verdict, message, facts },
    }
}

/// Not fit, and why.
#[derive(Debug)]
struct Refusal(GuardVerdict, String);

impl Refusal {
    fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        Self(GuardVerdict::NotWritable, format!("cannot read {}: {error}", path.display()))
    }
}

fn judge(args: &GuardArgs, facts: &mut Facts) -> Result<String, Refusal> {
    let own = Identity::new(args);
    let stamp = Identity::read(&args.identity)?;
    let data = Data::look(&args.data_dir)?;
    facts.note(stamp.as_ref(), &data);

    same_member(&own, stamp.as_ref(), &data)?;
    same_cluster(args, &data)?;
    present_as_expected(expected(args)?, stamp.as_ref(), &data)?;
    data.check()?;
    facts.free_bytes = Some(volume::writable_with_room(&args.identity, &data)?);

    let renewed = Identity {
        data_seen: !data.is_absent() || stamp.as_ref().is_some_and(|stamp| stamp.data_seen),
        ..own
    };
    if stamp.as_ref() != Some(&renewed) {
        renewed.write(&args.identity)?;
    }
    Ok(match &data {
        Data::Absent { .. } => format!("{} starts on an empty volume", args.member),
        Data::Present { .. } => format!("{} continues on its data", args.member),
    })
}

/// Whose volume is it?
fn same_member(own: &Identity, stamp: Option<&Identity>, data: &Data) -> Result<(), Refusal> {
    let Some(stamp) = stamp else {
        return match data {
            Data::Absent { .. } => Ok(()),
            Data::Present { .. } => Err(Refusal(
                GuardVerdict::ForeignData,
                "the volume holds etcd data that were not written by this member: there is no identity file"
                    .to_owned(),
            )),
        };
    };
    if stamp.member == own.member && stamp.token == own.token {
        return Ok(());
    }
    let other_attempt =
        stamp.member == own.member && stamp.cluster_uid == own.cluster_uid && !data.is_absent();
    let verdict = if other_attempt { GuardVerdict::ForeignData } else { GuardVerdict::ForeignIdentity };
    Err(Refusal(verdict, format!("the volume belongs to {stamp}, not to {own}")))
}

/// The log knows which cluster it belongs to, whatever the stamp says.
fn same_cluster(args: &GuardArgs, data: &Data) -> Result<(), Refusal> {
    match (args.cluster_id, data.origin()) {
        (Some(expected), Some(origin)) if origin.cluster_id != expected => Err(Refusal(
            GuardVerdict::ForeignData,
            format!("the data on the volume belong to cluster {}, not to {expected}", origin.cluster_id),
        )),
        _ => Ok(()),
    }
}

/// What the operator expects by now.
fn expected(args: &GuardArgs) -> Result<Expect, Refusal> {
    let Some(file) = &args.joined else { return Ok(args.expect) };
    match fs::read_to_string(file) {
        Ok(mark) if mark.trim() == "true" => Ok(Expect::Data),
        Ok(_) => Ok(args.expect),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(args.expect),
        // It may say so: better no start than one on data that were lost.
        Err(error) => Err(Refusal::unreadable(file, &error)),
    }
}

fn present_as_expected(expect: Expect, stamp: Option<&Identity>, data: &Data) -> Result<(), Refusal> {
    if !data.is_absent() {
        return Ok(());
    }
    let had_data = stamp.is_some_and(|stamp| stamp.data_seen);
    let missing =
        |why: &str| Err(Refusal(GuardVerdict::DataMissing, format!("no etcd data on the volume, but {why}")));
    match expect {
        Expect::Data => missing("the member has joined its cluster before"),
        Expect::Fresh if had_data => missing("there were some at an earlier start"),
        Expect::Fresh | Expect::Either => Ok(()),
    }
}
