//! The images of the nodes. They are made here from the tools or loaded from archives, so no registry is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use xtask::oci::{Image, Tar, architecture};

use crate::files;
use crate::node::Node;
use crate::rig::Rig;
use crate::tools::{binary, call};

/// The sandbox of each Pod.
pub const SANDBOX: &str = "registry.k8s.io/pause:3.10";

/// The name of the official image of etcd.
const ETCD: &str = "gcr.io/etcd-development/etcd";

/// The minor versions of etcd that have an image.
const MINORS: [&str; 3] = ["3.5", "3.6", "3.7"];

/// Makes images that are missing or older than their programs.
pub fn make(rig: &Rig) -> Result<()> {
    let pause = binary("pause");
    if let Some(archive) = outdated(rig, "pause", &[&pause])? {
        let mut layer = Tar::default();
        layer.file("pause", 0o755, &read(&pause)?);
        write(&archive, SANDBOX, json!({ "Entrypoint": ["/pause"], "User": "65535:65535" }), layer)?;
    }
    for minor in MINORS {
        let programs = ["etcd", "etcdctl", "etcdutl"].map(|name| (name, binary(&format!("{name}-{minor}"))));
        let sources: Vec<&Path> = programs.iter().map(|(_, path)| path.as_path()).collect();
        let Some(archive) = outdated(rig, &format!("etcd-{minor}"), &sources)? else { continue };
        // Like the official one: only the programs and the folders that they expect.
        let mut layer = Tar::default();
        for folder in ["usr", "usr/local", "usr/local/bin", "var", "var/etcd", "var/lib", "var/lib/etcd"] {
            layer.folder(folder);
        }
        layer.folder_for("tmp", 0o1777);
        for (name, path) in &programs {
            layer.file(&format!("usr/local/bin/{name}"), 0o755, &read(path)?);
        }
        let config = json!({
            "Cmd": ["/usr/local/bin/etcd"],
            "WorkingDir": "/var/lib/etcd/",
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        });
        write(
            &archive,
            &format!("{ETCD}:v{}", xtask::etcd_version(&binary(&format!("etcd-{minor}")))?),
            config,
            layer,
        )?;
    }
    Ok(())
}

/// By rename, so that a reader gets the old archive or the new one.
fn write(archive: &Path, reference: &str, config: Value, layer: Tar) -> Result<()> {
    let image = Image { reference, architecture: architecture()?, config, layer: layer.finish() };
    let fresh = archive.with_extension("new");
    fs::write(&fresh, image.archive().bytes).with_context(|| format!("cannot write {}", fresh.display()))?;
    fs::rename(&fresh, archive).with_context(|| format!("cannot put {} in place", archive.display()))
}

fn read(program: &Path) -> Result<Vec<u8>> {
    fs::read(program).with_context(|| format!("cannot read {}", program.display()))
}

/// Keeps an archive for present and later nodes.
pub fn keep(rig: &Rig, archive: &Path) -> Result<()> {
    let name = archive.file_name().and_then(|name| name.to_str()).context("the archive's name is text")?;
    ensure!(archive.is_file(), "there is no file {}", archive.display());
    let kept = rig.path("images").join(format!("loaded-{}", name.trim_end_matches(".tar")));
    let fresh = kept.with_added_extension("new");
    fs::copy(archive, &fresh).with_context(|| format!("cannot copy {}", archive.display()))?;
    fs::rename(&fresh, kept.with_added_extension("tar")).context("cannot keep the archive")
}

/// Imports into all of these nodes in parallel. The number of imports of each.
pub fn import_all(rig: &Rig, nodes: &[Node]) -> Result<Vec<usize>> {
    thread::scope(|scope| {
        let imports: Vec<_> = nodes.iter().map(|node| scope.spawn(|| import(rig, node))).collect();
        imports.into_iter().map(|import| import.join().expect("an import does not panic")).collect()
    })
}

/// Gives an image of a node another name, too. It is gone with the node's data.
pub fn tag(node: &Node, image: &str, name: &str) -> Result<()> {
    let (ctr, socket) = (binary("ctr").display().to_string(), node.socket());
    call(&[&ctr, "-a", &socket, "-n", "k8s.io", "images", "tag", "--force", image, name])
        .map(drop)
        .with_context(|| format!("node {} cannot name {image} {name}", node.name()))
}

/// Imports the archives that a node does not have or has in an older version. Their number.
fn import(rig: &Rig, node: &Node) -> Result<usize> {
    let mut count = 0;
    for archive in archives(rig)? {
        let stem = archive.file_stem().unwrap_or_default().to_string_lossy();
        let note = rig.path(&format!("data/{}/imported/{stem}", node.name()));
        let state = state(&archive)?;
        if fs::read_to_string(&note).is_ok_and(|old| old == state) {
            continue;
        }
        let (ctr, socket) = (binary("ctr").display().to_string(), node.socket());
        let path = archive.display().to_string();
        call(&[&ctr, "-a", &socket, "-n", "k8s.io", "images", "import", "--snapshotter", "overlayfs", &path])
            .with_context(|| format!("node {} cannot import {path}", node.name()))?;
        files::write(&note, &state)?;
        count += 1;
    }
    Ok(count)
}

/// The image's archive, if it has to be written.
fn outdated(rig: &Rig, name: &str, sources: &[&Path]) -> Result<Option<PathBuf>> {
    let archive = rig.path(&format!("images/{name}.tar"));
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    let Ok(written) = modified(&archive) else { return Ok(Some(archive)) };
    for source in sources {
        let built = modified(source).with_context(|| format!("there is no {}", source.display()))?;
        if built >= written {
            return Ok(Some(archive));
        }
    }
    Ok(None)
}

fn archives(rig: &Rig) -> Result<Vec<PathBuf>> {
    let mut archives = Vec::new();
    for entry in fs::read_dir(rig.path("images")).context("cannot read the folder of images")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "tar") {
            archives.push(path);
        }
    }
    archives.sort();
    Ok(archives)
}

/// Changes when the archive is written again.
fn state(archive: &Path) -> Result<String> {
    let metadata = fs::metadata(archive).with_context(|| format!("cannot read {}", archive.display()))?;
    let written = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(format!("{} {}", metadata.len(), written.as_nanos()))
}
