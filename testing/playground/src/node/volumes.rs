//! A Pod's volumes: directories of the machine that are mounted into its containers.

mod files;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, EmptyDirVolumeSource, KeyToPath, PersistentVolume, Pod, ProjectedVolumeSource,
    Volume, VolumeMount,
};
use kube::ResourceExt;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::cache::{Cache, Values};
use super::env::{Placed, field_of};
use crate::home::Home;
use crate::shim::Bind;

/// The directory of each volume of a Pod, by name.
pub type Mounted = BTreeMap<String, PathBuf>;

/// A volume cannot be mounted yet: `kubectl describe pod` shows it as FailedMount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FailedMount(String);

/// The directory of a Pod on its node.
pub fn pod_dir(home: &Home, uid: &str) -> PathBuf {
    home.pods().join(uid)
}

/// Prepares all volumes of a Pod.
pub fn set_up(home: &Home, pod: &Pod, placed: Placed, cache: &Cache) -> Result<Mounted, FailedMount> {
    let mut mounted = Mounted::new();
    for volume in volumes(pod) {
        let path = if let Some(claim) = &volume.persistent_volume_claim {
            persistent(home, pod, &claim.claim_name, cache)?
        } else {
            let path = pod_dir(home, &pod.uid().unwrap_or_default()).join("volumes").join(&volume.name);
            let made = ephemeral(&path, volume, pod, placed, cache);
            made.map_err(|why| {
                FailedMount(format!("MountVolume.SetUp failed for volume {:?} : {why}", volume.name))
            })?;
            path
        };
        mounted.insert(volume.name.clone(), path);
    }
    Ok(mounted)
}

/// Updates volumes of Secrets and ConfigMaps. Volumes whose source is gone stay unchanged.
pub fn refresh(home: &Home, pod: &Pod, placed: Placed, cache: &Cache) {
    for volume in
        volumes(pod).filter(|volume| volume.empty_dir.is_none() && volume.persistent_volume_claim.is_none())
    {
        let path = pod_dir(home, &pod.uid().unwrap_or_default()).join("volumes").join(&volume.name);
        if let Err(why) = ephemeral(&path, volume, pod, placed, cache) {
            tracing::debug!(pod = pod.name_any(), volume = volume.name, why, "cannot update a volume");
        }
    }
}

/// Removes the directory of a Pod. Persistent volumes stay.
pub fn tear_down(home: &Home, uid: &str) {
    let dir = pod_dir(home, uid);
    for entry in fs::read_dir(dir.join("volumes")).into_iter().flatten().flatten() {
        // Only volumes in memory are mounts; unmounting the others fails.
        let _ = umount2(&entry.path(), MntFlags::MNT_DETACH);
    }
    if let Err(error) = fs::remove_dir_all(&dir)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(dir = %dir.display(), %error, "cannot remove the directory of a Pod");
    }
}

/// The source and target of a container's mounts.
pub fn binds(mounts: &[VolumeMount], mounted: &Mounted) -> Result<Vec<Bind>, String> {
    let bind = |mount: &VolumeMount| {
        let volume = mounted.get(&mount.name);
        let mut from = volume.ok_or_else(|| format!("volume {:?} not found", mount.name))?.clone();
        if let Some(sub_path) = mount.sub_path.as_deref().filter(|path| !path.is_empty()) {
            if Path::new(sub_path).components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
                return Err(format!("subPath {sub_path:?} must be a relative path without \"..\""));
            }
            from.push(sub_path);
            if !from.exists() {
                fs::create_dir_all(&from).map_err(|error| format!("subPath {sub_path:?}: {error}"))?;
            }
        }
        Ok(Bind { from, to: mount.mount_path.clone().into(), read_only: mount.read_only == Some(true) })
    };
    mounts.iter().map(bind).collect()
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}

fn persistent(home: &Home, pod: &Pod, claim_name: &str, cache: &Cache) -> Result<PathBuf, FailedMount> {
    let namespace = pod.namespace().unwrap_or_default();
    let claim = cache.claim(&namespace, claim_name);
    let claim =
        claim.ok_or_else(|| FailedMount(format!("persistentvolumeclaim {claim_name:?} not found")))?;
    let bound = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone());
    let unbound = || FailedMount(format!("PVC {namespace}/{claim_name} is not bound"));
    let name = bound.ok_or_else(unbound)?;
    let volume = cache.volume(&name).ok_or_else(unbound)?;
    let path = directory(home, &volume);
    let path = path.ok_or_else(|| FailedMount(format!("volume {name:?} is not a directory of this node")))?;
    fs::create_dir_all(&path).map_err(|error| {
        FailedMount(format!(
            "MountVolume.SetUp failed for volume {name:?} : mkdir {}: {error}",
            path.display()
        ))
    })?;
    Ok(path)
}

/// The directory of a persistent volume, below this playground's directory even if that was moved.
pub fn directory(home: &Home, volume: &PersistentVolume) -> Option<PathBuf> {
    let local = volume.spec.as_ref()?.local.as_ref()?;
    Some(home.volumes().join(Path::new(&local.path).file_name()?))
}

fn ephemeral(path: &Path, volume: &Volume, pod: &Pod, placed: Placed, cache: &Cache) -> Result<(), String> {
    let namespace = pod.namespace().unwrap_or_default();
    if let Some(empty) = &volume.empty_dir {
        return self::empty(path, empty).map_err(|error| error.to_string());
    }
    if volume.ephemeral.is_some() {
        // Its claim would be deleted with the Pod, as the directory of the Pod is.
        return fs::create_dir_all(path).map_err(|error| error.to_string());
    }
    let (values, mode) = if let Some(secret) = &volume.secret {
        let values =
            cache.secret(&namespace, secret.secret_name.as_deref().unwrap_or_default(), secret.optional)?;
        (picked(values, secret.items.as_deref(), secret.optional)?, secret.default_mode)
    } else if let Some(map) = &volume.config_map {
        let values = cache.config_map(&namespace, &map.name, map.optional)?;
        (picked(values, map.items.as_deref(), map.optional)?, map.default_mode)
    } else if let Some(downward) = &volume.downward_api {
        (fields(pod, downward.items.as_deref().unwrap_or_default(), placed)?, downward.default_mode)
    } else if let Some(projected) = &volume.projected {
        (self::projected(projected, pod, placed, cache)?, projected.default_mode)
    } else {
        return Err("the playground does not support this kind of volume".to_owned());
    };
    let mode = u32::try_from(mode.unwrap_or(0o644)).unwrap_or(0o644);
    files::replace(path, &values, mode).map_err(|error| error.to_string())
}

fn empty(path: &Path, source: &EmptyDirVolumeSource) -> io::Result<()> {
    let is_new = !path.exists();
    fs::create_dir_all(path)?;
    if source.medium.as_deref() == Some("Memory") && is_new {
        let size = source.size_limit.as_ref().and_then(quorate_api::quantity::bytes);
        let options = size.map_or_else(|| "mode=777".to_owned(), |size| format!("mode=777,size={size}"));
        mount(
            Some("tmpfs"),
            path,
            Some("tmpfs"),
            MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
            Some(options.as_str()),
        )?;
    }
    Ok(())
}

fn picked(values: Values, items: Option<&[KeyToPath]>, optional: Option<bool>) -> Result<Values, String> {
    let Some(items) = items.filter(|items| !items.is_empty()) else { return Ok(values) };
    let mut picked = Values::new();
    for item in items {
        match values.get(&item.key) {
            Some(value) => drop(picked.insert(item.path.clone(), value.clone())),
            None if optional == Some(true) => {}
            None => return Err(format!("references non-existent key: {}", item.key)),
        }
    }
    Ok(picked)
}

fn fields(pod: &Pod, items: &[DownwardAPIVolumeFile], placed: Placed) -> Result<Values, String> {
    let path = |item: &DownwardAPIVolumeFile| {
        item.field_ref.as_ref().map_or_else(String::new, |field| field.field_path.clone())
    };
    items
        .iter()
        .map(|item| Ok((item.path.clone(), field_of(pod, &path(item), placed)?.into_bytes())))
        .collect()
}

fn projected(
    source: &ProjectedVolumeSource,
    pod: &Pod,
    placed: Placed,
    cache: &Cache,
) -> Result<Values, String> {
    let namespace = pod.namespace().unwrap_or_default();
    let mut all = Values::new();
    for part in source.sources.iter().flatten() {
        if let Some(secret) = &part.secret {
            let values = cache.secret(&namespace, &secret.name, secret.optional)?;
            all.extend(picked(values, secret.items.as_deref(), secret.optional)?);
        } else if let Some(map) = &part.config_map {
            let values = cache.config_map(&namespace, &map.name, map.optional)?;
            all.extend(picked(values, map.items.as_deref(), map.optional)?);
        } else if let Some(downward) = &part.downward_api {
            all.extend(fields(pod, downward.items.as_deref().unwrap_or_default(), placed)?);
        } else {
            return Err("the playground does not support this projection".to_owned());
        }
    }
    Ok(all)
}
