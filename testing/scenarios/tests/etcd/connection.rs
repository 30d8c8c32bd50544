//! docs/connect.md at real etcd: an application has the content of the connection Secret and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::Api;
use kube::api::DeleteParams;
use quorate_etcd::{Deadlines, Endpoint, MemberClient, Read, Tls};
use quorate_scenarios::{NamespaceClient, Playground, spec, until};
use serde_json::json;
use tokio::process::Command;

/// Names of a load balancer.
const OUTSIDE: [&str; 2] = ["etcd.example.com", "192.0.2.10"];

/// In front of the page's program: every name is the member's address, as Kubernetes' name servers and proxies would have it.
const RESOLVES: &str = "import socket\nresolve = socket.getaddrinfo\n\
    socket.getaddrinfo = lambda host, *rest, **more: resolve('ADDRESS', *rest, **more)\n";

#[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
#[tokio::test(flavor = "multi_thread")]
async fn an_application_connects_by_one_secret_also_by_a_name_of_outside_and_after_a_renewal() -> Result<()> {
    let world = Playground::start().await?;
    let mut given = spec(1);
    given["service"] = json!({ "type": "LoadBalancer", "annotations": { "example.com/internal": "true" } });
    given["tls"] = json!({ "providerCfg": { "autoCfg": {
        "altNames": { "dnsNames": [OUTSIDE[0]], "ipAddresses": [OUTSIDE[1]] },
    } } });
    world.create("demo", given).await?;
    world.settled("demo", 1).await?;
    let services: Api<Service> = Api::default_namespaced(world.client.clone());
    let service = services.get("demo-client").await?;
    ensure!(
        service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer"),
        "{service:?}"
    );

    let secret = connection(&world).await?;
    let host = secret.get("host").context("no host")?.clone();
    ensure!(secret["uri"] == format!("https://{host}:{}", secret["port"]), "{}", secret["uri"]);
    for name in [host.as_str(), OUTSIDE[0], OUTSIDE[1]] {
        greet(&world, &secret, name).await.with_context(|| format!("as {name}"))?;
    }
    ensure!(
        greet(&world, &secret, "etcd.example.org").await.is_err(),
        "a name that is not in the certificate"
    );

    let secrets: Api<Secret> = Api::default_namespaced(world.client.clone());
    secrets.delete("demo-client-tls", &DeleteParams::default()).await?;
    until("the Secret has the certificate that was issued anew", async || {
        let now = connection(&world).await?;
        Ok(if now["tls.crt"] == secret["tls.crt"] { Err("the one of before".to_owned()) } else { Ok(()) })
    })
    .await?;
    let renewed = connection(&world).await?;
    greet(&world, &renewed, &host).await?;
    ensure!(renewed["ca.crt"] == secret["ca.crt"], "another authority");
    run_the_program_of_the_page(&world, &renewed).await
}

/// Writes and reads a key, with what is in the Secret, at a member that is called so.
async fn greet(world: &NamespaceClient, secret: &BTreeMap<String, String>, name: &str) -> Result<()> {
    let pem =
        |key: &str| secret.get(key).map(|pem| pem.clone().into_bytes()).with_context(|| format!("no {key}"));
    let tls =
        Tls { server_name: name.to_owned(), ca: pem("ca.crt")?, cert: pem("tls.crt")?, key: pem("tls.key")? };
    let endpoint = Endpoint::tls(address(world).await?, tls);
    let client = MemberClient::new(&endpoint, Deadlines::default())?;
    client.put("greeting", name).await?;
    let stored = client.get("greeting", Read::Linearizable).await?.context("the key is not there")?;
    ensure!(stored.value == name.as_bytes(), "another value");
    Ok(())
}

/// The Python of the page, word for word, in a directory that is as the Secret is mounted.
async fn run_the_program_of_the_page(
    world: &NamespaceClient,
    secret: &BTreeMap<String, String>,
) -> Result<()> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/connect.md");
    let page = fs::read_to_string(page)?;
    let (_, program) = page.split_once("```python\n").context("the page has no Python")?;
    let (program, _) = program.split_once("```").context("it does not end")?;
    let folder = tempfile::tempdir()?;
    for (entry, text) in secret {
        fs::write(folder.path().join(entry), text)?;
    }
    let mounted = folder.path().to_str().context("a path that is no text")?;
    ensure!(program.contains("/etcd-connection"), "{program}");
    let address = address(world).await?.ip().to_string();
    let program = RESOLVES.replace("ADDRESS", &address) + &program.replace("/etcd-connection", mounted);
    let Ok(ran) = Command::new("python3").arg("-c").arg(program).output().await else {
        eprintln!("not run: there is no python3");
        return Ok(());
    };
    let (printed, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    ensure!(printed.trim() == "hello", "{printed}{errors}");
    Ok(())
}

/// Where the member of the cluster serves.
async fn address(world: &NamespaceClient) -> Result<SocketAddr> {
    let pod = world.pods().get("demo-0").await?;
    let ip = pod.status.and_then(|status| status.pod_ip).context("the Pod has no address")?;
    Ok(SocketAddr::new(ip.parse()?, 2379))
}

/// The entries of the Secret that status names.
async fn connection(world: &NamespaceClient) -> Result<BTreeMap<String, String>> {
    let status = world.status("demo").await?;
    let name = status["binding"]["name"].as_str().context("status names no Secret")?.to_owned();
    let secrets: Api<Secret> = Api::default_namespaced(world.client.clone());
    let data = secrets.get(&name).await?.data.unwrap_or_default();
    data.into_iter().map(|(key, value)| Ok((key, String::from_utf8(value.0)?))).collect()
}
