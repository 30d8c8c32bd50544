//! The agent's log: one JSON object a line on stderr, in the form of etcd's own, with `"logger":"agent"`. etcd writes to the
//! same stream, so this field tells the two apart.

use serde_json::json;

/// What happens as planned.
pub(crate) fn info(message: &str) {
    line("info", message);
}

/// What a person should know.
pub(crate) fn warn(message: &str) {
    line("warn", message);
}

/// Why the agent ends.
pub(crate) fn error(message: &str) {
    line("error", message);
}

fn line(level: &str, message: &str) {
    #[expect(clippy::disallowed_methods, reason = "for people who read the log; nothing is decided by it")]
    let now = jiff::Timestamp::now();
    eprintln!("{}", json!({ "level": level, "ts": format!("{now:.6}"), "logger": "agent", "msg": message }));
}
