//! Where a Job runs and as whom.

use k8s_openapi::api::core::v1::PodSecurityContext;
use quorate_api::EtcdCluster;
use quorate_api::backup::JobTemplate;
use quorate_api::cluster::{PodMetadata, PodSpec};
use serde_json::{Value, json};

use crate::metadata;

/// The template of an EtcdBackup that outlives its cluster: the removal of its object needs what the cluster says now.
pub(crate) fn template_of_cluster(
    template: Option<JobTemplate>,
    cluster: &EtcdCluster,
) -> Option<JobTemplate> {
    let is_given = template.is_some();
    Some(of_cluster(template, Some(cluster))).filter(|whole| is_given || *whole != JobTemplate::default())
}

/// What the Pods of members have that reaches a store and a node.
pub(crate) fn as_members(cluster: &EtcdCluster) -> JobTemplate {
    let of_members = cluster.spec.pod_template.clone().unwrap_or_default();
    let PodMetadata { labels, annotations } = of_members.metadata.unwrap_or_default();
    let members = of_members.spec.unwrap_or_default();
    // Policies of the network go by labels, and of admission by annotations too: it proves nothing if they take it for something else.
    let template = JobTemplate {
        labels,
        annotations,
        node_selector: members.node_selector,
        tolerations: members.tolerations,
        priority_class_name: members.priority_class_name,
        scheduler_name: members.scheduler_name,
        runtime_class_name: members.runtime_class_name,
        service_account_name: members.service_account_name,
        ..JobTemplate::default()
    };
    // A file of a claim may be readable by one group only.
    of_cluster(Some(template), Some(cluster))
}

/// The template with what it leaves to the cluster that the Job is for: the images come from the same registries, and a namespace that
/// admits the members admits their users and groups.
pub(super) fn of_cluster(template: Option<JobTemplate>, cluster: Option<&EtcdCluster>) -> JobTemplate {
    let mut template = template.unwrap_or_default();
    if let Some(cluster) = cluster {
        let JobTemplate { labels, annotations, .. } = template;
        (template.labels, template.annotations) = metadata::merged(cluster, labels, annotations);
    }
    if let Some(cluster) = cluster
        && template.image_pull_secrets.is_empty()
    {
        template.image_pull_secrets.clone_from(&cluster.spec.image_pull_secrets);
    }
    let members = pod_spec(cluster).and_then(|spec| spec.security_context.as_ref());
    template.security_context = merged(members, template.security_context.as_ref());
    template
}

/// The fields of both, those of the second before those of the first.
fn merged(
    first: Option<&PodSecurityContext>,
    second: Option<&PodSecurityContext>,
) -> Option<PodSecurityContext> {
    let (Some(first), Some(second)) = (first, second) else { return second.or(first).cloned() };
    let mut fields = json!(first);
    if let (Value::Object(fields), Value::Object(second)) = (&mut fields, json!(second)) {
        fields.extend(second);
    }
    serde_json::from_value(fields).ok()
}

pub(super) fn pod_spec(cluster: Option<&EtcdCluster>) -> Option<&PodSpec> {
    cluster?.spec.pod_template.as_ref()?.spec.as_ref()
}
