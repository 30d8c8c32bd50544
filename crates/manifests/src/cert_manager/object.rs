//! The kind Certificate of cert-manager.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The group of cert-manager's kinds.
pub const GROUP: &str = "cert-manager.io";
/// Their version.
pub const VERSION: &str = "v1";

/// A Certificate, as far as it is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What it asks for.
    #[serde(default)]
    pub spec: Value,
    /// What cert-manager says of it.
    #[serde(default)]
    pub status: Value,
}

impl Resource for Certificate {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Certificate".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "certificates".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
