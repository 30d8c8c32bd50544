//! cert-manager for one namespace of a real Kubernetes: its own controllers, which `cargo xtask tools cert-manager` builds, and what its
//! users order of them. It is stopped at the end of the test, also when the test fails.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Kubernetes, NamespaceClient, until};

/// How long it may take to end. It gives up no leadership, and finishes what it is at.
const PATIENCE: Duration = Duration::from_secs(10);

/// The controllers, for the namespace of a world. Others may run beside it for other namespaces. The definitions of the kinds stay in
/// the Kubernetes.
pub struct CertManager {
    process: Child,
    directory: tempfile::TempDir,
    namespace: NamespaceClient,
}

impl CertManager {
    /// The issuer that each of these has: whatever it issues has signed itself.
    pub const SELF_SIGNED: &str = "self-signed";

    /// Defines the kinds, starts the controllers, and waits until they have looked at [`Self::SELF_SIGNED`].
    pub async fn start(world: &Kubernetes) -> Result<Self> {
        let (program, definitions) =
            (tool("cert-manager")?, std::fs::read_to_string(tool("cert-manager-crds.yaml")?)?);
        define(world, &definitions).await?;
        let directory = tempfile::Builder::new().prefix("quorate-cert-manager-").tempdir()?;
        let log = File::create(directory.path().join("log"))?;
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(world.kubeconfig());
        command.args(["--namespace", world.client.default_namespace()]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = command.spawn().context("cannot run cert-manager")?;
        let this = Self { process, directory, namespace: NamespaceClient::clone(world) };
        this.order("Issuer", Self::SELF_SIGNED, json!({"selfSigned": {}})).await?;
        this.ready("Issuer", Self::SELF_SIGNED).await?;
        Ok(this)
    }

    /// Makes an authority, and an Issuer of its name that signs with it. The certificate and the key are in a Secret of that name.
    pub async fn authority(&self, name: &str) -> Result<()> {
        let spec = json!({"isCA": true, "commonName": name, "duration": "24h"});
        self.certificate(name, Self::SELF_SIGNED, spec).await?;
        self.order("Issuer", name, json!({"ca": {"secretName": name}})).await?;
        self.ready("Issuer", name).await
    }

    /// Orders a certificate of an Issuer, with this spec besides what every certificate here has, and waits for it. It is in a Secret of
    /// its name.
    pub async fn certificate(&self, name: &str, issuer: &str, mut spec: Value) -> Result<()> {
        spec["secretName"] = json!(name);
        spec["issuerRef"] = json!({"name": issuer, "kind": "Issuer", "group": "cert-manager.io"});
        // In full, because the webhook is missing that would complete it.
        spec["privateKey"] =
            json!({"algorithm": "ECDSA", "size": 256, "encoding": "PKCS8", "rotationPolicy": "Always"});
        self.order("Certificate", name, spec).await?;
        self.ready("Certificate", name).await
    }

    /// Gives an Issuer another authority: of the same name, with another key, in the same Secret. What it signed before stays.
    pub async fn replace_authority(&self, name: &str) -> Result<()> {
        self.renew(name).await?;
        self.ready("Issuer", name).await
    }

    /// Orders a certificate anew, as `cmctl renew` does, and waits for it.
    pub async fn renew(&self, name: &str) -> Result<()> {
        let certificates = self.kind("Certificate")?;
        let before = self.revision(name).await?;
        until(&format!("{name} is ordered anew"), async || {
            let mut certificate = certificates.get_status(name).await?;
            let conditions = certificate.data["status"]["conditions"].as_array_mut();
            conditions.context("no conditions")?.push(json!({
                "type": "Issuing", "status": "True", "reason": "ManuallyTriggered",
                "message": "a user asked for it",
            }));
            certificates.replace_status(name, &PostParams::default(), &certificate).await?;
            Ok(Ok(()))
        })
        .await?;
        self.reissued(name, before).await
    }

    /// Waits until a certificate has a later revision than this one.
    pub async fn reissued(&self, name: &str, since: i64) -> Result<()> {
        let what = format!("{name} is issued again");
        let found = until(&what, async || {
            let now = self.revision(name).await?;
            Ok(if now > since { Ok(()) } else { Err(format!("revision {now}")) })
        });
        found.await.with_context(|| self.log())?;
        self.ready("Certificate", name).await
    }

    /// How often a certificate was issued.
    pub async fn revision(&self, name: &str) -> Result<i64> {
        let certificate = self.kind("Certificate")?.get(name).await?;
        certificate.data["status"]["revision"].as_i64().with_context(|| format!("{name} was never issued"))
    }

    /// What the Secret of a certificate has under `tls.crt` and `ca.crt`, in this order.
    pub async fn issued(&self, name: &str) -> Result<[String; 2]> {
        let secret = self.secrets().get(name).await?;
        let data = secret.data.unwrap_or_default();
        let part = |key: &str| {
            let bytes = data.get(key).with_context(|| format!("the Secret {name} has no {key}"))?;
            anyhow::Ok(String::from_utf8(bytes.0.clone())?)
        };
        Ok([part("tls.crt")?, part("ca.crt")?])
    }

    /// Deletes an Issuer. Its authority and what it issued stay.
    #[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
    pub async fn delete_issuer(&self, name: &str) -> Result<()> {
        self.kind("Issuer")?.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until an Issuer or a Certificate is ready as it is ordered now.
    pub async fn ready(&self, kind: &str, name: &str) -> Result<()> {
        let objects = self.kind(kind)?;
        let what = format!("{kind} {name} is ready");
        let found = until(&what, async || {
            let object = objects.get(name).await?;
            let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let holds = |kind: &str, and: &dyn Fn(&Value) -> bool| {
                conditions.iter().any(|one| one["type"] == kind && one["status"] == "True" && and(one))
            };
            let generation = object.metadata.generation;
            // Two controllers write these: a certificate may be ready before its revision is counted.
            let is_ready = holds("Ready", &|one| one["observedGeneration"].as_i64() == generation);
            let done = is_ready && !holds("Issuing", &|_| true);
            Ok(if done { Ok(()) } else { Err(Value::Array(conditions).to_string()) })
        });
        found.await.with_context(|| self.log())
    }

    /// Ends it as a rollout does, at once when it is dropped.
    pub async fn stop(mut self) -> Result<()> {
        let process = i32::try_from(self.process.id())?;
        kill(Pid::from_raw(process), Signal::SIGTERM)?;
        let start = tokio::time::Instant::now();
        loop {
            if let Some(status) = self.process.try_wait()? {
                ensure!(status.success(), "{status}: {}", self.log());
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                bail!("it does not end: {}", self.log());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn order(&self, kind: &str, name: &str, spec: Value) -> Result<()> {
        let (objects, resource) = (self.kind(kind)?, resource(kind)?);
        let object = json!({
            "apiVersion": resource.api_version, "kind": kind, "metadata": {"name": name}, "spec": spec,
        });
        objects.patch(name, &by_user(), &Patch::Apply(object)).await?;
        Ok(())
    }

    fn kind(&self, kind: &str) -> Result<Api<DynamicObject>> {
        Ok(Api::default_namespaced_with(self.namespace.client.clone(), &resource(kind)?))
    }

    fn secrets(&self) -> Api<Secret> {
        Api::default_namespaced(self.namespace.client.clone())
    }

    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        format!("cert-manager logged:\n{}", log.trim())
    }
}

impl Drop for CertManager {
    fn drop(&mut self) {
        // Its directory is removed after it. After `stop` it has ended, and was waited for.
        if let Err(error) = self.process.kill().and_then(|()| self.process.wait()) {
            eprintln!("stopping cert-manager: {error}");
        }
    }
}

/// Defines cert-manager's kinds, and waits until the API server serves them. Again is no change.
async fn define(world: &Kubernetes, definitions: &str) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    for document in serde_yaml_ng::Deserializer::from_str(definitions) {
        let document = Value::deserialize(document)?;
        // A document of comments only.
        if document.is_null() {
            continue;
        }
        let definition: CustomResourceDefinition = serde_json::from_value(document)?;
        let name = definition.name_any();
        api.patch(&name, &by_user(), &Patch::Apply(&definition)).await?;
        until(&format!("{name} is served"), async || {
            let status = api.get(&name).await?.status.unwrap_or_default();
            let mut conditions = status.conditions.into_iter().flatten();
            let established = conditions.any(|one| one.type_ == "Established" && one.status == "True");
            Ok(if established { Ok(()) } else { Err("not yet".to_owned()) })
        })
        .await?;
    }
    Ok(())
}

fn by_user() -> PatchParams {
    PatchParams::apply("a-user-of-cert-manager").force()
}

fn resource(kind: &str) -> Result<ApiResource> {
    let plural = match kind {
        "Issuer" => "issuers",
        "Certificate" => "certificates",
        _ => bail!("{kind} is no kind that is used here"),
    };
    Ok(ApiResource {
        group: "cert-manager.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "cert-manager.io/v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    })
}

fn tool(name: &str) -> Result<std::path::PathBuf> {
    crate::tool(name, "cert-manager")
}
