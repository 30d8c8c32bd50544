//! The names of Secrets that are no certificate's, and the list of all that the operator writes.

use quorate_model::ClusterRef;

use crate::certificate::kinds::Certificate;

/// The connection Secret, with all that an application connects with.
pub fn connection(at: &ClusterRef) -> String {
    format!("{}-connection", at.name)
}

/// The Secret of the credential that Kamaji has: of the user root, and apart from that of the operator.
pub fn data_store(at: &ClusterRef) -> String {
    format!("{}-root-client-tls", at.name)
}

/// Those that the operator writes for the cluster itself. The spec cannot name them as somebody else's.
pub fn own_secrets(at: &ClusterRef) -> Vec<String> {
    let certificates = Certificate::ALL.iter().map(|one| one.secret_name(at));
    certificates.chain([connection(at), data_store(at)]).collect()
}
