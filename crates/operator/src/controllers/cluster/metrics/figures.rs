//! The figures of each cluster, and how they are shown. They are kept as a whole, so that nothing of a cluster, a member or a condition that
//! is gone stays behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use quorate_api::{ConditionType, EtcdClusterStatus, Reason, conditions};
use quorate_model::snapshot::AlarmKind;
use quorate_model::{ClusterRef, Instant, MemberId};

use super::ClusterMetrics;

/// The kinds of alarms, as etcd calls them.
const ALARMS: [(AlarmKind, &str); 2] = [(AlarmKind::NoSpace, "NOSPACE"), (AlarmKind::Corrupt, "CORRUPT")];

/// The figures of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Members in etcd's list.
    pub members: usize,
    /// Members desired.
    pub desired: usize,
    /// Members whose Pod is ready.
    pub ready: usize,
    /// Members that are healthy.
    pub healthy: usize,
    /// Those of the healthy ones that are voters.
    pub healthy_voters: usize,
    /// Learners in etcd's list.
    pub learners: usize,
    /// The leader, if it is known.
    pub leader: Option<MemberId>,
    /// Whether a client that connects through the client Service can read and write.
    pub available: bool,
    /// Whether its spec pauses it.
    pub paused: bool,
    /// The alarms that are active.
    pub alarms: BTreeSet<AlarmKind>,
    /// When the first certificate ends, in seconds since the Unix epoch; `None` without TLS.
    pub certificate_expiry: Option<i64>,
    /// Whether a certificate should have been renewed long ago; `None` without TLS.
    pub certificate_overdue: Option<bool>,
    /// When clients that do not follow a rotation are cut off, in seconds since the Unix epoch; `None` if none has to follow.
    pub clients_cut_off: Option<i64>,
    /// Whether the backups of its schedules come about; `None` if no schedule names it, or that is not known yet.
    pub backup_healthy: Option<bool>,
    /// Its members, by name.
    pub of_members: BTreeMap<String, MemberFigures>,
}

/// The figures of one member. What it did not report of late is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberFigures {
    /// Whether it is healthy.
    pub healthy: bool,
    /// Whether it votes, by what is recorded.
    pub voter: bool,
    /// The size of its database's file, in bytes.
    pub db: Option<u64>,
    /// The used part of that, in bytes.
    pub db_in_use: Option<u64>,
    /// The quota of its database, in bytes.
    pub quota: Option<u64>,
    /// How many entries it has not applied that a member knows to be committed.
    pub lag: Option<u64>,
}

/// What status says of a cluster, and when it was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reported {
    at: i64,
    phase: Option<&'static str>,
    /// By type, whether it is True. One that is Unknown is absent.
    conditions: BTreeMap<String, bool>,
    /// All that `UpToDate` waits for is the turn of the cluster.
    waits_for_wave: bool,
}

/// What is kept of one cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    figures: Option<Figures>,
    reported: Option<Reported>,
    acted_at: Option<i64>,
    /// The last leader that was known.
    leader: Option<MemberId>,
    leader_changes: u64,
}

impl Reported {
    pub(super) fn of(status: &EtcdClusterStatus, at: Instant) -> Self {
        let stale = conditions::find_false(&status.conditions, ConditionType::UpToDate.as_str());
        let waits_for_wave = stale.is_some_and(|one| one.reason == Reason::WaitingForWave.as_str());
        let known =
            status.conditions.iter().filter_map(|one| Some((one.type_.clone(), conditions::holds(one)?)));
        Self {
            at: seconds(at),
            phase: status.phase.map(quorate_api::status::Phase::as_str),
            conditions: known.collect(),
            waits_for_wave,
        }
    }
}

impl Kept {
    pub(super) fn see(&mut self, figures: Figures) {
        if figures.leader.is_some() {
            self.leader_changes += u64::from(self.leader.is_some() && self.leader != figures.leader);
            self.leader = figures.leader;
        }
        self.figures = Some(figures);
    }

    pub(super) fn report(&mut self, reported: Reported) {
        self.reported = Some(reported);
    }

    pub(super) fn act(&mut self, at: Instant) {
        self.acted_at = Some(seconds(at));
    }
}

impl Collector for ClusterMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.kept();
        let mut show = Show { all: &all, encoder };
        show.figure("cluster_members", "Members in etcd's list", |of| size(of.members))?;
        show.figure("cluster_desired", "Members that the spec asks for", |of| size(of.desired))?;
        show.figure("cluster_ready", "Members whose Pod is ready", |of| size(of.ready))?;
        show.figure("cluster_healthy", "Members that are healthy", |of| size(of.healthy))?;
        let help = "Members that are healthy and vote";
        show.figure("cluster_healthy_voters", help, |of| size(of.healthy_voters))?;
        show.figure("cluster_learners", "Learners in etcd's list", |of| size(of.learners))?;
        show.figure("cluster_leader", "Whether a leader is known", |of| flag(of.leader.is_some()))?;
        let help = "How often the leader was another one than before, since the operator started";
        show.all("cluster_leader_changes", help, MetricType::Counter, |kept| {
            kept.figures.iter().map(|_| (None, count(kept.leader_changes)))
        })?;
        let help = "Whether a client that connects through the client Service can read and write";
        show.figure("cluster_available", help, |of| flag(of.available))?;
        let help = "Whether spec.paused keeps the operator from changing it";
        show.figure("cluster_paused", help, |of| flag(of.paused))?;
        let help = "When the first certificate ends, the authority included; absent without TLS";
        show.figure("cluster_certificate_expiry_timestamp_seconds", help, |of| of.certificate_expiry)?;
        let help = "Whether a certificate was not renewed by five sixths of its life, or the authority ends within 30 days; absent without TLS";
        show.figure("cluster_certificate_overdue", help, |of| of.certificate_overdue.map(i64::from))?;
        let help = "When clients that do not follow the rotation of their authority are cut off; absent where none has to follow";
        show.figure("cluster_clients_cut_off_timestamp_seconds", help, |of| of.clients_cut_off)?;
        let help = "Whether the backups of the schedules that name the cluster come about; absent where none does, and at size zero";
        show.figure("cluster_backup_healthy", help, |of| of.backup_healthy.map(i64::from))?;
        show.all("cluster_alarm", "Whether an alarm of this kind is active", MetricType::Gauge, |kept| {
            kept.figures.iter().flat_map(|figures| {
                ALARMS.map(|(kind, name)| (Some(("kind", name)), i64::from(figures.alarms.contains(&kind))))
            })
        })?;
        show.status()?;
        show.member("member_healthy", "Whether the member is healthy", |of| flag(of.healthy))?;
        let help = "Whether the member votes; 0 for a learner, and for a member that etcd does not have yet";
        show.member("member_voter", help, |of| flag(of.voter))?;
        let help = "The size of the member's database file, which its quota is about";
        show.member("member_db_bytes", help, |of| of.db.map(count))?;
        let help = "The used part of the member's database file; a defragmentation frees the rest";
        show.member("member_db_in_use_bytes", help, |of| of.db_in_use.map(count))?;
        let help = "The quota of the member's database; absent where etcd 3.5 has its own default";
        show.member("member_quota_bytes", help, |of| of.quota.map(count))?;
        let help = "Entries of raft that are committed and that the member has not applied";
        show.member("member_lag_entries", help, |of| of.lag.map(count))
    }
}

/// Writes metric after metric.
struct Show<'a, 'e> {
    all: &'a BTreeMap<ClusterRef, Kept>,
    encoder: DescriptorEncoder<'e>,
}

impl<'a> Show<'a, '_> {
    /// One value of each cluster that was observed.
    fn figure(&mut self, name: &str, help: &str, value: impl Fn(&Figures) -> Option<i64>) -> fmt::Result {
        self.all(name, help, MetricType::Gauge, |kept| {
            kept.figures.as_ref().and_then(&value).map(|value| (None, value))
        })
    }

    /// One value of each member.
    fn member(
        &mut self,
        name: &str,
        help: &str,
        value: impl Fn(&MemberFigures) -> Option<i64>,
    ) -> fmt::Result {
        self.all(name, help, MetricType::Gauge, |kept| {
            let members = kept.figures.iter().flat_map(|figures| &figures.of_members);
            members.filter_map(|(member, figures)| Some((Some(("member", &**member)), value(figures)?)))
        })
    }

    fn status(&mut self) -> fmt::Result {
        let help = "When a pass last observed the cluster";
        self.all("cluster_looked_at_timestamp_seconds", help, MetricType::Gauge, |kept| {
            kept.reported.iter().map(|reported| (None, reported.at))
        })?;
        let help = "When the operator last recorded a step of the cluster or carried out an effect; absent until it has, since it started";
        self.all("cluster_acted_at_timestamp_seconds", help, MetricType::Gauge, |kept| {
            kept.acted_at.map(|at| (None, at))
        })?;
        let help = "1 for the phase that status has";
        self.all("cluster_phase", help, MetricType::Gauge, |kept| {
            let phase = kept.reported.as_ref().and_then(|reported| reported.phase);
            phase.map(|phase| (Some(("phase", phase)), 1))
        })?;
        let help = "Whether it waits only until other clusters have taken the new defaults of the operator (reason WaitingForWave)";
        self.all("cluster_waits_for_wave", help, MetricType::Gauge, |kept| {
            kept.reported.iter().map(|reported| (None, i64::from(reported.waits_for_wave)))
        })?;
        let help = "For each condition of status, whether it is True; absent while it is Unknown";
        self.all("cluster_condition", help, MetricType::Gauge, |kept| {
            let conditions = kept.reported.iter().flat_map(|reported| &reported.conditions);
            conditions.map(|(type_, is_true)| (Some(("type", &**type_)), i64::from(*is_true)))
        })
    }

    /// The values of each cluster, each with a label of its own if there are several.
    fn all<I: IntoIterator<Item = (Option<(&'static str, &'a str)>, i64)>>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        values: impl Fn(&'a Kept) -> I,
    ) -> fmt::Result {
        let mut encoder = self.encoder.encode_descriptor(name, help, None, kind)?;
        for (at, kept) in self.all {
            for (own, value) in values(kept) {
                let mut labels = vec![("namespace", &*at.namespace), ("name", &*at.name)];
                labels.extend(own);
                let encoder = encoder.encode_family(&labels)?;
                let is_counter = matches!(kind, MetricType::Counter);
                if is_counter {
                    ConstCounter::new(value.unsigned_abs()).encode(encoder)?;
                } else {
                    ConstGauge::new(value).encode(encoder)?;
                }
            }
        }
        Ok(())
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as a figure that may be absent")]
fn size(number: usize) -> Option<i64> {
    Some(i64::try_from(number).unwrap_or(i64::MAX))
}

#[expect(clippy::unnecessary_wraps, reason = "as a figure that may be absent")]
fn flag(is: bool) -> Option<i64> {
    Some(i64::from(is))
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn seconds(at: Instant) -> i64 {
    at.0.div_euclid(1000)
}
