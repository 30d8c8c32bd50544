//! A description of the world, for people who replay a history: what status records, the last plan, the objects, etcd's logs and
//! configurations, and the faults that last. Each fact is one line, so that two states can be compared.

use quorate_api::keys;
use quorate_apistore::fields::{
    annotation, condition, deleting, entries, integer, items, label, name, text, uid,
};
use quorate_manifests::Kind;
use quorate_model::rotation::Rotation;
use quorate_model::{Plan, Record};
use quorate_status::explain;
use serde_json::Value;

use super::World;
use super::former_leader::Turn;
use super::objects::KINDS;
use super::operator::At;
use crate::etcd::{Disk, Entry, Etcd, Group, State};

/// A description of the world at one moment, in sections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description(Vec<(&'static str, Vec<String>)>);

impl World {
    /// Describes the world as it is now.
    pub fn describe(&self) -> Description {
        Description(vec![
            ("record (status)", self.describe_record()),
            ("plan", self.describe_plan()),
            ("objects", KINDS.into_iter().flat_map(|kind| self.describe_kind(kind)).collect()),
            ("etcd", self.describe_etcd()),
            ("faults that last", self.describe_faults()),
        ])
    }

    fn describe_record(&self) -> Vec<String> {
        if self.object(Kind::Cluster, &self.at.name).is_none() {
            return Vec::new();
        }
        let record = self.record();
        let Record {
            attempt,
            token,
            adopted_by,
            taken_back,
            earlier,
            had_leader,
            restore,
            cluster_id,
            authority,
            peer_authority,
            // Beside the authorities, whose names say more.
            certificates: _,
            given,
            rotation,
            spent_rotation,
            trust,
            auth,
            client_grace,
            spent_disable_auth,
            abandoned,
            hibernating,
            stopped_at,
            next_ordinal,
            target,
            failed_learners,
            no_image_volume,
            members,
            suspected,
            differ_since,
            replacement,
            last_replacement,
            downgrading_to,
            takes_defaults,
            defragmenting,
            incarnation,
            next_incarnation,
            quorum_recovery,
            last_quorum_recovery,
        } = record.as_ref();
        let mut lines = vec![
            format!("attempt {attempt}, token {}", or_none(token.as_ref())),
            format!("cluster id {}", or_none(cluster_id.as_ref())),
            format!("next ordinal {}", next_ordinal.0),
        ];
        lines.extend(adopted_by.iter().map(|uid| format!("adopted by {uid}")));
        lines.extend(taken_back.then(|| "its data were given up once, and taken back".to_owned()));
        lines.extend(
            earlier.iter().map(|earlier| format!("an earlier status, of cluster {}", earlier.cluster_id)),
        );
        lines.extend(had_leader.then(|| "a member of the attempt had a leader".to_owned()));
        lines.extend(restore.iter().map(|restore| format!("begins with {}", restore.url)));
        lines.extend(incarnation.iter().map(|present| {
            let (number, first) = (present.number, present.first.0);
            format!(
                "incarnation {number} from ordinal {first}, by {:?}, in place of {}",
                present.order, present.replaced
            )
        }));
        lines.extend(next_incarnation.iter().map(|ordered| {
            format!(
                "{} is to be replaced by {:?}, stopped: {}",
                ordered.replaces, ordered.order, ordered.stopped
            )
        }));
        lines.extend(quorum_recovery.iter().map(|recovery| {
            let chosen = recovery.chosen.as_ref().map(|chosen| format!("{}: {}", chosen.member, chosen.log));
            format!("the quorum is recovered from {}, chosen: {}", recovery.from, or_none(chosen.as_ref()))
        }));
        lines.extend(
            last_quorum_recovery.iter().map(|from| format!("the order to recover from {from} is spent")),
        );
        lines.extend(authority.iter().map(|authority| format!("authority {authority}")));
        lines.extend(rotation.iter().map(|rotation| {
            let Rotation { ca, from, to, stage, given: _, since: _, told: _ } = rotation;
            format!("the authority of {ca} {from} is being replaced by {to}: {stage}")
        }));
        lines.extend(spent_rotation.iter().map(|order| format!("the order to rotate {order} is spent")));
        lines.extend(client_grace.iter().map(|grace| format!("the time of clients: {grace:?}")));
        lines.extend(auth.iter().map(|stage| format!("auth: {}", stage.as_str())));
        lines.extend(
            spent_disable_auth.iter().map(|id| format!("the order to disable auth of {id} is spent")),
        );
        lines.extend((*trust > 0).then(|| format!("generation {trust} of trust")));
        lines.extend(peer_authority.iter().map(|authority| format!("authority of peers {authority}")));
        lines.extend(given.then(|| "the authority of clients was given".to_owned()));
        lines.extend(abandoned.map(|why| format!("attempt abandoned: {}", why.as_str())));
        lines.extend(
            failed_learners
                .iter()
                .map(|failed| format!("failed learners: {}, {}", failed.count, failed.reason)),
        );
        lines.extend(no_image_volume.iter().map(|why| format!("no image volume: {why}")));
        lines.extend(downgrading_to.iter().map(|line| format!("members go back to {line}")));
        lines.extend(
            takes_defaults.map(|turn| format!("takes new defaults: {} members have them", turn.restarted)),
        );
        lines.extend(defragmenting.iter().map(|ordered| format!("{} is being defragmented", ordered.member)));
        lines.extend(hibernating.then(|| "hibernating".to_owned()));
        lines.extend(stopped_at.map(|revision| format!("stopped at revision {revision}")));
        lines.extend(target.iter().map(|target| {
            format!("target: size {}, version {}, {:?}", target.size, target.version, target.storage.medium)
        }));
        lines.extend(suspected.iter().map(|(name, suspected)| {
            let rechecked = or_none(suspected.rechecked.as_ref());
            format!(
                "{name} may be lost since {}: {}; looked again after {rechecked}",
                suspected.since.0, suspected.loss
            )
        }));
        lines.extend(differ_since.iter().map(|since| format!("data differ since {}", since.0)));
        lines.extend(
            replacement.iter().map(|active| format!("{} is being replaced: {}", active.member, active.loss)),
        );
        lines.extend(last_replacement.iter().map(|last| last.message.clone()));
        lines.extend(members.iter().map(|(name, member)| {
            let (id, volume) = (or_none(member.id.as_ref()), or_none(member.volume.as_ref()));
            let version = or_none(member.version.as_ref());
            format!("member {name}: {:?}, id {id}, volume {volume}, version {version}", member.stage)
        }));
        lines
    }

    fn describe_plan(&self) -> Vec<String> {
        let Some(planned) = &self.last_plan else { return Vec::new() };
        let Plan { recorded_steps, effects, waiting, .. } = &planned.plan;
        let remaining = match &self.operator.at {
            At::Between => 0,
            At::Within(within) => within.pass.remaining().len(),
        };
        let next = effects.len() - remaining;
        let steps: Vec<String> = recorded_steps.iter().map(ToString::to_string).collect();
        let mut lines = Vec::new();
        lines.extend((!steps.is_empty()).then(|| format!("records {}", steps.join(" "))));
        lines.extend(effects.iter().enumerate().map(|(n, effect)| {
            let place = match n.cmp(&next) {
                std::cmp::Ordering::Less => "sent ",
                std::cmp::Ordering::Equal => "next ",
                std::cmp::Ordering::Greater => "later",
            };
            format!("{place} {}: {effect}", effect.step())
        }));
        lines.extend(waiting.iter().map(|waiting| format!("waits on {}", explain(waiting).message())));
        lines
    }

    fn describe_kind(&self, kind: Kind) -> Vec<String> {
        let describe = |object: &Value| {
            let mut words = match kind {
                Kind::Cluster => words_of_cluster(object),
                Kind::Pod => self.words_of_pod(object),
                Kind::Volume => words_of_volume(object),
                Kind::Service => words_of_service(object),
                Kind::Budget => vec![format!(
                    "minAvailable {}",
                    integer(object, "/spec/minAvailable").unwrap_or_default()
                )],
                Kind::Certificate => vec![format!("by {}", text(object, "/spec/issuerRef/name"))],
                Kind::Secret | Kind::NetworkPolicy | Kind::Backup => Vec::new(),
            };
            if deleting(object) {
                words.push("deleting".to_owned());
            }
            let touched = annotation(object, "example.org/touched");
            words.extend(touched.map(|_| "changed by another client".to_owned()));
            format!("{} {} (uid {}): {}", kind.as_str(), name(object), uid(object), words.join(", "))
        };
        let objects = self.objects(kind);
        objects
            .iter()
            .flat_map(|object| [describe(object)].into_iter().chain(conditions_of(object)))
            .collect()
    }

    fn words_of_pod(&self, pod: &Value) -> Vec<String> {
        let mut words = vec![
            or(text(pod, "/status/phase"), "Pending").to_owned(),
            format!("ready {}", or(condition(pod, "Ready"), "False")),
        ];
        let gates = items(pod, "/spec/schedulingGates");
        words.extend((!gates.is_empty()).then(|| "gated".to_owned()));
        words.extend(label(pod, keys::JOINED).map(|_| "labelled joined".to_owned()));
        words.extend(annotation(pod, keys::REVISION).map(|revision| format!("revision {revision}")));
        match self.pods.get(uid(pod)) {
            None => words.push("not started".to_owned()),
            Some(running) => {
                words.push(format!("on {}", running.dir));
                let refused = running.refused.as_ref();
                words.extend(refused.map(|message| format!("the agent refuses: {message}")));
                words.extend((running.restarts > 0).then(|| format!("restarts {}", running.restarts)));
            }
        }
        words
    }

    fn describe_etcd(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.etcd.groups().map(words_of_group).collect();
        for (at, process) in self.etcd.processes() {
            let state = match &process.state {
                State::Starting => "starting".to_owned(),
                State::Running => "running".to_owned(),
                State::Ended(words) => format!("ended: {words}"),
            };
            let disk = self.etcd.disk(&process.launch.dir);
            let flags = [
                (process.cut, "cut off"),
                (process.isolated, "cut off from its peers"),
                (process.lags, "lags"),
                (disk == Disk::Hung, "its disk hangs"),
                (disk == Disk::Full, "its disk is full"),
                (disk == Disk::ReadOnly, "its disk is read-only"),
                (disk == Disk::Slow, "its disk is slow"),
                (process.serves, "serves clients"),
            ];
            let flags: String =
                flags.iter().filter(|(is, _)| *is).map(|(_, word)| format!(", {word}")).collect();
            let start = if process.launch.new { "new" } else { "existing" };
            lines.push(format!("process {} in Pod {at}: {state} ({start}){flags}", process.launch.name));
        }
        lines.extend(self.etcd.dirs().filter_map(|at| words_of_dir(&self.etcd, at)));
        lines
    }

    fn describe_faults(&self) -> Vec<String> {
        let mut lines = self.faults.words();
        lines.extend(self.late.iter().map(|call| format!("a request is late: {}", call.words())));
        lines.extend(self.former_leader.as_ref().map(|former_leader| {
            match former_leader.turn {
                Turn::Leaders | Turn::Own => "an operator that lost the lease goes on",
                Turn::WhenAllRests => "an operator that lost the lease is stopped in its pass",
            }
            .to_owned()
        }));
        lines
    }
}

/// The conditions of an EtcdCluster, a line each.
fn conditions_of(object: &Value) -> Vec<String> {
    let of_cluster =
        items(object, "/status/conditions").iter().filter(|one| !text(one, "/reason").is_empty());
    let words = |one: &Value| {
        let [type_, status, reason, message] =
            ["/type", "/status", "/reason", "/message"].map(|field| text(one, field));
        format!("condition {type_}={status} {reason}: {message}")
    };
    of_cluster.map(words).collect()
}

fn words_of_cluster(cluster: &Value) -> Vec<String> {
    let spec = &cluster["spec"];
    let mut words = vec![
        format!("size {}", integer(cluster, "/spec/size").unwrap_or_default()),
        format!("version {}", text(cluster, "/spec/version")),
        format!("phase {}", or(text(cluster, "/status/phase"), "none")),
    ];
    words.extend(spec["paused"].as_bool().filter(|paused| *paused).map(|_| "paused".to_owned()));
    words
}

fn words_of_group(group: &Group) -> String {
    let conf = group.conf();
    let name = |id| conf.members.get(&id).map_or(String::new(), |peer| peer.name.clone());
    let members: Vec<String> = conf
        .members
        .iter()
        .map(|(id, peer)| {
            let role = if peer.is_learner { "learner" } else { "voter" };
            let started = if peer.started { "" } else { " unstarted" };
            let name = or(&peer.name, peer.url.as_str());
            let stored = group.matched(*id).map_or(String::new(), |len| format!(" stored {len}"));
            format!("{name} {id} {role}{started}{stored}")
        })
        .collect();
    let writes = group.log().iter().filter(|entry| matches!(entry, Entry::Write(_))).count();
    let leader = group.leader().map_or("no member".to_owned(), |id| or(&name(id), "a member").to_owned());
    let removed: Vec<String> = conf.removed.iter().map(ToString::to_string).collect();
    let removed = if removed.is_empty() { String::new() } else { format!("; removed {}", removed.join(" ")) };
    let alarms: Vec<String> = group
        .tip()
        .alarms
        .iter()
        .map(|alarm| format!("; alarm {:?} of {}", alarm.kind, alarm.member))
        .collect();
    let (alarms, auth) = (alarms.concat(), if group.tip().auth { "; auth is enabled" } else { "" });
    format!(
        "cluster {}: led by {leader}; log of {} entries, {writes} of them writes; members: {}{removed}{alarms}{auth}",
        group.id(),
        group.log().len(),
        members.join(", ")
    )
}

fn words_of_dir(etcd: &Etcd, at: &str) -> Option<String> {
    let dir = etcd.dir(at)?;
    let corrupt = if dir.corrupt { ", corrupt" } else { "" };
    let (member, cluster, len) = (dir.member, dir.cluster, dir.stored.len);
    Some(format!("data on {at}: of member {member} of cluster {cluster}, {len} entries{corrupt}"))
}

fn words_of_volume(volume: &Value) -> Vec<String> {
    let annotations =
        entries(volume, "/metadata/annotations").filter(|(key, _)| key.starts_with(keys::GROUP));
    let short = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
    let identity = annotations.filter_map(|(key, value)| Some(format!("{} {}", short(key), value.as_str()?)));
    [format!("{} requested", text(volume, "/spec/resources/requests/storage"))]
        .into_iter()
        .chain(identity)
        .collect()
}

fn words_of_service(service: &Value) -> Vec<String> {
    let headless = text(service, "/spec/clusterIP") == "None";
    let selector = entries(service, "/spec/selector");
    let selector: Vec<String> =
        selector.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    let mut words = vec![format!("selects {}", selector.join(" "))];
    words.extend(headless.then(|| "headless".to_owned()));
    words
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

fn or_none<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| "none".to_owned(), ToString::to_string)
}

impl Description {
    /// The differences from an earlier description: `-` for lines that are gone, `+` for lines that are new.
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let sections = self.0.iter().zip(&before.0);
        sections
            .flat_map(|((title, now), (_, before))| {
                let gone = before.iter().filter(|line| !now.contains(line));
                let new = now.iter().filter(|line| !before.contains(line));
                let gone = gone.map(move |line| format!("- {title}: {line}"));
                gone.chain(new.map(move |line| format!("+ {title}: {line}")))
            })
            .collect()
    }
}

impl std::fmt::Display for Description {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (title, lines) in self.0.iter().filter(|(_, lines)| !lines.is_empty()) {
            writeln!(f, "{title}:")?;
            lines.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        }
        Ok(())
    }
}
