//! Writes a container image of one layer as an OCI archive, by the image specification of the Open Container Initiative.
//!
//! The archive also holds the `manifest.json` that `docker load` has always read, so that Docker, containerd and podman all
//! take it, under the same name. Nothing in it depends on when or where it was written.

mod tar;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub use tar::Tar;

/// The time of everything.
const EPOCH: &str = "1970-01-01T00:00:00Z";

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// An image.
pub struct Image<'a> {
    /// Its short form, `name:tag`; with the registry if it is not the default one.
    pub reference: &'a str,
    /// `amd64`, `arm64`.
    pub architecture: &'a str,
    /// How containers of it run, in the specification's words: `User`, `Entrypoint`, `Cmd`, `WorkingDir`, `Env`, `Labels`.
    pub config: Value,
    /// The files, as a tar archive.
    pub layer: Vec<u8>,
}

/// A written image.
pub struct Archive {
    /// The file.
    pub bytes: Vec<u8>,
    /// The digest of its manifest, which identifies the image everywhere.
    pub digest: String,
}

/// The name of this machine's architecture in images.
pub fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("no image for {other}: Quorate's images are for x86_64 and aarch64"),
    }
}

impl Image<'_> {
    /// The archive.
    pub fn archive(&self) -> Archive {
        let mut blobs = Blobs::default();
        let layer = blobs.add(LAYER, &self.layer);
        let config = blobs.add(CONFIG, json(&self.config(&layer)).as_slice());
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.to_json(),
            "layers": [layer.to_json()],
        });
        let manifest = blobs.add(MANIFEST, &json(&manifest));
        let mut listed = manifest.to_json();
        listed["platform"] = json!({ "os": "linux", "architecture": self.architecture });
        listed["annotations"] = json!({
            "io.containerd.image.name": full_reference(self.reference),
            "org.opencontainers.image.ref.name": tag(self.reference),
        });
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [listed] });
        let docker = json!([{
            "Config": config.path(),
            "RepoTags": [self.reference],
            "Layers": [layer.path()],
        }]);

        let mut tar = Tar::default();
        tar.file("oci-layout", 0o644, &json(&json!({ "imageLayoutVersion": "1.0.0" })));
        tar.file("index.json", 0o644, &json(&index));
        tar.file("manifest.json", 0o644, &json(&docker));
        tar.folder("blobs");
        tar.folder("blobs/sha256");
        for (blob, content) in &blobs.0 {
            tar.file(&blob.path(), 0o644, content);
        }
        Archive { bytes: tar.finish(), digest: manifest.digest() }
    }

    fn config(&self, layer: &Blob) -> Value {
        json!({
            "created": EPOCH,
            "architecture": self.architecture,
            "os": "linux",
            "config": self.config,
            // The layer is not compressed, so the digest of its content is its own.
            "rootfs": { "type": "layers", "diff_ids": [layer.digest()] },
            "history": [{ "created": EPOCH, "created_by": "cargo xtask" }],
        })
    }
}

/// Contents, by their digest.
#[derive(Default)]
struct Blobs(Vec<(Blob, Vec<u8>)>);

/// Describes a content.
#[derive(Clone)]
struct Blob {
    media_type: &'static str,
    hash: String,
    size: usize,
}

impl Blobs {
    fn add(&mut self, media_type: &'static str, content: &[u8]) -> Blob {
        let hash = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        let blob = Blob { media_type, hash, size: content.len() };
        self.0.push((blob.clone(), content.to_vec()));
        blob
    }
}

impl Blob {
    fn digest(&self) -> String {
        format!("sha256:{}", self.hash)
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.hash)
    }

    fn to_json(&self) -> Value {
        json!({ "mediaType": self.media_type, "digest": self.digest(), "size": self.size })
    }
}

/// The reference as the kubelet looks it up: with the registry and the folder that a short name leaves out.
fn full_reference(reference: &str) -> String {
    let registry = reference.split_once('/').map(|(first, _)| first);
    match registry {
        Some(first) if first.contains(['.', ':']) || first == "localhost" => reference.to_owned(),
        Some(_) => format!("docker.io/{reference}"),
        None => format!("docker.io/library/{reference}"),
    }
}

fn tag(reference: &str) -> &str {
    let name = reference.rsplit('/').next().unwrap_or(reference);
    name.split_once(':').map_or("latest", |(_, tag)| tag)
}

fn json(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("JSON is writable as JSON")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn image(layer: Vec<u8>) -> Archive {
        let image = Image {
            reference: "quorate:1.2.3",
            architecture: "amd64",
            config: json!({ "User": "65532:65532", "Entrypoint": ["/quorate"] }),
            layer,
        };
        image.archive()
    }

    fn layer() -> Vec<u8> {
        let mut tar = Tar::default();
        tar.file("quorate", 0o755, b"program");
        tar.finish()
    }

    fn unpacked(archive: &Archive) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("image.tar");
        fs::write(&file, &archive.bytes).unwrap();
        let tar = Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(folder.path()).status();
        assert!(tar.unwrap().success());
        folder
    }

    fn read(folder: &Path, file: &str) -> Value {
        serde_json::from_slice(&fs::read(folder.join(file)).unwrap()).unwrap()
    }

    /// The content that a descriptor names, checked against the descriptor.
    fn blob(folder: &Path, descriptor: &Value) -> Vec<u8> {
        let hash = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let content = fs::read(folder.join("blobs/sha256").join(hash)).unwrap();
        assert_eq!(descriptor["size"], content.len());
        let real: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, real);
        content
    }

    #[test]
    fn every_content_is_found_from_the_index_by_its_digest_and_size() {
        let archive = image(layer());
        let folder = unpacked(&archive);
        let folder = folder.path();
        assert_eq!(read(folder, "oci-layout")["imageLayoutVersion"], "1.0.0");
        let listed = &read(folder, "index.json")["manifests"][0];
        assert_eq!(listed["digest"], *archive.digest);
        assert_eq!(listed["annotations"]["io.containerd.image.name"], "docker.io/library/quorate:1.2.3");
        assert_eq!(listed["annotations"]["org.opencontainers.image.ref.name"], "1.2.3");
        let manifest: Value = serde_json::from_slice(&blob(folder, listed)).unwrap();
        let config: Value = serde_json::from_slice(&blob(folder, &manifest["config"])).unwrap();
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"], json!(["/quorate"]));
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        assert_eq!(blob(folder, &manifest["layers"][0]), layer());
    }

    #[test]
    fn docker_finds_the_same_contents_under_its_own_index() {
        let folder = unpacked(&image(layer()));
        let docker = read(folder.path(), "manifest.json");
        assert_eq!(docker[0]["RepoTags"], json!(["quorate:1.2.3"]));
        for file in [&docker[0]["Config"], &docker[0]["Layers"][0]] {
            assert!(folder.path().join(file.as_str().unwrap()).is_file(), "{file}");
        }
    }

    #[test]
    fn the_same_content_is_the_same_archive_and_another_is_another() {
        assert!(image(layer()).bytes == image(layer()).bytes);
        assert_ne!(image(layer()).digest, image(Tar::default().finish()).digest);
    }

    #[test]
    fn short_references_are_completed_as_the_kubelet_completes_them() {
        for (reference, full) in [
            ("quorate:1", "docker.io/library/quorate:1"),
            ("me/quorate:1", "docker.io/me/quorate:1"),
            ("registry.example:5000/quorate:1", "registry.example:5000/quorate:1"),
            ("localhost/quorate:1", "localhost/quorate:1"),
        ] {
            assert_eq!(full_reference(reference), full);
        }
    }
}
