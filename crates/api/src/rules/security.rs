//! Rules on `podTemplate.spec.securityContext`: members run under the restricted Pod Security standard, so what that standard refuses
//! is refused here, with the reason, and not by the API server when a Pod is created.

use k8s_openapi::api::core::v1::PodSecurityContext;
use kube_core::Rule;
use schemars::{Schema, SchemaGenerator};
use serde_json::json;

use super::{bounded, rule};

/// Namespaced kernel parameters that the standard admits and that the kubelet applies without being told to.
const SYSCTLS: &str = "['kernel.shm_rmid_forced', 'net.ipv4.ip_local_port_range', 'net.ipv4.ip_unprivileged_port_start', \
    'net.ipv4.tcp_syncookies', 'net.ipv4.ping_group_range', 'net.ipv4.ip_local_reserved_ports', 'net.ipv4.tcp_keepalive_time', \
    'net.ipv4.tcp_fin_timeout', 'net.ipv4.tcp_keepalive_intvl', 'net.ipv4.tcp_keepalive_probes', 'net.ipv4.tcp_rmem', \
    'net.ipv4.tcp_wmem']";

/// Whose Pods they are.
#[derive(Clone, Copy)]
struct Place {
    field: &'static str,
    why: &'static str,
}

const MEMBERS: Place = Place {
    field: "podTemplate.spec.securityContext",
    why: "members run under the restricted Pod Security standard",
};
const JOBS: Place = Place {
    field: "jobTemplate.securityContext",
    why: "Jobs run under the restricted Pod Security standard",
};

/// Kubernetes' schema with the rules for members.
pub(crate) fn security_context(generator: &mut SchemaGenerator) -> Schema {
    context_at(MEMBERS, generator)
}

/// The same for the Pods of Jobs.
pub(crate) fn security_context_of_jobs(generator: &mut SchemaGenerator) -> Schema {
    context_at(JOBS, generator)
}

fn context_at(place: Place, generator: &mut SchemaGenerator) -> Schema {
    let mut schema = bounded::<PodSecurityContext>(generator).to_value();
    // Refused by a rule, whatever it has.
    schema["properties"]["windowsOptions"] =
        json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    schema["x-kubernetes-validations"] = json!(rules(place));
    schema.try_into().expect("a schema with rules is a schema")
}

fn rules(place: Place) -> Vec<Rule> {
    let Place { field, why } = place;
    let refused = |cel: &str, at: &str, message: String| {
        let rule = rule(cel, &format!("{field}{at} {message}"));
        if at.is_empty() { rule } else { rule.field_path(at.to_owned()) }
    };
    vec![
        refused(
            "!has(self.runAsNonRoot) || self.runAsNonRoot",
            ".runAsNonRoot",
            format!("must not be false: {why}"),
        ),
        refused(
            "!has(self.runAsUser) || (self.runAsUser > 0 && self.runAsUser <= 2147483647)",
            ".runAsUser",
            format!("must be a user other than root (0), up to 2147483647: {why}"),
        ),
        refused(
            "(!has(self.runAsGroup) || (self.runAsGroup >= 0 && self.runAsGroup <= 2147483647)) && \
             (!has(self.fsGroup) || (self.fsGroup >= 0 && self.fsGroup <= 2147483647)) && (!has(self.supplementalGroups) || \
             self.supplementalGroups.all(group, group >= 0 && group <= 2147483647))",
            "",
            "must have groups from 0 to 2147483647".to_owned(),
        ),
        profile(place, "seccompProfile"),
        profile(place, "appArmorProfile"),
        refused(
            "!has(self.seLinuxOptions) || ((!has(self.seLinuxOptions.user) || self.seLinuxOptions.user == '') && \
             (!has(self.seLinuxOptions.role) || self.seLinuxOptions.role == '') && (!has(self.seLinuxOptions.type) || \
             self.seLinuxOptions.type in ['', 'container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t']))",
            ".seLinuxOptions",
            format!(
                "must have no user, no role, and the type container_t, container_init_t, container_kvm_t or \
                 container_engine_t, or none: {why}"
            ),
        ),
        refused(
            &format!("!has(self.sysctls) || self.sysctls.all(one, one.name in {SYSCTLS})"),
            ".sysctls",
            format!("must name only kernel parameters that the standard calls safe: {why}"),
        ),
        refused(
            "!has(self.windowsOptions)",
            ".windowsOptions",
            "must be left out: etcd's image is one for Linux".to_owned(),
        ),
    ]
}

fn profile(Place { field: context, why }: Place, field: &str) -> Rule {
    let cel = format!(
        "!has(self.{field}) || self.{field}.type == 'RuntimeDefault' || (self.{field}.type == 'Localhost' && \
         has(self.{field}.localhostProfile))"
    );
    let message = format!(
        "{context}.{field} must have the type RuntimeDefault, or Localhost with a localhostProfile: {why}"
    );
    rule(cel, &message).field_path(format!(".{field}"))
}
