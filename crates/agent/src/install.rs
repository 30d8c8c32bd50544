//! The init container: copies this program into a directory that the container of etcd mounts too. The image of etcd does
//! not have it.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::log;

/// The flags of `install`.
#[derive(Clone, Debug, Args)]
pub struct InstallArgs {
    /// Where the program is copied to.
    #[arg(long)]
    pub to: PathBuf,
}

/// Copies the program. A container that is restarted finds an older copy or a half one: the rename replaces it.
pub fn run(args: &InstallArgs) -> ExitCode {
    match copy(Path::new("/proc/self/exe"), &args.to) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error(&format!("cannot copy the agent to {}: {error}", args.to.display()));
            ExitCode::FAILURE
        }
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let half = to.with_extension("part");
    io::copy(&mut File::open(from)?, &mut File::create(&half)?)?;
    fs::set_permissions(&half, Permissions::from_mode(0o555))?;
    fs::rename(&half, to)
}
