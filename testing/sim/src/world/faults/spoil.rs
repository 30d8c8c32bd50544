//! What becomes of the record in status past the operator: another definition drops a field of it, or a newer operator writes it.

use quorate_apistore::store::Part;
use quorate_manifests::Kind;
use serde_json::{Value, json};

use crate::world::World;
use crate::world::objects::key;

/// The field by which a status says of itself that a newer operator wrote it.
pub(super) const FORMAT: &str = "formatVersion";

/// The fields of the record, and its witness.
const FIELDS: [&str; 12] = [
    FORMAT,
    "recordHash",
    "bootstrap",
    "incarnation",
    "replacing",
    "quorumRecovery",
    "clusterID",
    "target",
    "acceptedSpec",
    "certificates",
    "auth",
    "members",
];

impl World {
    /// The fields of the record that can be spoiled now: one after the other.
    pub(super) fn fields_to_spoil(&self) -> impl Iterator<Item = &'static str> {
        let cluster = self.object(Kind::Cluster, &self.at.name).filter(|_| self.faults.spoiled.is_none());
        FIELDS.into_iter().filter(move |field| {
            let status = cluster.as_ref().map(|cluster| &cluster["status"]);
            status.is_some_and(|status| status["recordHash"].is_string() && !status[*field].is_null())
        })
    }

    pub(super) fn spoil_status(&mut self, field: &str) -> bool {
        if !self.fields_to_spoil().any(|known| known == field) {
            return false;
        }
        let mut before = Value::Null;
        let spoiled = self.change(&key(Kind::Cluster, &self.at, &self.at.name), Part::Status, |cluster| {
            let status = &mut cluster["status"];
            before = status[field].take();
            if field == FORMAT {
                status[field] = json!(quorate_api::status::FORMAT_VERSION + 1);
            } else if let Some(fields) = status.as_object_mut() {
                fields.remove(field);
            }
        });
        self.faults.spoiled = spoiled.is_ok().then(|| (field.to_owned(), before.to_string()));
        spoiled.is_ok()
    }

    /// A person puts back what was spoiled, as the runbook says. Nothing was recorded meanwhile.
    pub(super) fn put_status_right(&mut self) -> Option<String> {
        let (field, before) = self.faults.spoiled.take()?;
        let before: Value = serde_json::from_str(&before).ok()?;
        let mended = self.change(&key(Kind::Cluster, &self.at, &self.at.name), Part::Status, |cluster| {
            let status = &mut cluster["status"];
            // The whole status may have been lost since.
            if status["recordHash"].is_string() || field == "recordHash" {
                status[&field] = before;
            }
        });
        mended.is_ok().then(|| format!("a person puts status.{field} right"))
    }
}
