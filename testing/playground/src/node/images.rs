//! Stand-ins for container images: those of etcd are the programs of this machine, that of Quorate is this program.

use std::path::PathBuf;
use std::sync::Arc;

use crate::builds::{Buildable, Builds};
use crate::programs::EtcdPrograms;
use crate::shim::Bind;

/// Resolves image references.
#[derive(Clone)]
pub struct Images {
    etcd: Arc<Builds>,
    quorate: PathBuf,
}

/// What an image reference means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// An image of this machine.
    Here(Image),
    /// Programs that must be built first.
    ToBuild(Buildable),
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
    pub fn new(etcd: Arc<Builds>, quorate: PathBuf) -> Self {
        Self { etcd, quorate }
    }

    /// The programs, and the builds of others.
    pub fn etcd(&self) -> &Arc<Builds> {
        &self.etcd
    }

    /// The image of a reference, or why it cannot be pulled, in the words of a container runtime.
    pub fn find(&self, reference: &str) -> Result<Found, String> {
        let (repository, tag) = split(reference);
        let name = repository.rsplit('/').next().unwrap_or_default();
        if name == "quorate" {
            return Ok(Found::Here(Image {
                id: format!("playground://quorate/{}", env!("CARGO_PKG_VERSION")),
                files: vec![file(&self.quorate, "/quorate")],
                entrypoint: vec!["/quorate".to_owned()],
            }));
        }
        if name.contains("etcd") {
            if let Some(programs) = self.etcd.programs().get(tag) {
                return Ok(Found::Here(image(programs)));
            }
            if let Some(version) = self.etcd.buildable(tag) {
                return Ok(Found::ToBuild(version.clone()));
            }
        }
        Err(format!(
            "rpc error: code = NotFound desc = failed to pull and unpack image \"{reference}\": failed to resolve \
             reference \"{reference}\": {reference}: not found (the playground has quorate and {})",
            self.etcd.shown()
        ))
    }
}

fn image(programs: &EtcdPrograms) -> Image {
    let mut files = vec![file(&programs.etcd, "/usr/local/bin/etcd")];
    files.extend(programs.etcdctl.iter().map(|path| file(path, "/usr/local/bin/etcdctl")));
    files.extend(programs.etcdutl.iter().map(|path| file(path, "/usr/local/bin/etcdutl")));
    Image {
        id: format!("playground://etcd/{}", programs.version),
        files,
        entrypoint: vec!["/usr/local/bin/etcd".to_owned()],
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
    use std::time::Duration;

    use super::*;
    use crate::builds::{Builder, Setup};
    use crate::home::Home;
    use crate::programs::Programs;

    fn images() -> Images {
        let versions = ["3.6.10".parse().unwrap(), "3.7.3=took 9 s".parse().unwrap()];
        let setup = Setup {
            programs: Programs::of(&["3.5.21", "3.6.10"]),
            directory: None,
            builder: Builder { program: Some("/bin/xtask".into()), versions: versions.into() },
            home: Home::at("/home".as_ref()).unwrap(),
            back_off: Duration::ZERO,
        };
        Images::new(Builds::new(setup), "/bin/quorate".into())
    }

    fn here(reference: &str) -> Image {
        match images().find(reference).unwrap() {
            Found::Here(image) => image,
            Found::ToBuild(version) => panic!("{reference}: {version:?} is built"),
        }
    }

    #[test]
    fn an_etcd_image_of_any_registry_is_the_program_of_its_version() {
        for reference in [
            "gcr.io/etcd-development/etcd:v3.6.10",
            "quay.io:443/coreos/etcd:3.6.10",
            "etcd:v3.6.10@sha256:00",
        ] {
            let image = here(reference);
            assert_eq!(image.files[0].from, PathBuf::from("/opt/etcd-3.6.10"), "{reference}");
        }
    }

    #[test]
    fn the_image_of_quorate_is_this_program_with_any_tag() {
        let image = here("registry.example:5000/team/quorate:dev");
        assert_eq!(image.files, [file("/bin/quorate".as_ref(), "/quorate")]);
    }

    #[test]
    fn exactly_the_versions_that_can_be_built_are_built() {
        let built = images().find("gcr.io/etcd-development/etcd:v3.7.3").unwrap();
        let expected = Buildable { version: "3.7.3".to_owned(), duration: "took 9 s".to_owned() };
        assert_eq!(built, Found::ToBuild(expected));
        assert!(images().find("nginx:3.7.3").is_err());
    }

    #[test]
    fn a_missing_version_is_refused_with_the_list_of_versions() {
        for reference in
            ["gcr.io/etcd-development/etcd:v3.6.999", "etcd:v3.7.2", "nginx:1", "localhost:5000/etcd"]
        {
            let refused = images().find(reference).unwrap_err();
            assert!(refused.starts_with("rpc error: code = NotFound"), "{refused}");
            let listed = "etcd 3.5.21, 3.6.10; etcd 3.7.3 is built when a cluster asks for it";
            assert!(refused.contains(listed), "{refused}");
        }
    }
}
