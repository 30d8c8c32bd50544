//! What Kamaji does with a DataStore, by its source (August 2026): its kind, what its controller writes, its calls of etcd, and the certificates that it
//! signs. Kamaji itself is not among this repository's tools. What it is for here, control planes, a test has or not.

mod definition;
mod tenant;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use quorate_etcd::{CallError, Deadlines, Endpoint, KeyAccess, MemberClient, Permission, Refusal, Tls};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub use definition::definition;
pub use tenant::{Kept, TenantWrites};

use crate::{NamespaceClient, is_ready, tool, until};

/// Its finalizer on a DataStore.
const FINALIZER: &str = "kamaji.clastix.io/TenantControlPlane";

/// How often it looks again. Its own controller has watches.
const LOOK: Duration = Duration::from_millis(200);

/// Kamaji, with the tenants of one DataStore. It works until it is dropped.
pub struct Kamaji {
    kamaji: Arc<Work>,
    task: JoinHandle<()>,
}

/// What it works on.
struct Work {
    world: NamespaceClient,
    store: String,
    tenants: Mutex<BTreeSet<String>>,
    /// How often the certificates of all tenants were signed.
    signed: Mutex<BTreeMap<String, u32>>,
    /// What went wrong in the last look.
    failure: Mutex<Option<String>>,
    /// All that was ever wrong with what the DataStore refers to.
    unfit: Mutex<BTreeSet<String>>,
}

impl Kamaji {
    /// Begins to work on the DataStore of this name, which need not exist yet.
    pub fn start(world: &NamespaceClient, store: &str) -> Self {
        let kamaji = Arc::new(Work {
            world: world.clone(),
            store: store.to_owned(),
            tenants: Mutex::default(),
            signed: Mutex::default(),
            failure: Mutex::default(),
            unfit: Mutex::default(),
        });
        let work = kamaji.clone();
        let task = tokio::spawn(async move {
            loop {
                let failure = work.look().await.err().map(|error| format!("{error:#}"));
                *lock(&work.failure) = failure;
                tokio::time::sleep(LOOK).await;
            }
        });
        Self { kamaji, task }
    }

    /// A tenant that names the DataStore: its user and its prefix in etcd, and a Secret with its certificate.
    pub async fn add(&self, tenant: &str) -> Result<()> {
        lock(&self.kamaji.tenants).insert(tenant.to_owned());
        until(&format!("Kamaji has made tenant {tenant}"), async || {
            let is_made = lock(&self.kamaji.signed).contains_key(tenant);
            let failure = lock(&self.kamaji.failure).clone();
            Ok(if is_made { Ok(()) } else { Err(failure.unwrap_or_else(|| "not yet".to_owned())) })
        })
        .await
    }

    /// The tenant is deleted: what it has in etcd goes, and then it uses the DataStore no more.
    pub async fn remove(&self, tenant: &str) -> Result<()> {
        self.kamaji.delete(tenant).await?;
        lock(&self.kamaji.tenants).remove(tenant);
        Ok(())
    }

    /// How often it has signed a certificate of this tenant.
    pub fn signed(&self, tenant: &str) -> u32 {
        lock(&self.kamaji.signed).get(tenant).copied().unwrap_or_default()
    }

    /// All that was wrong in any look with what the DataStore refers to, also if it was right in the next one.
    pub fn unfit(&self) -> BTreeSet<String> {
        lock(&self.kamaji.unfit).clone()
    }

    /// What went wrong in the last look, if anything did.
    pub fn failure(&self) -> Option<String> {
        lock(&self.kamaji.failure).clone()
    }
}

impl Drop for Kamaji {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The DataStores of this Kubernetes.
pub fn data_stores(world: &NamespaceClient) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("kamaji.clastix.io", "v1alpha1", "DataStore");
    Api::all_with(world.client.clone(), &ApiResource::from_gvk_with_plural(&kind, "datastores"))
}

/// The Secret with the certificate of a tenant.
pub fn secret_of(tenant: &str) -> String {
    format!("{tenant}-datastore-certificate")
}

/// What a DataStore refers to.
struct Content {
    authority: Vec<u8>,
    authority_key: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
    /// The host of its endpoint: the name in the certificate of the server.
    host: String,
}

impl Work {
    /// One reconciliation.
    async fn look(&self) -> Result<()> {
        let stores = data_stores(&self.world);
        let Some(store) = stores.get_opt(&self.store).await? else { return Ok(()) };
        let mut finalizers = store.metadata.finalizers.clone().unwrap_or_default();
        let is_going = store.metadata.deletion_timestamp.is_some();
        let has_finalizer = finalizers.iter().any(|one| one == FINALIZER);
        let tenants: Vec<String> = lock(&self.tenants).iter().cloned().collect();
        if !is_going && !has_finalizer {
            finalizers.push(FINALIZER.to_owned());
            return self.write_finalizers(&store, finalizers).await;
        }
        if is_going && tenants.is_empty() {
            finalizers.retain(|one| one != FINALIZER);
            return if has_finalizer { self.write_finalizers(&store, finalizers).await } else { Ok(()) };
        }
        let content = self.content(&store).await;
        let fits = content.as_ref().map_err(|error| format!("{error:#}"));
        if let Err(why) = fits.and_then(|content| issuer(content).map_err(|error| format!("{error:#}"))) {
            lock(&self.unfit).insert(why);
        }
        let why = content.as_ref().err().map(|error| format!("{error:#}"));
        let status = json!({
            "ready": content.is_ok(),
            "observedGeneration": store.metadata.generation,
            "usedBy": tenants.iter().map(|tenant| format!("{}/{tenant}", self.world.client.default_namespace())).collect::<Vec<_>>(),
            "conditions": [{
                "type": "kamaji.clastix.io/DataStoreValidation", "status": if content.is_ok() { "True" } else { "False" },
                "reason": if content.is_ok() { "DataStoreIsValid" } else { "TLSConfigurationValidationFailed" },
                "message": why.unwrap_or_default(), "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        });
        if store.data["status"] != status {
            let patch = Patch::Merge(json!({ "status": status }));
            stores.patch_status(&self.store, &PatchParams::default(), &patch).await?;
        }
        let content = content?;
        for tenant in &tenants {
            self.keep(tenant, &content).await.with_context(|| format!("tenant {tenant}"))?;
        }
        Ok(())
    }

    async fn write_finalizers(&self, store: &DynamicObject, finalizers: Vec<String>) -> Result<()> {
        let metadata =
            json!({ "finalizers": finalizers, "resourceVersion": store.metadata.resource_version });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        data_stores(&self.world).patch(&self.store, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Reads exactly what the DataStore refers to: each Secret once, so that what is of one is of one version of it.
    async fn content(&self, store: &DynamicObject) -> Result<Content> {
        let tls = &store.data["spec"]["tlsConfig"];
        let endpoint = store.data["spec"]["endpoints"][0].as_str().context("no endpoint")?;
        let (host, _) = endpoint.rsplit_once(':').context("an endpoint without a port")?;
        let mut read = BTreeMap::new();
        Ok(Content {
            authority: self.referred(&tls["certificateAuthority"]["certificate"], &mut read).await?,
            authority_key: self.referred(&tls["certificateAuthority"]["privateKey"], &mut read).await?,
            certificate: self.referred(&tls["clientCertificate"]["certificate"], &mut read).await?,
            key: self.referred(&tls["clientCertificate"]["privateKey"], &mut read).await?,
            host: host.to_owned(),
        })
    }

    async fn referred(&self, part: &Value, read: &mut BTreeMap<(String, String), Secret>) -> Result<Vec<u8>> {
        let of = &part["secretReference"];
        let text = |field: &str| of[field].as_str().with_context(|| format!("no {field} in {of}"));
        let (name, namespace, entry) = (text("name")?, text("namespace")?, text("keyPath")?);
        let of = (namespace.to_owned(), name.to_owned());
        if !read.contains_key(&of) {
            let secrets: Api<Secret> = Api::namespaced(self.world.client.clone(), namespace);
            read.insert(of.clone(), secrets.get(name).await?);
        }
        let found = read.get(&of).and_then(|secret| secret.data.as_ref()?.get(entry));
        Ok(found.with_context(|| format!("Secret {name} has no {entry}"))?.0.clone())
    }

    /// A tenant has its user, its role and its certificate. The certificate is signed again where that of the authority has changed, and only then.
    async fn keep(&self, tenant: &str, content: &Content) -> Result<()> {
        let secrets: Api<Secret> = Api::default_namespaced(self.world.client.clone());
        let present = secrets.get_opt(&secret_of(tenant)).await?;
        let entry = |key: &str| present.as_ref()?.data.as_ref()?.get(key);
        if entry("ca.crt").is_some_and(|ca| ca.0 == content.authority) && entry("tls.crt").is_some() {
            return Ok(());
        }
        if present.is_none() {
            set_up(&self.root(content).await?, tenant).await?;
        }
        let (certificate, key) = sign(tenant, content)?;
        let data = json!({
            "ca.crt": ByteString(content.authority.clone()), "tls.crt": ByteString(certificate.into_bytes()),
            "tls.key": ByteString(key.into_bytes()),
        });
        if present.is_none() {
            let secret = json!({ "metadata": { "name": secret_of(tenant) }, "data": data });
            secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
        } else {
            let patch = Patch::Merge(json!({ "data": data }));
            secrets.patch(&secret_of(tenant), &PatchParams::default(), &patch).await?;
        }
        *lock(&self.signed).entry(tenant.to_owned()).or_default() += 1;
        Ok(())
    }

    /// A member, as the user root.
    async fn root(&self, content: &Content) -> Result<MemberClient> {
        let tls = Tls {
            server_name: content.host.clone(),
            ca: content.authority.clone(),
            cert: content.certificate.clone(),
            key: content.key.clone(),
        };
        let address = address(&self.world).await?;
        Ok(MemberClient::new(&Endpoint::tls(address, tls), Deadlines::default())?)
    }

    /// What a tenant has in etcd goes: its role, its keys, its user.
    async fn delete(&self, tenant: &str) -> Result<()> {
        let store = data_stores(&self.world).get(&self.store).await?;
        let content = self.content(&store).await?;
        let root = self.root(&content).await?;
        if root.role_get(tenant).await.is_ok()
            && root.user_get(tenant).await?.iter().any(|role| role == tenant)
        {
            root.role_delete(tenant).await?;
        }
        delete_prefix(&self.world, &content, &format!("/{tenant}/")).await?;
        root.user_get(tenant).await?;
        root.user_delete(tenant).await?;
        Ok(())
    }
}

/// Kamaji's sequence for a new tenant, whose user and schema have one name.
async fn set_up(root: &MemberClient, tenant: &str) -> Result<()> {
    root.auth_status().await?;
    if let Err(error) = root.user_get(tenant).await {
        ensure!(matches!(error, CallError::Refused(Refusal::UserNotFound, _)), "UserGet: {error}");
        root.user_add(tenant).await?;
    }
    if let Err(error) = root.role_get(tenant).await {
        ensure!(matches!(error, CallError::Refused(Refusal::RoleNotFound, _)), "RoleGet: {error}");
        root.role_add(tenant).await?;
        let (key, range_end) = (format!("/{tenant}/").into_bytes(), format!("/{tenant}0").into_bytes());
        let prefix = Permission { key, range_end, access: KeyAccess::ReadWrite };
        root.role_grant_permission(tenant, &prefix).await?;
        root.user_grant_role(tenant, tenant).await?;
    }
    Ok(())
}

/// What signs for tenants. Kamaji takes the first certificate of the authority for the issuer, and Go refuses a key that does not fit it. (Its keys are
/// RSA, which nothing here makes.)
fn issuer(content: &Content) -> Result<Issuer<'static, KeyPair>> {
    let first =
        CertificateDer::from_pem_slice(&content.authority).ok().context("no certificate of the authority")?;
    let key =
        PrivateKeyDer::from_pem_slice(&content.authority_key).ok().context("no key of the authority")?;
    let fits = CertifiedKey::new(vec![first.clone()], any_supported_type(&key)?).keys_match();
    if let Err(error) = fits {
        bail!("the key is not that of the first certificate of the authority: {error}");
    }
    let key = KeyPair::from_pem(std::str::from_utf8(&content.authority_key)?)?;
    Ok(Issuer::from_ca_cert_der(&first, key)?)
}

/// A certificate for a tenant.
fn sign(tenant: &str, content: &Content) -> Result<(String, String)> {
    let issuer = issuer(content)?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    params.distinguished_name.push(DnType::CommonName, tenant);
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ClientAuth,
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::CodeSigning,
    ];
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
}

/// Delete of a prefix, which the operator never calls.
async fn delete_prefix(world: &NamespaceClient, content: &Content, prefix: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str, pem: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem)?;
        anyhow::Ok(path)
    };
    let mut command = tokio::process::Command::new(tool("etcdctl-3.6", "etcd")?);
    // Its address is none of the names of the server.
    command.arg(format!("--endpoints=https://{}", address(world).await?)).arg("--insecure-skip-tls-verify");
    for (flag, name, pem) in [("--cert", "tls.crt", &content.certificate), ("--key", "tls.key", &content.key)]
    {
        command.arg(flag).arg(file(name, pem)?);
    }
    let output = command.args(["del", "--prefix", prefix]).kill_on_drop(true).output().await?;
    ensure!(output.status.success(), "del {prefix}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// That of a member that serves. Behind the name of the endpoint are all of these.
async fn address(world: &NamespaceClient) -> Result<SocketAddr> {
    let pods = world.pods_of("demo").await?;
    let ip = pods.iter().find(|pod| is_ready(pod)).and_then(|pod| pod.status.as_ref()?.pod_ip.clone());
    Ok(SocketAddr::new(ip.context("no member serves")?.parse()?, 2379))
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
