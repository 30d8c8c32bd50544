//! Whom a volume belongs to: a small file beside etcd's data, written once, before etcd writes anything.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use quorate_model::GuardVerdict;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::volume::write_refusal;
use super::{GuardArgs, Refusal};

/// What the identity file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Identity {
    pub(super) cluster_uid: String,
    pub(super) token: String,
    pub(super) member: String,
    /// A guard has found data here once.
    #[serde(default)]
    pub(super) data_seen: bool,
}

impl Identity {
    pub(super) fn new(args: &GuardArgs) -> Self {
        Self {
            cluster_uid: args.cluster_uid.clone(),
            token: args.token.clone(),
            member: args.member.clone(),
            data_seen: false,
        }
    }

    /// The volume's stamp; `None` if it has none.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, Refusal> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Refusal::unreadable(path, &error)),
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            let message = format!("{} is no identity file of ours: {error}", path.display());
            Refusal(GuardVerdict::ForeignIdentity, message)
        })
    }

    /// Stamps the volume: wholly or not at all, also if the power fails.
    pub(super) fn write(&self, path: &Path) -> Result<(), Refusal> {
        let write = || -> io::Result<()> {
            let dir = path.parent().unwrap_or(Path::new("."));
            let mut file = NamedTempFile::new_in(dir)?;
            serde_json::to_writer(&mut file, self)?;
            file.flush()?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            File::open(dir)?.sync_all()
        };
        write().map_err(|error| write_refusal(path, &error))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member {} of cluster {} (token {})", self.member, self.cluster_uid, self.token)
    }
}
