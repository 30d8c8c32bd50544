//! Parses the path of a URL.

use std::sync::Arc;

use quorate_apistore::ApiError;
use quorate_apistore::{ObjectKey, ResourceInfo, ResourceKey};

/// A parsed path.
pub(super) struct Parsed {
    pub group: String,
    pub version: String,
    pub namespace: Option<String>,
    pub resource: String,
    pub target: Target,
    /// Where the objects are stored: events of both groups in one place.
    pub storage: ResourceKey,
}

/// All objects of a kind, or one.
pub(super) enum Target {
    Collection,
    Object { name: String, subresource: Option<String> },
}

/// A kind, and the namespace in the path.
pub(super) struct Place {
    pub info: Arc<ResourceInfo>,
    pub namespace: Option<String>,
    pub storage: ResourceKey,
}

impl Place {
    pub(super) fn key(&self, name: &str) -> Result<ObjectKey, ApiError> {
        Ok(ObjectKey::new(self.storage.clone(), self.namespace_for_writing()?, name))
    }

    /// The namespace of a write, empty for cluster-scoped kinds; a namespaced kind must name it.
    pub(super) fn namespace_for_writing(&self) -> Result<&str, ApiError> {
        match &self.namespace {
            Some(namespace) => Ok(namespace),
            None if self.info.namespaced => Err(ApiError::method_not_allowed()),
            None => Ok(""),
        }
    }
}

pub(super) fn parse(path: &str) -> Option<Parsed> {
    let mut parts = path.trim_matches('/').split('/');
    let (group, version) = match parts.next()? {
        "api" => (String::new(), parts.next()?.to_owned()),
        "apis" => (parts.next()?.to_owned(), parts.next()?.to_owned()),
        _ => return None,
    };
    let mut rest: Vec<&str> = parts.collect();
    let mut namespace = None;
    // `namespaces/x` and its subresources are the namespace itself.
    if rest.first() == Some(&"namespaces") && rest.len() > 2 && !["status", "finalize"].contains(&rest[2]) {
        namespace = Some(rest[1].to_owned());
        rest.drain(..2);
    }
    let resource = (*rest.first()?).to_owned();
    let target = match rest.as_slice() {
        [_] => Target::Collection,
        [_, name] => Target::Object { name: (*name).to_owned(), subresource: None },
        [_, name, subresource] => {
            Target::Object { name: (*name).to_owned(), subresource: Some((*subresource).to_owned()) }
        }
        _ => return None,
    };
    let storage_group = if group == "events.k8s.io" { "" } else { &group };
    let storage = ResourceKey::new(storage_group, resource.clone());
    Some(Parsed { group, version, namespace, resource, target, storage })
}
