//! `fault enable-auth`: a person enables etcd's auth, which the operator does not know of. Its client certificate names no user.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};

use super::split;
use crate::cli::print_line;
use crate::cli::status::{client, etcdctl_of};
use crate::home::Home;

/// Of a playground, so it is no secret.
const USER: &str = "root:playground";

pub(super) async fn enable(home: &Home, cluster: &str, undo: bool) -> Result<()> {
    let (namespace, name) = split(cluster);
    let client = client(home).await?;
    let kind = GroupVersionKind::gvk("operator.etcd.io", "v1alpha1", "EtcdCluster");
    let resource = ApiResource::from_gvk_with_plural(&kind, "etcdclusters");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let cluster = serde_json::to_value(api.get(name).await?)?;
    let etcdctl = etcdctl_of(&client, home, &cluster).await;
    let etcdctl = etcdctl.with_context(|| format!("{namespace}/{name} has no client Service yet"))?;
    if undo {
        call(&etcdctl, &["--user", USER, "auth", "disable"])?;
        print_line(format_args!("auth is disabled in {namespace}/{name}; the user root stays"));
        return Ok(());
    }
    // Of an earlier time it may be there already.
    let _ = call(&etcdctl, &["user", "add", USER]);
    let _ = call(&etcdctl, &["role", "add", "root"]);
    call(&etcdctl, &["user", "grant-role", "root", "root"])?;
    call(&etcdctl, &["auth", "enable"])?;
    print_line(format_args!(
        "auth is enabled in {namespace}/{name}. The user is root, with the password playground: etcdctl --user {USER}\n\
         Undo: quorate playground fault enable-auth {namespace}/{name} --undo"
    ));
    Ok(())
}

fn call((program, flags): &(String, Vec<String>), args: &[&str]) -> Result<()> {
    let mut command = Command::new(program);
    let output = command.args(flags).args(args).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "etcdctl {}: {}", args.join(" "), why.trim());
    Ok(())
}
