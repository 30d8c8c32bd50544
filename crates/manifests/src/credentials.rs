//! The Secrets with credentials of a cluster: who presents what is in one of them is let in by its members, or can sign for somebody who is. One
//! list for all who ask, so that a new Secret is missing nowhere.

use kube_core::ResourceExt as _;
use quorate_api::EtcdUser;
use quorate_api::cluster::TlsSpec;
use quorate_model::{ClusterRef, Leaf};

use crate::certificate::given;
use crate::names::own_secrets;
use crate::{cert_manager, user};

/// All of them: the cluster's own, those that cert-manager writes for it, whatever the spec says now, those that the spec names, and those of its
/// EtcdUsers among these. Without a spec, those that it names are left out.
pub fn secrets<'a>(
    at: &ClusterRef,
    tls: Option<&TlsSpec>,
    users: impl IntoIterator<Item = &'a EtcdUser>,
) -> Vec<String> {
    let issued = Leaf::ALL.into_iter().map(|leaf| cert_manager::secret_name(leaf, at));
    let named = tls.map(|tls| given::secret_names(at, tls)).unwrap_or_default();
    let is_of = |user: &&EtcdUser| {
        user.namespace().as_deref() == Some(&*at.namespace) && user.spec.cluster == at.name
    };
    let of_users = users.into_iter().filter(is_of).map(|user| user::secret_name(&user.name_any()));
    own_secrets(at).into_iter().chain(issued).chain(named).chain(of_users).collect()
}
