//! Stand-ins for container images: those of etcd are the programs of this machine, that of Quorate is this program.

use std::path::PathBuf;

use crate::programs::Programs;
use crate::shim::Bind;

/// Resolves image references.
#[derive(Clone, Debug)]
pub struct Images {
    programs: Programs,
    quorate: PathBuf,
}

/// The part of an image that a container needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its id in status.
    pub id: String,
    /// Its files.
    pub files: Vec<Bind>,
    /// The command of containers that have none.
    pub entrypoint: Vec<String>,
}

impl Images {
    /// Images from these programs; `quorate` is our own.
    pub fn new(programs: Programs, quorate: PathBuf) -> Self {
        Self { programs, quorate }
    }

    /// The image of a reference, or why it cannot be pulled, in the words of a container runtime.
    pub fn pull(&self, reference: &str) -> Result<Image, String> {
        let (repository, tag) = split(reference);
        let name = repository.rsplit('/').next().unwrap_or_default();
        if name == "quorate" {
            return Ok(Image {
                id: format!("playground://quorate/{}", env!("CARGO_PKG_VERSION")),
                files: vec![file(&self.quorate, "/quorate")],
                entrypoint: vec!["/quorate".to_owned()],
            });
        }
        let found = if name.contains("etcd") { self.programs.get(tag) } else { None };
        let Some(programs) = found else {
            return Err(format!(
                "rpc error: code = NotFound desc = failed to pull and unpack image \"{reference}\": failed to resolve \
                 reference \"{reference}\": {reference}: not found (the playground has etcd {} and quorate)",
                self.programs.versions().join(", ")
            ));
        };
        let mut files = vec![file(&programs.etcd, "/usr/local/bin/etcd")];
        files.extend(programs.etcdctl.iter().map(|path| file(path, "/usr/local/bin/etcdctl")));
        files.extend(programs.etcdutl.iter().map(|path| file(path, "/usr/local/bin/etcdutl")));
        Ok(Image {
            id: format!("playground://etcd/{}", programs.version),
            files,
            entrypoint: vec!["/usr/local/bin/etcd".to_owned()],
        })
    }
}

fn file(from: &std::path::Path, to: &str) -> Bind {
    Bind { from: from.to_owned(), to: to.into(), read_only: true }
}

/// Splits repository and tag. A colon before a slash belongs to a port.
fn split(reference: &str) -> (&str, &str) {
    let reference = reference.split_once('@').map_or(reference, |(before, _digest)| before);
    match reference.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        Some(_) | None => (reference, "latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images() -> Images {
        Images::new(Programs::of(&["3.5.21", "3.6.10"]), "/bin/quorate".into())
    }

    #[test]
    fn an_etcd_image_of_any_registry_is_the_program_of_its_version() {
        for reference in [
            "gcr.io/etcd-development/etcd:v3.6.10",
            "quay.io:443/coreos/etcd:3.6.10",
            "etcd:v3.6.10@sha256:00",
        ] {
            let image = images().pull(reference).unwrap();
            assert_eq!(image.files[0].from, PathBuf::from("/opt/etcd-3.6.10"), "{reference}");
        }
    }

    #[test]
    fn the_image_of_quorate_is_this_program_with_any_tag() {
        let image = images().pull("registry.example:5000/team/quorate:dev").unwrap();
        assert_eq!(image.files, [file("/bin/quorate".as_ref(), "/quorate")]);
    }

    #[test]
    fn a_missing_version_is_refused_with_the_list_of_versions() {
        for reference in ["gcr.io/etcd-development/etcd:v3.6.999", "nginx:1", "localhost:5000/etcd"] {
            let refused = images().pull(reference).unwrap_err();
            assert!(refused.starts_with("rpc error: code = NotFound"), "{refused}");
            assert!(refused.contains("etcd 3.5.21, 3.6.10"), "{refused}");
        }
    }
}
