//! A container's file system: a tmpfs in which only the files that the container needs are mounted.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::pivot_root;
use serde::{Deserialize, Serialize};

/// A container's file system.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Root {
    /// An empty directory to mount it on.
    pub at: PathBuf,
    /// Files and directories of the machine, and where they appear.
    pub binds: Vec<Bind>,
    /// Only the mounts may be written to.
    pub read_only: bool,
}

/// A file or directory that is mounted into the container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Its path on the machine.
    pub from: PathBuf,
    /// Its absolute path in the container.
    pub to: PathBuf,
    /// It must not be written to.
    pub read_only: bool,
}

/// Shared libraries, where the machine has them.
const LIBRARIES: &[&str] = &[
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/nix/store",
    "/gnu/store",
];
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];
const NONE: Option<&str> = None;

impl Root {
    /// Creates the file system and makes it the root of this process. The process must be in a mount namespace of its
    /// own.
    pub fn enter(&self) -> Result<(), String> {
        let data = Some("mode=755,size=64m");
        mount(Some("tmpfs"), &self.at, Some("tmpfs"), MsFlags::MS_NOSUID, data)
            .map_err(|error| format!("mount tmpfs on {}: {error}", self.at.display()))?;
        self.system().map_err(|error| format!("the container's root: {error}"))?;
        for library in LIBRARIES {
            self.library(Path::new(library))?;
        }
        let optional = [("/etc/ld.so.cache", "/etc/ld.so.cache")];
        for (from, to) in optional.into_iter().filter(|(from, _)| Path::new(from).exists()) {
            self.bind(&Bind { from: from.into(), to: to.into(), read_only: true })?;
        }
        for device in DEVICES {
            let path = Path::new("/dev").join(device);
            self.bind(&Bind { from: path.clone(), to: path, read_only: false })?;
        }
        self.bind(&Bind { from: "/proc".into(), to: "/proc".into(), read_only: false })?;
        // Mount parents first, so that they do not hide their children.
        let mut binds: Vec<&Bind> = self.binds.iter().collect();
        binds.sort_by_key(|bind| bind.to.components().count());
        for bind in binds {
            self.bind(bind)?;
        }
        if self.read_only {
            let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID;
            mount(NONE, &self.at, NONE, flags, NONE).map_err(|error| format!("read-only root: {error}"))?;
        }
        self.pivot().map_err(|error| format!("pivot_root: {error}"))
    }

    fn system(&self) -> std::io::Result<()> {
        for directory in ["etc", "dev/shm", "proc", "tmp", "usr/local/bin", "var/lib", "root", "run"] {
            fs::create_dir_all(self.at.join(directory))?;
        }
        for shared in ["tmp", "dev/shm"] {
            fs::set_permissions(self.at.join(shared), fs::Permissions::from_mode(0o1777))?;
        }
        for (link, to) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")]
        {
            symlink(to, self.at.join("dev").join(link))?;
        }
        fs::write(self.at.join("etc/passwd"), "root:x:0:0:root:/root:/bin/false\n")?;
        fs::write(self.at.join("etc/group"), "root:x:0:\n")?;
        // Names are resolved by the hosts file only: an unknown name fails at once.
        fs::write(self.at.join("etc/nsswitch.conf"), "passwd: files\ngroup: files\nhosts: files\n")
    }

    /// Mounts a directory of libraries, or creates the link that many systems have in its place.
    fn library(&self, path: &Path) -> Result<(), String> {
        let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
        if metadata.is_symlink() {
            let target = fs::read_link(path).map_err(|error| format!("{}: {error}", path.display()))?;
            return symlink(target, self.inside(path))
                .map_err(|error| format!("{}: {error}", path.display()));
        }
        self.bind(&Bind { from: path.to_owned(), to: path.to_owned(), read_only: true })
    }

    fn bind(&self, bind: &Bind) -> Result<(), String> {
        self.try_bind(bind)
            .map_err(|error| format!("mount {} at {}: {error}", bind.from.display(), bind.to.display()))
    }

    fn try_bind(&self, bind: &Bind) -> std::io::Result<()> {
        let target = self.inside(&bind.to);
        if fs::metadata(&bind.from)?.is_dir() {
            fs::create_dir_all(&target)?;
        } else {
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            if fs::symlink_metadata(&target).is_err() {
                fs::write(&target, "")?;
            }
        }
        mount(Some(&bind.from), &target, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)?;
        if bind.read_only {
            // The kernel refuses a remount that drops restrictions of the original.
            let kept = inherited(statvfs(&target)?.flags());
            let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | kept;
            mount(NONE, &target, NONE, flags, NONE)?;
        }
        Ok(())
    }

    fn inside(&self, path: &Path) -> PathBuf {
        self.at.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn pivot(&self) -> std::io::Result<()> {
        std::env::set_current_dir(&self.at)?;
        // The old root is mounted over the new one; detach it.
        pivot_root(".", ".")?;
        umount2(".", MntFlags::MNT_DETACH)?;
        std::env::set_current_dir("/")
    }
}

fn inherited(flags: FsFlags) -> MsFlags {
    let pairs = [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ];
    pairs.into_iter().filter(|(own, _)| flags.contains(*own)).map(|(_, kept)| kept).collect()
}
