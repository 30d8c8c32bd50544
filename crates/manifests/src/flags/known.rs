//! The flags that etcd takes, by minor version, as far as users may set them: read off `etcd --help` of 3.5.35, 3.6.16
//! and 3.7.3. A flag that the minor does not know would stop etcd from starting, so it is refused before any Pod is created.
//! Flags that make up a member's identity are reserved: the operator sets them.

use quorate_model::Minor;

/// A range of minors of etcd 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(u16, u16);

const ALWAYS: Span = Span(5, u16::MAX);
const SINCE_3_6: Span = Span(6, u16::MAX);
const UNTIL_3_6: Span = Span(5, 6);
const ONLY_3_6: Span = Span(6, 6);

/// The check of the data at a start, as 3.5 calls it; 3.6 knows both names, and refuses them together.
pub(super) const CORRUPTION_CHECK_3_5: &str = "experimental-initial-corrupt-check";

/// The comparison of the hashes that compactions make, as 3.5 calls it. 3.6 knows both names, too.
pub(super) const COMPACT_HASH_CHECK_3_5: &str = "experimental-compact-hash-check-enabled";

/// The time between two comparisons of all data, as 3.5 calls it.
pub(super) const CHECK_TIME_3_5: &str = "experimental-corrupt-check-time";

/// The time between two comparisons of all data.
pub(super) const CHECK_TIME: &str = "corrupt-check-time";

/// Where later minors have what used to be experimental flags.
pub(super) const FEATURE_GATES: &str = "feature-gates";

/// Flags that the operator sets itself, or that would lose data: the same that the resource definition refuses.
const RESERVED: &[&str] = &[
    "name",
    "data-dir",
    "wal-dir",
    "config-file",
    "strict-reconfig-check",
    "cert-file",
    "key-file",
    "ca-file",
    "trusted-ca-file",
    "auto-tls",
    "self-signed-cert-validity",
    "force-new-cluster",
    "version",
    "help",
];

/// Prefixes of such flags.
const RESERVED_PREFIXES: &[&str] = &[
    "initial-",
    "advertise-",
    "listen-",
    "discovery",
    "client-",
    "peer-",
    "experimental-peer-",
    "unsafe-",
    "enable-v2",
    "experimental-enable-v2",
    "proxy",
];

/// Every other flag, and the minors that know it.
const FLAGS: &[(&str, Span)] = &[
    ("auth-token", ALWAYS),
    ("auth-token-ttl", ALWAYS),
    ("auto-compaction-mode", ALWAYS),
    ("auto-compaction-retention", ALWAYS),
    ("backend-batch-interval", ALWAYS),
    ("backend-batch-limit", ALWAYS),
    ("backend-bbolt-freelist-type", ALWAYS),
    ("bcrypt-cost", ALWAYS),
    ("bootstrap-defrag-threshold-megabytes", SINCE_3_6),
    ("cipher-suites", ALWAYS),
    ("compact-hash-check-time", SINCE_3_6),
    ("compaction-batch-limit", SINCE_3_6),
    ("compaction-sleep-interval", SINCE_3_6),
    (CHECK_TIME, SINCE_3_6),
    ("cors", ALWAYS),
    ("distributed-tracing-address", SINCE_3_6),
    ("distributed-tracing-instance-id", SINCE_3_6),
    ("distributed-tracing-sampling-rate", SINCE_3_6),
    ("distributed-tracing-service-name", SINCE_3_6),
    ("downgrade-check-time", SINCE_3_6),
    ("election-timeout", ALWAYS),
    ("enable-distributed-tracing", SINCE_3_6),
    ("enable-grpc-gateway", ALWAYS),
    ("enable-log-rotation", ALWAYS),
    ("enable-pprof", ALWAYS),
    ("experimental-bootstrap-defrag-threshold-megabytes", UNTIL_3_6),
    (COMPACT_HASH_CHECK_3_5, UNTIL_3_6),
    ("experimental-compact-hash-check-time", UNTIL_3_6),
    ("experimental-compaction-batch-limit", UNTIL_3_6),
    ("experimental-compaction-sleep-interval", UNTIL_3_6),
    (CHECK_TIME_3_5, UNTIL_3_6),
    ("experimental-distributed-tracing-address", UNTIL_3_6),
    ("experimental-distributed-tracing-instance-id", UNTIL_3_6),
    ("experimental-distributed-tracing-sampling-rate", UNTIL_3_6),
    ("experimental-distributed-tracing-service-name", UNTIL_3_6),
    ("experimental-downgrade-check-time", UNTIL_3_6),
    ("experimental-enable-distributed-tracing", UNTIL_3_6),
    ("experimental-enable-lease-checkpoint", UNTIL_3_6),
    ("experimental-enable-lease-checkpoint-persist", UNTIL_3_6),
    (CORRUPTION_CHECK_3_5, UNTIL_3_6),
    ("experimental-memory-mlock", UNTIL_3_6),
    ("experimental-snapshot-catchup-entries", ONLY_3_6),
    ("experimental-stop-grpc-service-on-defrag", UNTIL_3_6),
    ("experimental-txn-mode-write-with-shared-buffer", UNTIL_3_6),
    ("experimental-warning-apply-duration", UNTIL_3_6),
    ("experimental-warning-unary-request-duration", ONLY_3_6),
    ("experimental-watch-progress-notify-interval", UNTIL_3_6),
    (FEATURE_GATES, SINCE_3_6),
    ("grpc-keepalive-interval", ALWAYS),
    ("grpc-keepalive-min-time", ALWAYS),
    ("grpc-keepalive-timeout", ALWAYS),
    ("heartbeat-interval", ALWAYS),
    ("host-whitelist", ALWAYS),
    ("log-format", SINCE_3_6),
    ("log-level", ALWAYS),
    ("log-outputs", ALWAYS),
    ("log-rotation-config-json", ALWAYS),
    ("logger", ALWAYS),
    ("max-concurrent-streams", ALWAYS),
    ("max-learners", SINCE_3_6),
    ("max-request-bytes", ALWAYS),
    ("max-snapshots", ALWAYS),
    ("max-txn-ops", ALWAYS),
    ("max-wals", ALWAYS),
    ("memory-mlock", SINCE_3_6),
    ("metrics", ALWAYS),
    ("pre-vote", ALWAYS),
    ("quota-backend-bytes", ALWAYS),
    ("raft-read-timeout", ALWAYS),
    ("raft-write-timeout", ALWAYS),
    ("snapshot-catchup-entries", SINCE_3_6),
    ("snapshot-count", ALWAYS),
    ("socket-reuse-address", ALWAYS),
    ("socket-reuse-port", ALWAYS),
    ("tls-max-version", ALWAYS),
    ("tls-min-version", ALWAYS),
    ("v2-deprecation", ALWAYS),
    ("warning-apply-duration", SINCE_3_6),
    ("warning-unary-request-duration", SINCE_3_6),
    ("watch-progress-notify-interval", SINCE_3_6),
];

/// Whether the flag is reserved for the operator.
pub(super) fn is_reserved(flag: &str) -> bool {
    RESERVED.contains(&flag) || RESERVED_PREFIXES.iter().any(|prefix| flag.starts_with(prefix))
}

/// Whether this minor knows the flag.
pub(super) fn is_known(flag: &str, minor: Minor) -> bool {
    FLAGS.iter().any(|(known, span)| *known == flag && span.holds(minor))
}

/// Whether a flag is the older name of what the operator's default sets under a newer one.
pub(super) fn takes_the_place_of(flag: &str, default: &str) -> bool {
    [(COMPACT_HASH_CHECK_3_5, FEATURE_GATES), (CHECK_TIME_3_5, CHECK_TIME)].contains(&(flag, default))
}

/// The flag that lets a peer connect from an address that no name of its certificate has, as this minor calls it.
pub(super) fn skips_client_san(minor: Minor) -> &'static str {
    if minor < Minor(3, 6) {
        "experimental-peer-skip-client-san-verification"
    } else {
        "peer-skip-client-san-verification"
    }
}

/// The flag of this minor that was most likely meant.
pub(super) fn nearest(flag: &str, minor: Minor) -> Option<&'static str> {
    let known = FLAGS.iter().filter(|(_, span)| span.holds(minor)).map(|(known, _)| *known);
    // What is experimental in one minor has the same name without the word in the next.
    let plain = flag.strip_prefix("experimental-").unwrap_or(flag);
    let scored = known.map(|known| (strsim::jaro_winkler(plain, known), known));
    scored.filter(|(score, _)| *score > 0.85).max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, known)| known)
}

impl Span {
    fn holds(self, Minor(_, minor): Minor) -> bool {
        (self.0..=self.1).contains(&minor)
    }
}
