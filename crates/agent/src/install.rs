//! The init container: brings this program into a directory that the container of etcd mounts too. The image of etcd does
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
    /// Where the program is to be.
    #[arg(long)]
    pub to: PathBuf,
}

/// Brings the program there. A container that is restarted finds an older copy or a half one: the rename replaces it.
pub fn run(args: &InstallArgs) -> ExitCode {
    match bring(Path::new("/proc/self/exe"), &args.to) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error(&format!("cannot bring the agent to {}: {error}", args.to.display()));
            ExitCode::FAILURE
        }
    }
}

fn bring(from: &Path, to: &Path) -> io::Result<()> {
    let half = to.with_extension("part");
    match fs::remove_file(&half) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    // An image has a file system of its own. Where it has not, as in the playground, nothing is written: the copies of many
    // Pods would hold up the disk that their etcd needs.
    let linked = fs::canonicalize(from).and_then(|from| fs::hard_link(from, &half));
    if linked.is_err() {
        io::copy(&mut File::open(from)?, &mut File::create_new(&half)?)?;
        fs::set_permissions(&half, Permissions::from_mode(0o555))?;
    }
    fs::rename(&half, to)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_program_replaces_what_an_earlier_run_left_and_is_written_only_where_it_cannot_be_linked() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("quorate");
        fs::write(&to, "older").unwrap();
        fs::write(to.with_extension("part"), "half").unwrap();
        let from = dir.path().join("program");
        fs::write(&from, "program").unwrap();
        bring(&from, &to).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().ino(), fs::metadata(&from).unwrap().ino(), "a link");

        let elsewhere = Path::new("/proc/self/exe");
        let other = tempfile::tempdir_in("/dev/shm").unwrap();
        let to = other.path().join("quorate");
        bring(elsewhere, &to).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().len(), fs::metadata(elsewhere).unwrap().len());
        assert_eq!(fs::metadata(&to).unwrap().mode() & 0o777, 0o555);
    }
}
