//! Certificates and kubeconfigs: an authority for the cluster, one for its etcd, one for aggregated APIs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde_json::json;

use crate::files;
use crate::rig::Rig;

/// The group with all permissions.
const MASTERS: &str = "system:masters";

/// The users that are programs: the file's name, the name, the group.
const USERS: [(&str, &str, Option<&str>); 7] = [
    ("admin", "admin", Some(MASTERS)),
    ("apiserver-kubelet-client", "kube-apiserver-kubelet-client", Some(MASTERS)),
    ("kube-controller-manager", "system:kube-controller-manager", None),
    ("kube-scheduler", "system:kube-scheduler", None),
    ("kube-proxy", "system:kube-proxy", None),
    ("coredns", "quorate:coredns", None),
    ("provisioner", "quorate:provisioner", None),
];

/// Creates what is missing.
pub fn make(rig: &Rig) -> Result<()> {
    let folder = rig.path("pki");
    if !folder.exists() {
        // All or nothing: certificates of two authorities do not fit together.
        let fresh = rig.path("pki.new");
        if fresh.exists() {
            fs::remove_dir_all(&fresh).context("cannot remove half-made certificates")?;
        }
        make_authorities(rig, &fresh)?;
        fs::rename(&fresh, &folder).context("cannot put the certificates in place")?;
    }
    for node in rig.nodes() {
        make_node(rig, &folder, node)?;
    }
    let mut configs = vec![("admin".to_owned(), rig.kubeconfig())];
    let conf = |name: &str| rig.path("conf").join(format!("{name}.kubeconfig"));
    let programs = USERS.iter().map(|(file, ..)| (*file).to_owned()).filter(|file| file != "admin");
    let nodes = rig.nodes().map(|node| format!("node-n{node}"));
    configs.extend(programs.chain(nodes).map(|name| (name.clone(), conf(&name))));
    for (name, path) in configs {
        files::write_if_changed(&path, &kubeconfig(rig, &name))?;
    }
    Ok(())
}

fn make_authorities(rig: &Rig, folder: &Path) -> Result<()> {
    let cluster = authority(folder, "ca", "quorate cluster")?;
    let etcd = authority(folder, "etcd-ca", "quorate cluster etcd")?;
    let proxy = authority(folder, "front-proxy-ca", "quorate cluster front proxy")?;
    let control = rig.addresses().control().to_string();
    let service = rig.addresses().api_service().to_string();
    let names = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        &control,
        &service,
    ];
    leaf(&cluster, folder, &Leaf::server("apiserver", "kube-apiserver", None, &names))?;
    for (file, name, group) in USERS {
        leaf(&cluster, folder, &Leaf::client(file, name, group))?;
    }
    leaf(&proxy, folder, &Leaf::client("front-proxy-client", "front-proxy-client", None))?;
    leaf(&etcd, folder, &Leaf::server("etcd", "etcd", None, &[&control]))?;
    leaf(&etcd, folder, &Leaf::client("etcd-client", "kube-apiserver", None))?;
    // Signs the tokens of service accounts.
    let tokens = KeyPair::generate()?;
    files::write(&folder.join("sa.pub"), &tokens.public_key_pem())?;
    files::write(&folder.join("sa.key"), &tokens.serialize_pem())
}

fn make_node(rig: &Rig, folder: &Path, node: u8) -> Result<()> {
    let (client, server) = (format!("node-n{node}"), format!("kubelet-n{node}"));
    if folder.join(format!("{client}.crt")).exists() && folder.join(format!("{server}.crt")).exists() {
        return Ok(());
    }
    let read = |file: &str| {
        fs::read_to_string(folder.join(file)).with_context(|| format!("cannot read the authority's {file}"))
    };
    let key = KeyPair::from_pem(&read("ca.key")?).context("the authority's key cannot be parsed")?;
    let cluster = Issuer::from_ca_cert_pem(&read("ca.crt")?, key)
        .context("the authority's certificate cannot be parsed")?;
    let name = format!("system:node:n{node}");
    let address = rig.addresses().node(node).to_string();
    leaf(&cluster, folder, &Leaf::client(&client, &name, Some("system:nodes")))?;
    let names = [format!("n{node}"), address];
    let names = names.each_ref().map(String::as_str);
    leaf(&cluster, folder, &Leaf::server(&server, &name, Some("system:nodes"), &names))
}

struct Leaf<'a> {
    file: &'a str,
    name: &'a str,
    group: Option<&'a str>,
    names: &'a [&'a str],
    usages: Vec<ExtendedKeyUsagePurpose>,
}

impl<'a> Leaf<'a> {
    fn client(file: &'a str, name: &'a str, group: Option<&'a str>) -> Self {
        Self { file, name, group, names: &[], usages: vec![ExtendedKeyUsagePurpose::ClientAuth] }
    }

    /// etcd connects to itself with its server certificate, so it is a client certificate too.
    fn server(file: &'a str, name: &'a str, group: Option<&'a str>, names: &'a [&'a str]) -> Self {
        let usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        Self { file, name, group, names, usages }
    }
}

fn authority(folder: &Path, file: &str, name: &str) -> Result<Issuer<'static, KeyPair>> {
    let mut params = params(&[])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate()?;
    files::write(&folder.join(format!("{file}.key")), &key.serialize_pem())?;
    files::write(&folder.join(format!("{file}.crt")), &params.self_signed(&key)?.pem())?;
    Ok(Issuer::new(params, key))
}

/// Writes the certificate last: if it exists, its key exists.
fn leaf(issuer: &Issuer<'_, KeyPair>, folder: &Path, leaf: &Leaf) -> Result<()> {
    let mut params = params(leaf.names)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages.clone_from(&leaf.usages);
    params.distinguished_name.push(DnType::CommonName, leaf.name);
    if let Some(group) = leaf.group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    let key = KeyPair::generate()?;
    files::write(&folder.join(format!("{}.key", leaf.file)), &key.serialize_pem())?;
    files::write(&folder.join(format!("{}.crt", leaf.file)), &params.signed_by(&key, issuer)?.pem())
}

fn params(names: &[&str]) -> Result<CertificateParams> {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    // Valid for any clock of the machine.
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2049, 12, 31);
    Ok(params)
}

/// JSON is YAML.
fn kubeconfig(rig: &Rig, user: &str) -> String {
    let file = |name: &str| rig.text(&format!("pki/{name}"));
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": rig.name(),
        "clusters": [{"name": rig.name(), "cluster": {
            "server": rig.addresses().api(), "certificate-authority": file("ca.crt"),
        }}],
        "users": [{"name": user, "user": {
            "client-certificate": file(&format!("{user}.crt")), "client-key": file(&format!("{user}.key")),
        }}],
        "contexts": [{"name": rig.name(), "context": {"cluster": rig.name(), "user": user}}],
    })
    .to_string()
}
