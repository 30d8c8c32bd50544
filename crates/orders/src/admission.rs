//! What a Job uses that belongs to somebody else than the author of its object: the identity of a ServiceAccount, and a claim that it writes. Each
//! has to say that it is for backups, so that who may write an EtcdBackup, and no Pod, gets neither the identity of another workload nor
//! its files.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::keys;

/// Something that a Job uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Used {
    /// The token of this ServiceAccount.
    Identity(String),
    /// This PersistentVolumeClaim, to write.
    Claim(String),
}

/// What a Job uses that has to be for backups.
pub fn used_by(job: &Job) -> Vec<Used> {
    let Some(pod) = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()) else { return Vec::new() };
    let has_token = pod.automount_service_account_token != Some(false);
    let identity = pod.service_account_name.clone().filter(|_| has_token);
    let claims = pod.volumes.iter().flatten().filter_map(|volume| volume.persistent_volume_claim.as_ref());
    let written = claims.filter(|claim| claim.read_only != Some(true));
    let written = written.map(|claim| Used::Claim(claim.claim_name.clone()));
    identity.map(Used::Identity).into_iter().chain(written).collect()
}

/// Why a Job does not get it, for people. `found`: its metadata, if it exists.
pub fn refused(used: &Used, found: Option<&ObjectMeta>) -> Option<String> {
    let (kind, name, mark, command) = match used {
        Used::Identity(name) => ("ServiceAccount", name, "annotation", "annotate serviceaccount"),
        Used::Claim(name) => ("PersistentVolumeClaim", name, "label", "label pvc"),
    };
    let Some(found) = found else { return Some(format!("{kind} {name} does not exist")) };
    let marks = match used {
        Used::Identity(_) => &found.annotations,
        Used::Claim(_) => &found.labels,
    };
    let is_admitted =
        marks.as_ref().and_then(|all| all.get(keys::FOR_BACKUPS)).is_some_and(|value| value == "true");
    (!is_admitted).then(|| {
        format!(
            "{kind} {name} lacks the {mark} {key}: \"true\". If Jobs of backups may use it: kubectl {command} {name} {key}=true",
            key = keys::FOR_BACKUPS
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(pod: &serde_json::Value) -> Job {
        serde_json::from_value(json!({"spec": {"template": {"spec": pod}}})).unwrap()
    }

    fn marked(with: &str) -> ObjectMeta {
        serde_json::from_value(json!({ with: {"operator.etcd.io/for-backups": "true"} })).unwrap()
    }

    #[test]
    fn o07_a_job_uses_no_identity_and_writes_no_claim_that_is_not_for_backups() {
        let claim = |name: &str, reads: bool| json!({"name": name, "persistentVolumeClaim": {"claimName": name, "readOnly": reads}});
        let volumes = json!([claim("own", false), claim("other", true), {"name": "scratch", "emptyDir": {}}]);
        let writes = job(&json!({
            "containers": [], "automountServiceAccountToken": false, "serviceAccountName": "sa", "volumes": volumes
        }));
        assert_eq!(
            used_by(&writes),
            [Used::Claim("own".to_owned())],
            "it has no token, and reads the other claim"
        );
        let with_token = job(&json!({
            "containers": [], "automountServiceAccountToken": true, "serviceAccountName": "sa"
        }));
        let identity = Used::Identity("sa".to_owned());
        assert_eq!(used_by(&with_token), std::slice::from_ref(&identity));
        for (used, mark, other) in
            [(Used::Claim("own".to_owned()), "labels", "annotations"), (identity, "annotations", "labels")]
        {
            assert_eq!(refused(&used, Some(&marked(mark))), None);
            let why = refused(&used, Some(&marked(other))).unwrap();
            assert!(why.contains("operator.etcd.io/for-backups=true"), "{why}");
            assert!(refused(&used, None).unwrap().contains("does not exist"));
        }
    }
}
