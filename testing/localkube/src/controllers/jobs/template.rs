//! A new Pod of a Job.

use jiff::Timestamp;
use quorate_apistore::fields::{items, name, namespace, text, uid};
use serde_json::{Value, json};

use super::TRACKING;
use crate::fingerprint::fingerprint;

/// The characters of generated names, without vowels.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The longest prefix of a generated name.
const LONGEST_PREFIX: usize = 58;

/// A Pod of a Job, one of those created at this moment. Its name has five characters that are the same in every run.
pub(super) fn pod(job: &Value, number: usize, now: Timestamp) -> Value {
    let template = &job["spec"]["template"];
    let mut pod = json!({
        "metadata": template["metadata"],
        "spec": template["spec"],
    });
    let metadata = &mut pod["metadata"];
    let prefix = format!("{}-", name(job));
    let base = prefix.get(..LONGEST_PREFIX).unwrap_or(&prefix);
    metadata["name"] = json!(format!("{base}{}", suffix(job, number, now)));
    metadata["generateName"] = json!(prefix);
    metadata["namespace"] = json!(namespace(job));
    metadata["ownerReferences"] = json!([{
        "apiVersion": "batch/v1", "kind": "Job", "name": name(job), "uid": uid(job),
        "controller": true, "blockOwnerDeletion": true,
    }]);
    let mut finalizers = items(template, "/metadata/finalizers").to_vec();
    finalizers.push(json!(TRACKING));
    metadata["finalizers"] = json!(finalizers);
    pod
}

fn suffix(job: &Value, number: usize, now: Timestamp) -> String {
    let version = text(job, "/metadata/resourceVersion");
    let mut hash = fingerprint(&[uid(job), version, &now.to_string(), &number.to_string()]);
    let mut suffix = String::new();
    for _ in 0..5 {
        let digit = usize::try_from(hash % 27).unwrap_or(0);
        suffix.extend(ALPHABET.get(digit).map(|byte| char::from(*byte)));
        hash /= 27;
    }
    suffix
}
