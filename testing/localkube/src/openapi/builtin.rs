//! The schemas of the built-in kinds, from k8s-openapi.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::Resource;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret,
    Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::{Eviction, PodDisruptionBudget};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::api::{discovery::v1::EndpointSlice, events};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::kind;

/// The place of schemas in a document.
const PLACE: &str = "/components/schemas";

type Schemas = Map<String, Value>;

/// The schemas of one group and version, with everything they refer to. A custom resource needs at least `ObjectMeta`.
pub(super) fn schemas(group: &str, version: &str) -> Schemas {
    static BUILT_IN: LazyLock<BTreeMap<(&str, &str), Schemas>> = LazyLock::new(generate);
    static METADATA: LazyLock<Schemas> = LazyLock::new(|| {
        let mut generator = generator();
        generator.subschema_for::<ObjectMeta>();
        generator.take_definitions(true)
    });
    BUILT_IN.get(&(group, version)).unwrap_or(&METADATA).clone()
}

fn generate() -> BTreeMap<(&'static str, &'static str), Schemas> {
    let mut documents = BTreeMap::new();
    add::<ConfigMap>(&mut documents);
    add::<Endpoints>(&mut documents);
    add::<Event>(&mut documents);
    add::<Namespace>(&mut documents);
    add::<Node>(&mut documents);
    add::<PersistentVolume>(&mut documents);
    add::<PersistentVolumeClaim>(&mut documents);
    add::<Pod>(&mut documents);
    add::<Secret>(&mut documents);
    add::<Service>(&mut documents);
    add::<ServiceAccount>(&mut documents);
    add::<Lease>(&mut documents);
    add::<Job>(&mut documents);
    add::<PodDisruptionBudget>(&mut documents);
    add::<NetworkPolicy>(&mut documents);
    add::<Eviction>(&mut documents);
    add::<StorageClass>(&mut documents);
    add::<EndpointSlice>(&mut documents);
    add::<events::v1::Event>(&mut documents);
    add::<CustomResourceDefinition>(&mut documents);
    documents
}

fn add<K: Resource + JsonSchema>(documents: &mut BTreeMap<(&'static str, &'static str), Schemas>) {
    let mut generator = generator();
    generator.subschema_for::<K>();
    let mut schemas = generator.take_definitions(true);
    if let Some(schema) = schemas.get_mut(K::schema_name().as_ref()) {
        schema["x-kubernetes-group-version-kind"] = json!([kind(K::GROUP, K::VERSION, K::KIND)]);
    }
    documents.entry((K::GROUP, K::VERSION)).or_default().extend(schemas);
}

fn generator() -> SchemaGenerator {
    let mut settings = SchemaSettings::openapi3();
    settings.definitions_path = PLACE.into();
    settings.into_generator()
}
