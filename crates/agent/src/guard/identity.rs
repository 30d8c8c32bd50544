//! The identity file: a small file beside etcd's data that names the member the volume belongs to. It is written before
//! etcd writes anything.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use quorate_model::guard::{Refusal, VolumeIdentity};
use quorate_model::{ClusterUid, GuardVerdict, MemberName, Token};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::unreadable;
use super::volume::write_refusal;

/// The file's JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct IdentityFile {
    cluster_uid: String,
    token: String,
    member: String,
    #[serde(default)]
    data_seen: bool,
}

/// The volume's identity; `None` if it has none.
pub(super) fn read(path: &Path) -> Result<Option<VolumeIdentity>, Refusal> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(path, &error)),
    };
    let file: IdentityFile = serde_json::from_slice(&text).map_err(|error| {
        let message = format!("{} is not an identity file of Quorate: {error}", path.display());
        Refusal::new(GuardVerdict::ForeignIdentity, message)
    })?;
    Ok(Some(VolumeIdentity {
        cluster_uid: ClusterUid::new(file.cluster_uid),
        token: Token::new(file.token),
        member: MemberName::new(file.member),
        data_seen: file.data_seen,
    }))
}

/// Writes the identity completely or not at all, also if the power fails.
pub(super) fn write(identity: &VolumeIdentity, path: &Path) -> Result<(), Refusal> {
    let file = IdentityFile {
        cluster_uid: identity.cluster_uid.to_string(),
        token: identity.token.to_string(),
        member: identity.member.to_string(),
        data_seen: identity.data_seen,
    };
    let write = || -> io::Result<()> {
        let dir = path.parent().unwrap_or(Path::new("."));
        let mut temporary = NamedTempFile::new_in(dir)?;
        serde_json::to_writer(&mut temporary, &file)?;
        temporary.flush()?;
        temporary.as_file().sync_all()?;
        temporary.persist(path)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(|error| write_refusal(path, &error))
}
