//! Create, update, delete. Each is atomic: all checks, then the change and its entry in the history.

use std::sync::MutexGuard;

use serde_json::{Value, json};

use super::deletion::{self, DeleteOptions, Deleted};
use super::{Inner, Store, Uids, admission, metadata};
use crate::cause::Cause;
use crate::errors::ApiError;
use crate::fields::{deleting, integer, name, text, uid};
use crate::resources::{ObjectKey, ResourceInfo, ResourceKey};

/// The part of an object that a write replaces. The rest is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Metadata and spec.
    Main,
    /// The status subresource.
    Status,
}

impl Store {
    /// Creates an object.
    pub fn create(
        &self,
        resource: &ResourceKey,
        namespace: &str,
        mut object: Value,
        dry_run: bool,
    ) -> Result<Value, ApiError> {
        let now = self.now();
        let mut inner = self.lock();
        let info = inner.resources.get(resource).ok_or_else(ApiError::no_such_path)?;
        let names_version = !text(&object, "/metadata/resourceVersion").is_empty();
        let uid = inner.new_uid(&info, namespace, &object);
        metadata::set_on_create(&info, namespace, &mut object, &uid, now)?;
        let name = name(&object).to_owned();
        let key = ObjectKey::new(resource.clone(), namespace, name.clone());
        inner.namespace_accepts(&info, namespace, &name)?;
        admission::on_create(&inner, &info, &mut object)?;
        if names_version && !dry_run {
            let message = "resourceVersion should not be set on objects to be created".to_owned();
            return Err(ApiError { code: 500, reason: "", message, details: Value::Null });
        }
        if let Some(existing) = inner.get(&key) {
            let mut refusal = ApiError::already_exists(&info, &name);
            if deleting(existing) {
                refusal.message = format!("object is being deleted: {}", refusal.message);
            }
            return Err(refusal);
        }
        if dry_run {
            return Ok(object);
        }
        if info.is_definition() {
            inner.define(&info, &mut object, now)?;
        }
        let object = inner.put(&key, object);
        self.notify(inner);
        Ok(object)
    }

    /// Replaces a part of an object. A uid and a resourceVersion in it are preconditions.
    pub fn update(
        &self,
        key: &ObjectKey,
        part: Part,
        object: Value,
        dry_run: bool,
    ) -> Result<Value, ApiError> {
        let info = self.info(&key.resource)?;
        self.modify(key, part, dry_run, |old| {
            let given = text(&object, "/metadata/uid");
            if !given.is_empty() && given != uid(old) {
                return Err(another_uid(&info, key, &key.registry_path(), given, uid(old)));
            }
            if text(&object, "/metadata/resourceVersion").is_empty() && info.must_name_version() {
                return Err(must_name_version(&info, &key.name));
            }
            Ok(object)
        })
    }

    /// Creates the object of an update that does not exist yet. A uid in it is a precondition that fails; its
    /// resourceVersion is ignored.
    pub fn create_in_place(
        &self,
        key: &ObjectKey,
        mut object: Value,
        dry_run: bool,
    ) -> Result<Value, ApiError> {
        let given = text(&object, "/metadata/uid");
        if !given.is_empty() {
            let path = key.registry_path();
            // A dry run names the key without its root.
            let path = if dry_run { path.trim_start_matches("/registry") } else { &path };
            return Err(another_uid(&*self.info(&key.resource)?, key, path, given, ""));
        }
        object["metadata"].as_object_mut().and_then(|metadata| metadata.remove("resourceVersion"));
        self.create(&key.resource, &key.namespace, object, dry_run)
    }

    /// Changes a part of an object by a function of its current state, as a patch does.
    pub fn modify(
        &self,
        key: &ObjectKey,
        part: Part,
        dry_run: bool,
        change: impl FnOnce(&Value) -> Result<Value, ApiError>,
    ) -> Result<Value, ApiError> {
        let now = self.now();
        let mut inner = self.lock();
        let info = inner.resources.get(&key.resource).ok_or_else(ApiError::no_such_path)?;
        let old = inner.shared(key).cloned().ok_or_else(|| ApiError::not_found(&info, &key.name))?;
        let wanted = change(&old)?;
        metadata::check_identity(&info, &old, &wanted)?;
        let mut new = metadata::merge(&info, part, &old, wanted);
        admission::on_update(&inner, &info, part, &old, &mut new)?;
        if metadata::desired_state_differs(&info, &old, &new) {
            let generation = integer(&old, "/metadata/generation").unwrap_or(0);
            new["metadata"]["generation"] = json!(generation + 1);
        }
        if dry_run || new == *old {
            return Ok(new);
        }
        if info.is_definition() {
            inner.define(&info, &mut new, now)?;
        }
        // An update that removes the last finalizer of a deleted object removes the object; it is not a change of its
        // own.
        let object = if deletion::is_done(&info, &new) {
            inner.remove(&info, key, Value::clone(&old));
            new
        } else {
            inner.put(key, new)
        };
        self.notify(inner);
        Ok(object)
    }

    /// Deletes an object, or marks it for deletion while it has to stop or has finalizers.
    pub fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        let now = self.now();
        let mut inner = self.lock();
        let info = inner.resources.get(&key.resource).ok_or_else(ApiError::no_such_path)?;
        let old = inner.shared(key).cloned().ok_or_else(|| ApiError::not_found(&info, &key.name))?;
        deletion::check_preconditions(&info, &old, options)?;
        let mut marked = Value::clone(&old);
        deletion::mark(&info, &mut marked, options, now);
        if options.dry_run {
            return Ok(Deleted::Gone(marked));
        }
        let mut deleted = if deletion::is_done(&info, &marked) {
            // The last state of a Pod has a deletionTimestamp; that of other kinds has none.
            let last = if info.plural == "pods" { marked } else { Value::clone(&old) };
            Deleted::Gone(inner.remove(&info, key, last))
        } else if marked == *old {
            Deleted::Marked(marked)
        } else {
            Deleted::Marked(inner.put(key, marked))
        };
        if info.is_definition()
            && let Deleted::Marked(definition) = &deleted
        {
            inner.clear_out(definition, now);
            if let Some(gone) = inner.release(key) {
                deleted = Deleted::Gone(gone);
            }
        }
        self.notify(inner);
        Ok(deleted)
    }

    pub(super) fn notify(&self, inner: MutexGuard<'_, Inner>) {
        let version = inner.version;
        drop(inner);
        self.version.send_replace(version);
    }
}

impl Inner {
    fn new_uid(&self, info: &ResourceInfo, namespace: &str, object: &Value) -> String {
        match self.uids {
            Uids::Random => metadata::random_uid(),
            Uids::Counted => {
                let key = ObjectKey::new(info.key(), namespace, name(object));
                let count = self.writes.get(&super::counted("create", &key)).copied().unwrap_or(0);
                format!("{}-{}-{count}", info.singular, name(object))
            }
        }
    }

    fn namespace_accepts(&self, info: &ResourceInfo, namespace: &str, name: &str) -> Result<(), ApiError> {
        if !info.namespaced {
            return Ok(());
        }
        let namespaces = ResourceKey::new("", "namespaces");
        let object = self.get(&ObjectKey::new(namespaces.clone(), "", namespace));
        match (object, self.resources.get(&namespaces)) {
            (Some(object), _) if deleting(object) => {
                let why = format!(
                    "unable to create new content in namespace {namespace} because it is being terminated"
                );
                let mut refusal = ApiError::forbidden(info, name, why);
                refusal.details["causes"] = json!([{
                    "reason": "NamespaceTerminating", "field": "metadata.namespace",
                    "message": format!("namespace {namespace} is being terminated"),
                }]);
                Err(refusal)
            }
            (None, Some(namespaces)) => Err(ApiError::not_found(&namespaces, namespace)),
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Removes an object; `last` is its last state. If it is the last object of a definition that is being deleted,
    /// the definition is removed as well.
    fn remove(&mut self, info: &ResourceInfo, key: &ObjectKey, last: Value) -> Value {
        let gone = self.take(key, last);
        if info.is_definition() {
            self.undefine(&gone);
        } else if info.schema.is_some() {
            self.release(&ObjectKey::new(
                ResourceKey::new("apiextensions.k8s.io", "customresourcedefinitions"),
                "",
                info.qualified(),
            ));
        }
        gone
    }
}

fn another_uid(info: &ResourceInfo, key: &ObjectKey, path: &str, given: &str, own: &str) -> ApiError {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID \
         in precondition: {given}, UID in object meta: {own}"
    );
    ApiError::conflict(info, &key.name, why)
}

fn must_name_version(info: &ResourceInfo, name: &str) -> ApiError {
    let cause = Cause::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
    let mut refusal = ApiError::invalid(info, name, std::slice::from_ref(&cause));
    // The real server names the resource here, not the kind.
    refusal.message = format!("{} {name:?} is invalid: {}: {}", info.qualified(), cause.field, cause.message);
    refusal.details["kind"] = json!(info.plural);
    refusal
}
