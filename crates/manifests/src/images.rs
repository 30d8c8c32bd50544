//! Which images the objects of users may name: `--allowed-image-registries`.
//!
//! References are read as container runtimes read them: what comes before the first slash is a registry if it looks like a host; without one
//! it is docker.io, and a single word there is an image of its `library`. What cannot be read for sure is not admitted.

use std::fmt;
use std::str::FromStr;

/// The registry of names that begin with none.
const DEFAULT_REGISTRY: &str = "docker.io";

/// Another name of that registry.
const INDEX: &str = "index.docker.io";

/// Where the single words of that registry are.
const LIBRARY: &str = "library";

/// The images that objects may name: those of a list of registries and repositories. The operator's own defaults need not be in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedImages(Vec<ImagePrefix>);

/// A registry, such as `registry.example.org:5000`, or a part of one, such as `registry.example.org/etcd`, with all that is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePrefix(Place);

/// Why a text is no [`ImagePrefix`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no registry or repository such as registry.example.org or registry.example.org/etcd, without a scheme, a tag and a wildcard"
)]
pub struct NoImagePrefix(String);

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    registry: String,
    path: Vec<String>,
}

impl AllowedImages {
    /// Those below one of these; all images, if there is none.
    pub fn new(prefixes: Vec<ImagePrefix>) -> Self {
        Self(prefixes)
    }

    /// Whether an object may name this image.
    pub fn admits(&self, image: &str) -> bool {
        let Self(prefixes) = self;
        prefixes.is_empty()
            || Place::of_image(image).is_some_and(|place| prefixes.iter().any(|prefix| prefix.covers(&place)))
    }
}

impl ImagePrefix {
    /// Whole words of a path are compared: `example.org/etcd` covers no `example.org/etcd-evil`.
    fn covers(&self, place: &Place) -> bool {
        let Self(own) = self;
        own.registry == place.registry && place.path.starts_with(&own.path)
    }
}

impl FromStr for ImagePrefix {
    type Err = NoImagePrefix;

    /// Alone, what looks like a host is a registry: nobody means the repository of that name of docker.io.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.strip_suffix('/').unwrap_or(text);
        let place = match trimmed.split_once('/') {
            None if is_host(trimmed) => Place::new(trimmed, Vec::new()),
            _ => Place::of_name(trimmed),
        };
        place.map(Self).ok_or_else(|| NoImagePrefix(text.to_owned()))
    }
}

impl fmt::Display for AllowedImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(prefixes) = self;
        let all: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

impl fmt::Display for ImagePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Place { registry, path }) = self;
        f.write_str(registry)?;
        path.iter().try_for_each(|word| write!(f, "/{word}"))
    }
}

impl Place {
    /// Of a whole reference, with its tag and digest.
    fn of_image(image: &str) -> Option<Self> {
        let (name, digest) =
            image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
        if !digest.is_none_or(is_digest) {
            return None;
        }
        // A colon before the last slash is that of a port.
        let begin = name.rfind('/').map_or(0, |slash| slash + 1);
        let name = match name[begin..].split_once(':') {
            None => name,
            Some((last, tag)) if is_tag(tag) => &name[..begin + last.len()],
            Some(_) => return None,
        };
        let mut place = Self::of_name(name)?;
        if place.registry == DEFAULT_REGISTRY && place.path.len() == 1 {
            place.path.insert(0, LIBRARY.to_owned());
        }
        Some(place)
    }

    /// Of a name without tag and digest.
    fn of_name(name: &str) -> Option<Self> {
        let words = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
        match name.split_once('/') {
            Some((first, path)) if is_host(first) => Self::new(first, words(path)),
            Some(_) => Self::new(DEFAULT_REGISTRY, words(name)),
            None => Self::new(DEFAULT_REGISTRY, vec![LIBRARY.to_owned(), name.to_owned()]),
        }
    }

    fn new(registry: &str, path: Vec<String>) -> Option<Self> {
        let mut registry = registry.to_ascii_lowercase();
        if registry == INDEX {
            DEFAULT_REGISTRY.clone_into(&mut registry);
        }
        (is_registry(&registry) && path.iter().all(|word| is_path_word(word)))
            .then_some(Self { registry, path })
    }
}

/// Whether the first word of a name is a registry, as runtimes decide it.
fn is_host(word: &str) -> bool {
    word.contains(['.', ':']) || word == "localhost" || word.chars().any(|c| c.is_ascii_uppercase())
}

/// A host, and a port where one is given.
fn is_registry(text: &str) -> bool {
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let is_label = |label: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty() && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_port =
        |port: &str| !port.is_empty() && port.len() <= 5 && port.bytes().all(|digit| digit.is_ascii_digit());
    host.split('.').all(is_label) && port.is_none_or(is_port)
}

/// Letters and digits, with separators in between: no empty word, and none that means the folder above.
fn is_path_word(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let ends = |c: Option<char>| c.is_some_and(is_plain);
    ends(word.chars().next())
        && ends(word.chars().next_back())
        && word.chars().all(|c| is_plain(c) || "._-".contains(c))
        && !word.contains("..")
}

fn is_tag(tag: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tag.chars().next().is_some_and(is_word)
        && tag.len() <= 128
        && tag.chars().all(|c| is_word(c) || ".-".contains(c))
}

fn is_digest(digest: &str) -> bool {
    let is_algorithm = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "+._-".contains(c))
    };
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        is_algorithm(algorithm) && hex.len() >= 32 && hex.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:5555555555555555555555555555555555555555555555555555555555555555";

    fn allowed(list: &[&str]) -> AllowedImages {
        AllowedImages::new(list.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn judge(list: &[&str], admitted: &[&str], refused: &[&str]) {
        let list = allowed(list);
        for (images, expected) in [(admitted, true), (refused, false)] {
            for image in images {
                assert_eq!(list.admits(image), expected, "{image:?} by {list}");
            }
        }
    }

    #[test]
    fn without_a_list_every_image_is_admitted() {
        judge(&[], &["example.org/etcd:v3.6.16", "anything at all"], &[]);
    }

    #[test]
    fn a_repository_admits_itself_and_what_is_below_it_and_no_name_that_only_begins_alike() {
        let digest = format!("example.org/etcd@{DIGEST}");
        let both = format!("example.org/etcd:v1@{DIGEST}");
        judge(
            &["example.org/etcd"],
            &[
                "example.org/etcd",
                "example.org/etcd:v3.6.16",
                &digest,
                &both,
                "example.org/etcd/mirror:v1",
                "EXAMPLE.org/etcd:v1",
            ],
            &[
                "example.org/etcd-evil:v1",
                "example.org/etcd.evil:v1",
                "example.org/etcdevil",
                "example.org.evil/etcd:v1",
                "example.org.evil/example.org/etcd:v1",
                "evil.org/example.org/etcd:v1",
                "evilexample.org/etcd:v1",
                "example.org:5000/etcd:v1",
                "example.org./etcd:v1",
                "example.org/evil:etcd",
                "example.org",
                "example.org:etcd",
                "etcd:v1",
            ],
        );
    }

    #[test]
    fn a_reference_that_another_reader_may_read_otherwise_is_not_admitted() {
        let user = format!("evil.org/x@example.org/etcd@{DIGEST}");
        judge(
            &["example.org/etcd"],
            &[],
            &[
                "example.org/etcd/../evil:v1",
                "example.org/etcd/./x",
                "example.org//etcd:v1",
                "example.org/etcd/",
                "example.org/etcd:",
                "example.org/etcd:v1/evil",
                "example.org/etcd@evil.org/x",
                "example.org/etcd@sha256:55",
                "example.org/etcd@",
                "user@example.org/etcd",
                &user,
                "example.org:evil.org/etcd",
                "example.org/etcd v1",
                "example.org/etcd\n",
                "example.org/ETCD:v1",
                "https://example.org/etcd",
                "example.org\\etcd",
                "",
            ],
        );
    }

    #[test]
    fn a_registry_admits_all_of_it_at_its_port_and_nothing_else() {
        judge(
            &["example.org", "localhost:5000"],
            &["example.org/etcd:v1", "example.org/a/b/c", "localhost:5000/etcd:v1"],
            &[
                "example.org:443/etcd:v1",
                "localhost/etcd:v1",
                "localhost:5001/etcd",
                "sub.example.org/etcd",
                "example.org:v1",
            ],
        );
    }

    #[test]
    fn a_name_without_a_registry_is_of_docker_io() {
        for list in [["docker.io/bitnami"], ["index.docker.io/bitnami"], ["docker.io/bitnami/"]] {
            let list: Vec<&str> = list.into();
            // A single word is an image of the library.
            judge(&list, &["bitnami/etcd:v1"], &["docker.io/bitnami", "bitnami:v1", "bitnami-evil/etcd"]);
        }
        judge(
            &["bitnami/etcd", "etcd", "docker.io/library"],
            &[
                "bitnami/etcd:v1",
                "docker.io/bitnami/etcd",
                "index.docker.io/bitnami/etcd:v1",
                "etcd:v1",
                "docker.io/etcd",
                "library/etcd",
                "redis",
            ],
            &["example.org/bitnami/etcd:v1", "bitnami/other", "bitnami/etcd-evil"],
        );
        judge(&["docker.io"], &["etcd", "bitnami/etcd:v1", "docker.io/a/b"], &["example.org/etcd"]);
    }

    #[test]
    fn what_is_no_registry_and_no_repository_is_refused_and_does_not_become_a_list_of_everything() {
        for text in [
            "",
            "/",
            "*",
            "*.example.org",
            "https://example.org",
            "example.org/etcd:v1",
            "example.org/*",
            "etcd:v1",
            "a//b",
            "example.org/../x",
            " example.org",
        ] {
            assert_eq!(text.parse::<ImagePrefix>(), Err(NoImagePrefix(text.to_owned())), "{text:?}");
        }
        assert_eq!(
            allowed(&["Example.org:5000/a/b/", "etcd"]).to_string(),
            "example.org:5000/a/b, docker.io/library/etcd"
        );
    }
}
