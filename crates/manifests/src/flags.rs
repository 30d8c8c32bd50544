//! etcd's flags: those of a member's identity, those with defaults of the operator, and those that the user sets.

mod known;

use quorate_api::cluster::EtcdOptions;
use quorate_api::quantity::bytes;
use quorate_model::effect::Boot;
use quorate_model::snapshot::share_of_volume;
use quorate_model::target::Medium;
use quorate_model::{Minor, Target};

use crate::certificate::PEER_NAME;
use crate::defaults::Invalid;
use crate::pod::member::Member;
use crate::service::{CLIENT_PORT, METRICS_PORT, PEER_PORT};

/// Where a member's volume is mounted.
pub const VOLUME_DIR: &str = "/var/lib/etcd";
/// etcd's own part of it.
pub const DATA_DIR: &str = "/var/lib/etcd/data";
/// The guard's part of it.
pub const IDENTITY_FILE: &str = "/var/lib/etcd/quorate.json";
/// What the agent writes to see whether the volume takes writes.
pub const CANARY_FILE: &str = "/var/lib/etcd/quorate.canary";

/// The flag that starts a member as part of a new cluster.
pub(crate) const STARTS_NEW: &str = "--initial-cluster-state=new";

/// Milliseconds, as in etcd.
const DEFAULT_ELECTION_TIMEOUT: u32 = 1000;

/// etcd warns above this (its documentation on system limits).
const LARGEST_QUOTA: u64 = 8 << 30;
/// What etcd takes 0 for (its `DefaultQuotaBytes`).
const ETCD_QUOTA: u64 = 2 << 30;
/// How often etcd's leader compares all data of the members.
const CHECK_ALL_EVERY: &str = "24h";
/// Below this a quota makes no sense.
const SMALLEST_QUOTA: u64 = 16 << 20;

const SNAPSHOT_COUNT: &str = "snapshot-count";
/// The bytes of the volume for each entry that may be between two snapshots of the log.
const VOLUME_PER_ENTRY: u64 = 4 << 20;
/// A snapshot of the log costs some milliseconds and a few lines in etcd's log.
const FEWEST_ENTRIES: u64 = 250;
/// The default of 3.6; that of 3.5 is ten times as many.
const MOST_ENTRIES: u64 = 10_000;

/// What the default quota follows.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// The medium of the data.
    pub medium: Medium,
    /// The size of each volume, in bytes.
    pub bytes: u64,
    /// The default is not lower than this: databases may have grown up to it. 0 for a new cluster.
    pub quota_before: u64,
}

/// The user's flags and the operator's defaults, in a fixed order. A flag in `etcdOptions` replaces the default. If it is
/// given twice, the last one counts, as in etcd.
pub fn settings(
    options: &[String],
    typed: Option<&EtcdOptions>,
    minor: Minor,
    room: Room,
) -> Result<Vec<String>, Invalid> {
    let mut flags: Vec<(String, String)> = corruption_check(minor).into_iter().collect();
    flags.extend(typed_flags(typed, room));
    for option in options {
        let name = name(option);
        if known::is_reserved(name) {
            let message = format!("--{name} is set by the operator: leave it out");
            return Err(Invalid::new("spec.etcdOptions", message));
        }
        if !known::is_known(name, minor) {
            return Err(unknown(name, minor));
        }
        flags.retain(|(own, _)| own != name);
        flags.push((name.to_owned(), option.clone()));
    }
    Ok(flags.into_iter().map(|(_, flag)| flag).collect())
}

/// The comparisons of the members' data that etcd makes: of the hashes that each makes in a compaction, every minute, at next to no cost;
/// and of all data once a day, for clusters whose history nobody compacts. For that a member reads its whole database, and applies nothing
/// meanwhile. Each is left out where the user's flags have it, also by its older name: 3.6 refuses both names together.
///
/// They are no part of the template, so that they reach clusters in waves, as other defaults of the operator do.
pub(crate) fn comparisons(minor: Minor, given: &[String]) -> Vec<String> {
    let of_3_5 = [(known::COMPACT_HASH_CHECK_3_5, "true"), (known::CHECK_TIME_3_5, CHECK_ALL_EVERY)];
    let since_3_6 = [(known::FEATURE_GATES, "CompactHashCheck=true"), (known::CHECK_TIME, CHECK_ALL_EVERY)];
    let own = if minor < Minor(3, 6) { of_3_5 } else { since_3_6 };
    let is_given = |default: &str| {
        let mut names = given.iter().map(|flag| name(flag));
        names.any(|name| name == default || known::takes_the_place_of(name, default))
    };
    own.into_iter()
        .filter(|(name, _)| !is_given(name))
        .map(|(name, value)| format!("--{name}={value}"))
        .collect()
}

/// After how many entries a member writes a snapshot of its log: until then it keeps every file of the log, and the disk is full long before
/// the database if values are large. One entry for every 4 MiB of the volume: of the largest that etcd admits, 1.5 MiB each, three eighths
/// of it. `None` where the user's flags have it, or where followers need the longer log.
///
/// It is no part of the template, like [`comparisons`].
pub(crate) fn snapshot_count(target: &Target, given: &[String]) -> Option<String> {
    if given.iter().any(|flag| name(flag) == SNAPSHOT_COUNT) {
        return None;
    }
    let volume = target.storage.bytes;
    let by_volume = (volume / VOLUME_PER_ENTRY).clamp(FEWEST_ENTRIES, MOST_ENTRIES);
    // The entries since the last snapshot are also what a follower catches up with: always in 3.5, and from 3.6 on after every start of its
    // leader, which has no others in memory (`bootstrap.go`). A follower that is further behind needs room for a second copy of the database.
    // A larger quota does not leave it, so etcd keeps its own default there.
    let fits = default_quota(Room { medium: target.storage.medium, bytes: volume, quota_before: 0 });
    let lacks_room = target.pod.quota.is_none_or(|quota| quota > fits);
    (!lacks_room).then(|| format!("--{SNAPSHOT_COUNT}={by_volume}"))
}

/// The election timeout that these flags set, in milliseconds.
pub fn election_timeout(flags: &[String]) -> u32 {
    let value = |flag: &String| flag.trim_start_matches('-').strip_prefix("election-timeout=")?.parse().ok();
    flags.iter().rev().find_map(value).unwrap_or(DEFAULT_ELECTION_TIMEOUT)
}

/// The quota that these flags set, in bytes; the last one counts, as in etcd. `None` where they set none, or no limit.
pub(crate) fn quota<'a>(flags: impl Iterator<Item = &'a String>) -> Option<u64> {
    match flags.filter_map(|flag| quota_of(flag)).last()?.parse::<i64>().ok()? {
        0 => Some(ETCD_QUOTA),
        given => u64::try_from(given).ok(),
    }
}

/// Whether a flag sets the quota.
pub(crate) fn sets_quota(flag: &str) -> bool {
    quota_of(flag).is_some()
}

fn quota_of(flag: &str) -> Option<&str> {
    flag.trim_start_matches('-').strip_prefix("quota-backend-bytes=")
}

/// Whether etcd compacts its history by itself with these flags. Without a retention the mode has no effect.
pub(crate) fn compacts(flags: &[String]) -> bool {
    let value = |flag: &String| {
        let value = flag.trim_start_matches('-').strip_prefix("auto-compaction-retention=")?;
        Some(value.chars().any(|digit| ('1'..='9').contains(&digit)))
    };
    flags.iter().filter_map(value).next_back().unwrap_or(false)
}

/// Whether etcd never deletes a file of its log with these flags: `--max-wals=0` is without a bound.
pub fn keeps_every_log(flags: &[String]) -> bool {
    let value = |flag: &String| {
        let value = flag.trim_start_matches('-').strip_prefix("max-wals=")?;
        Some(!value.is_empty() && value.chars().all(|digit| digit == '0'))
    };
    flags.iter().filter_map(value).next_back().unwrap_or(false)
}

/// The flags of a member's identity.
pub fn identity(member: &Member<'_>) -> Vec<String> {
    let Member { at, target, token, name, boot, ip_family, .. } = member;
    let scheme = if target.tls { "https" } else { "http" };
    let (own, listen) = (at.dns_name(name), ip_family.pod_host());
    let state = match boot {
        Boot::New => STARTS_NEW,
        // On an empty volume `new` would form a cluster beside the restored one.
        Boot::Restore | Boot::Join | Boot::Resume | Boot::Read | Boot::Extract => {
            "--initial-cluster-state=existing"
        }
    };
    let mut flags = vec![
        format!("--name={name}"),
        format!("--data-dir={DATA_DIR}"),
        format!("--listen-peer-urls={scheme}://{listen}:{PEER_PORT}"),
        format!("--listen-client-urls={scheme}://{listen}:{CLIENT_PORT}"),
        format!("--listen-metrics-urls=http://{listen}:{METRICS_PORT}"),
        format!("--initial-advertise-peer-urls={}", peer_url(member)),
        format!("--advertise-client-urls={scheme}://{own}:{CLIENT_PORT}"),
        format!("--initial-cluster={}", initial_cluster(member)),
        state.to_owned(),
        format!("--initial-cluster-token={token}"),
    ];
    if target.tls {
        for (prefix, dir) in [("", "server"), ("peer-", "peer")] {
            flags.push(format!("--{prefix}cert-file=/etc/etcd/tls/{dir}/tls.crt"));
            flags.push(format!("--{prefix}key-file=/etc/etcd/tls/{dir}/tls.key"));
            flags.push(format!("--{prefix}trusted-ca-file=/etc/etcd/tls/{dir}/ca.crt"));
            flags.push(format!("--{prefix}client-cert-auth=true"));
        }
        // The authority of peers signs for clients, too, and whoever is let in here writes the log. Both sides of a connection check it.
        flags.push(format!("--peer-cert-allowed-cn={PEER_NAME}"));
        // Else a member looks up the name of a peer that connects, and refuses it for as long as DNS remembers that there was no such name: etcd ended
        // once in most joins. The authority of peers and the common name say more than an address.
        flags.push(format!("--{}=true", known::skips_client_san(target.version.line())));
    }
    flags
}

/// The value of `--initial-cluster`.
pub(crate) fn initial_cluster(member: &Member<'_>) -> String {
    let peers: Vec<String> = member.peers.iter().map(|(name, url)| format!("{name}={url}")).collect();
    peers.join(",")
}

/// The value of `--initial-advertise-peer-urls`.
pub(crate) fn peer_url(member: &Member<'_>) -> String {
    let scheme = if member.target.tls { "https" } else { "http" };
    format!("{scheme}://{}:{PEER_PORT}", member.at.dns_name(member.name))
}

/// etcd compares its data with its peers' before it serves, and ends if they differ, which stops whoever starts: it may be the member
/// whose data are right. Only for 3.5, the line in which data could diverge silently
/// (etcd's postmortem of 3.5's data inconsistency): from 3.6 on it waits up to 7 s for every peer that accepts a
/// connection and does not answer, which made a restart of all members take 14.7 s instead of 1.2 s.
fn corruption_check(minor: Minor) -> Option<(String, String)> {
    let name = known::CORRUPTION_CHECK_3_5;
    (minor < Minor(3, 6)).then(|| (name.to_owned(), format!("--{name}=true")))
}

/// The name of a flag without its value.
fn name(flag: &str) -> &str {
    flag.trim_start_matches('-').split('=').next().unwrap_or_default()
}

fn typed_flags(typed: Option<&EtcdOptions>, room: Room) -> Vec<(String, String)> {
    let none = EtcdOptions::default();
    let EtcdOptions {
        quota_backend_bytes,
        auto_compaction_mode,
        auto_compaction_retention,
        snapshot_count,
        heartbeat_interval,
        election_timeout,
    } = typed.unwrap_or(&none);
    let quota = quota_backend_bytes.as_ref().and_then(bytes).unwrap_or_else(|| default_quota(room));
    let given = [
        ("quota-backend-bytes", Some(quota.to_string())),
        ("auto-compaction-mode", auto_compaction_mode.map(|mode| mode.as_str().to_owned())),
        ("auto-compaction-retention", auto_compaction_retention.clone()),
        ("snapshot-count", snapshot_count.map(|count| count.to_string())),
        ("heartbeat-interval", heartbeat_interval.map(|milliseconds| milliseconds.to_string())),
        ("election-timeout", election_timeout.map(|milliseconds| milliseconds.to_string())),
    ];
    given
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), format!("--{name}={}", value?))))
        .collect()
}

/// What leaves room on the volume for a second copy of the database and for the log. Of memory a half, which the process itself shares.
fn default_quota(Room { medium, bytes, quota_before }: Room) -> u64 {
    let share = match medium {
        Medium::Disk => share_of_volume(bytes),
        Medium::Memory => bytes / 2,
    };
    share.clamp(SMALLEST_QUOTA.min(bytes), LARGEST_QUOTA).max(quota_before.min(bytes))
}

/// Three fifths of the volume, without room for a second copy. Where status does not have the quota of a cluster that has data, or the data
/// are those of a snapshot, the database may be larger than the default.
pub(crate) fn quota_of_unknown_data(bytes: u64) -> u64 {
    (bytes / 5 * 3).clamp(SMALLEST_QUOTA.min(bytes), LARGEST_QUOTA)
}

fn unknown(flag: &str, minor: Minor) -> Invalid {
    let hint =
        known::nearest(flag, minor).map(|near| format!("; did you mean --{near}?")).unwrap_or_default();
    Invalid::new("spec.etcdOptions", format!("etcd {minor} does not know the flag --{flag}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(options: &[&str], minor: Minor) -> Result<Vec<String>, Invalid> {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        settings(&options, None, minor, Room { medium: Medium::Disk, bytes: 1 << 30, quota_before: 0 })
    }

    #[test]
    fn a_flag_given_by_the_user_replaces_the_default() {
        assert_eq!(flags(&[], Minor(3, 6)).unwrap(), ["--quota-backend-bytes=241172480"]);
        let own = flags(&["--quota-backend-bytes=1", "--log-level=debug"], Minor(3, 6)).unwrap();
        assert_eq!(own, ["--quota-backend-bytes=1", "--log-level=debug"]);
        let check = format!("--{}", known::CORRUPTION_CHECK_3_5);
        assert_eq!(flags(&[], Minor(3, 5)).unwrap()[0], format!("{check}=true"));
        let without = format!("{check}=false");
        let replaced = flags(&[&without], Minor(3, 5)).unwrap();
        assert_eq!(replaced, ["--quota-backend-bytes=241172480", &without]);
        let gates = flags(&["--feature-gates=CompactHashCheck=true"], Minor(3, 7)).unwrap();
        assert_eq!(gates, ["--quota-backend-bytes=241172480", "--feature-gates=CompactHashCheck=true"]);
    }

    #[test]
    fn the_comparisons_are_those_that_the_minor_knows_and_one_that_the_user_sets_is_the_users() {
        let of = |minor, given: &[&str]| {
            let given: Vec<String> = given.iter().map(|&flag| flag.to_owned()).collect();
            let own = comparisons(minor, &given);
            assert!(own.iter().all(|flag| known::is_known(name(flag), minor)), "{own:?}");
            own
        };
        let old = ["--experimental-compact-hash-check-enabled=true", "--experimental-corrupt-check-time=24h"];
        let (gates, time) = ("--feature-gates=CompactHashCheck=true", "--corrupt-check-time=24h");
        assert_eq!(of(Minor(3, 5), &["--log-level=debug"]), old);
        assert_eq!(of(Minor(3, 6), &[]), [gates, time]);
        assert_eq!(of(Minor(3, 7), &["--feature-gates=InitialCorruptCheck=true"]), [time]);
        assert_eq!(of(Minor(3, 6), &["--corrupt-check-time=1h"]), [gates]);
        // Both names together would stop etcd from starting.
        assert_eq!(of(Minor(3, 6), &["--experimental-compact-hash-check-enabled=false"]), [time]);
        assert_eq!(of(Minor(3, 6), &["--experimental-corrupt-check-time=1h"]), [gates]);
        assert_eq!(of(Minor(3, 6), &["--experimental-initial-corrupt-check=true"]), [gates, time]);
        assert_eq!(of(Minor(3, 5), &["--experimental-corrupt-check-time=1h"]), [old[0]]);
    }

    #[test]
    fn a_flag_that_the_minor_does_not_know_is_refused_with_the_one_that_was_meant() {
        let old = "--experimental-corrupt-check-time=1h";
        assert!(flags(&[old], Minor(3, 5)).is_ok() && flags(&[old], Minor(3, 6)).is_ok());
        let refused = flags(&[old], Minor(3, 7)).unwrap_err();
        assert!(refused.message.contains("did you mean --corrupt-check-time?"), "{}", refused.message);
        let typo = flags(&["--snapshot-cout=3"], Minor(3, 6)).unwrap_err();
        assert!(typo.message.contains("did you mean --snapshot-count?"), "{}", typo.message);
        assert!(flags(&["--max-learners=2"], Minor(3, 5)).is_err());
    }
}
