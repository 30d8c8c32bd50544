//! Container images without a container engine: an OCI image layout in one tar, of one layer, the same bytes each time.
//!
//! Nothing is compressed: the archives are read once, on the machine that wrote them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// An image in the making.
pub struct Image {
    name: String,
    layer: Builder<Vec<u8>>,
    directories: BTreeSet<String>,
    config: serde_json::Map<String, Value>,
}

impl Image {
    /// An empty one; `name` is a whole reference with a tag.
    pub fn new(name: &str) -> Self {
        let mut config = serde_json::Map::new();
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        config.insert("Env".to_owned(), json!([path]));
        let layer = Builder::new(Vec::new());
        Self { name: name.to_owned(), layer, directories: BTreeSet::new(), config }
    }

    /// What runs, where the Pod does not say.
    #[must_use]
    pub fn entrypoint(self, words: &[&str]) -> Self {
        self.set("Entrypoint", json!(words))
    }

    /// The arguments, or without an entrypoint what runs, where the Pod does not say.
    #[must_use]
    pub fn command(self, words: &[&str]) -> Self {
        self.set("Cmd", json!(words))
    }

    /// As whom it runs: numbers, since there may be no /etc/passwd.
    #[must_use]
    pub fn user(self, user: &str) -> Self {
        self.set("User", json!(user))
    }

    /// Where it runs.
    #[must_use]
    pub fn working_directory(self, path: &str) -> Self {
        self.set("WorkingDir", json!(path))
    }

    /// A folder, with those above it.
    pub fn directory(mut self, path: &str, mode: u32) -> Result<Self> {
        self.add_directory(path, mode)?;
        Ok(self)
    }

    /// A file of this machine.
    pub fn file(mut self, path: &str, source: &Path, mode: u32) -> Result<Self> {
        let content = fs::read(source).with_context(|| format!("cannot read {}", source.display()))?;
        self.add(path, EntryType::Regular, mode, &content)?;
        Ok(self)
    }

    /// A file of this content.
    pub fn text(mut self, path: &str, content: &str) -> Result<Self> {
        self.add(path, EntryType::Regular, 0o644, content.as_bytes())?;
        Ok(self)
    }

    /// Writes the archive; who reads it meanwhile sees the old one or the new one.
    pub fn write(self, archive: &Path) -> Result<()> {
        let bytes = self.archive()?;
        let fresh = archive.with_extension("new");
        fs::write(&fresh, bytes).with_context(|| format!("cannot write {}", fresh.display()))?;
        fs::rename(&fresh, archive).with_context(|| format!("cannot put {} in place", archive.display()))
    }

    fn archive(self) -> Result<Vec<u8>> {
        let (_, tag) = self.name.rsplit_once(':').context("an image's name has a tag")?;
        let layer = Blob::new(self.layer.into_inner()?);
        let platform = json!({"os": "linux", "architecture": architecture()});
        let config = json!({
            "os": "linux", "architecture": architecture(), "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
        });
        let config = Blob::new(serde_json::to_vec(&config)?);
        let manifest = Blob::new(serde_json::to_vec(&json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": config.descriptor(CONFIG), "layers": [layer.descriptor(LAYER)],
        }))?);
        let mut entry = manifest.descriptor(MANIFEST);
        entry["platform"] = platform;
        // The first is what containerd names the image by, the second is the specification's.
        entry["annotations"] =
            json!({"io.containerd.image.name": self.name, "org.opencontainers.image.ref.name": tag});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]});

        let mut tar = Builder::new(Vec::new());
        append(&mut tar, "oci-layout", EntryType::Regular, 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        append(&mut tar, "index.json", EntryType::Regular, 0o644, &serde_json::to_vec(&index)?)?;
        for blob in [&layer, &config, &manifest] {
            let path = format!("blobs/{}", blob.digest.replace(':', "/"));
            append(&mut tar, &path, EntryType::Regular, 0o644, &blob.content)?;
        }
        Ok(tar.into_inner()?)
    }

    fn set(mut self, key: &str, value: Value) -> Self {
        self.config.insert(key.to_owned(), value);
        self
    }

    fn add(&mut self, path: &str, kind: EntryType, mode: u32, content: &[u8]) -> Result<()> {
        ensure!(path.starts_with('/') && !path.ends_with('/'), "{path} is no absolute path of an image");
        if let Some((above, _)) = path.rsplit_once('/').filter(|(above, _)| !above.is_empty()) {
            self.add_directory(above, 0o755)?;
        }
        append(&mut self.layer, path.trim_start_matches('/'), kind, mode, content)
    }

    fn add_directory(&mut self, path: &str, mode: u32) -> Result<()> {
        if self.directories.contains(path) {
            return Ok(());
        }
        self.add(path, EntryType::Directory, mode, &[])?;
        self.directories.insert(path.to_owned());
        Ok(())
    }
}

/// What images call the processor.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn digest(content: &[u8]) -> String {
    let hash = Sha256::digest(content);
    hash.iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// What others refer to by its digest.
struct Blob {
    content: Vec<u8>,
    digest: String,
}

impl Blob {
    fn new(content: Vec<u8>) -> Self {
        let digest = digest(&content);
        Self { content, digest }
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": self.digest, "size": self.content.len()})
    }
}

/// Owner, group and times are zero, so that the same content is the same archive.
fn append(tar: &mut Builder<Vec<u8>>, path: &str, kind: EntryType, mode: u32, content: &[u8]) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(u64::try_from(content.len())?);
    tar.append_data(&mut header, path, content).with_context(|| format!("cannot add {path} to the archive"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;

    use super::*;

    fn image() -> Image {
        let image = Image::new("example/program:v1").command(&["/bin/program"]).user("1:2");
        image.directory("/tmp", 0o1777).unwrap().text("/etc/a/b", "b").unwrap().text("/etc/c", "c").unwrap()
    }

    fn files(tar: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(tar);
        let read = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().to_string_lossy().into_owned(), content)
        };
        archive.entries().unwrap().map(read).collect()
    }

    #[test]
    fn from_the_index_every_blob_is_found_by_its_digest() {
        let files = files(&image().archive().unwrap());
        let read = |descriptor: &Value| -> Vec<u8> {
            let digest = descriptor["digest"].as_str().unwrap();
            let blob = files[&format!("blobs/{}", digest.replace(':', "/"))].clone();
            assert_eq!(super::digest(&blob), digest);
            assert_eq!(descriptor["size"], blob.len());
            blob
        };
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let entry = &index["manifests"][0];
        assert_eq!(entry["annotations"]["io.containerd.image.name"], "example/program:v1");
        assert_eq!(entry["annotations"]["org.opencontainers.image.ref.name"], "v1");
        let manifest: Value = serde_json::from_slice(&read(entry)).unwrap();
        let config: Value = serde_json::from_slice(&read(&manifest["config"])).unwrap();
        assert_eq!(config["config"]["Cmd"], json!(["/bin/program"]));
        assert_eq!(config["config"]["User"], "1:2");
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        let layer = super::tests::files(&read(&manifest["layers"][0]));
        // Each folder once, before what is in it.
        assert_eq!(layer.keys().collect::<Vec<_>>(), ["etc", "etc/a", "etc/a/b", "etc/c", "tmp"]);
    }

    #[test]
    fn the_same_image_is_the_same_archive() {
        assert_eq!(image().archive().unwrap(), image().archive().unwrap());
    }

    #[test]
    fn a_name_without_a_tag_and_a_relative_path_are_refused() {
        assert!(Image::new("program").archive().is_err());
        assert!(Image::new("a:b").text("etc/c", "").is_err());
    }
}
