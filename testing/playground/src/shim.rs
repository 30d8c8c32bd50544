//! The shim: it becomes the program of a container. It mounts the container's file system, ties its own life to the
//! playground's, and calls exec. The operator also starts through it, without a file system.
//!
//! It is a hidden subcommand of `quorate`, so that no code runs between fork and exec.

mod root;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use serde::{Deserialize, Serialize};

pub use root::{Bind, Root};

/// The shim's subcommand of `quorate`.
pub const SUBCOMMAND: &str = "playground-shim";

/// The exit code of a shim whose exec failed.
pub const FAILED: u8 = 128;

/// What the shim starts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ShimSpec {
    /// The process with which this one must end.
    pub parent: i32,
    /// The file system of the program.
    pub view: View,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// The working directory.
    pub work_dir: PathBuf,
    /// The file for the reason of a failed start.
    pub failure: PathBuf,
}

/// The file system that a process sees.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub enum View {
    /// The playground's.
    #[default]
    Inherited,
    /// One of its own.
    Own(Root),
    /// That of another process.
    Of(i32),
}

/// The subcommand: reads the spec and becomes its program. Returns only on failure.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Some(file) = args.into_iter().next() else {
        eprintln!("{SUBCOMMAND} is internal to `quorate playground`");
        return ExitCode::from(FAILED);
    };
    let spec = match read(Path::new(&file)) {
        Ok(spec) => spec,
        Err(error) => {
            eprintln!("{}: {error}", Path::new(&file).display());
            return ExitCode::from(FAILED);
        }
    };
    // Opened before the root changes; a successful exec closes it.
    let failure = File::create(&spec.failure);
    let why = become_program(&spec);
    match failure {
        Ok(mut file) => drop(file.write_all(why.as_bytes())),
        Err(_) => eprintln!("{why}"),
    }
    ExitCode::from(FAILED)
}

fn read(file: &Path) -> std::io::Result<ShimSpec> {
    Ok(serde_json::from_slice(&fs::read(file)?)?)
}

/// Returns only if it fails, with the reason.
fn become_program(spec: &ShimSpec) -> String {
    if let Err(error) = tie_to(Pid::from_raw(spec.parent)) {
        return error;
    }
    if let Err(error) = see(&spec.view) {
        return error;
    }
    let Some((program, args)) = spec.command.split_first() else {
        return "no command specified".to_owned();
    };
    let path = match resolve(program, &spec.env) {
        Ok(path) => path,
        Err(why) => return format!("exec: {program:?}: {why}"),
    };
    if let Err(error) = std::env::set_current_dir(&spec.work_dir) {
        return format!(
            "chdir to cwd ({:?}) set in config.json failed: {error}",
            spec.work_dir.display().to_string()
        );
    }
    let mut command = Command::new(path);
    command.arg0(program).args(args).env_clear().envs(spec.env.iter().cloned());
    format!("exec: {program:?}: {}", command.exec())
}

fn tie_to(parent: Pid) -> Result<(), String> {
    set_pdeathsig(Signal::SIGKILL).map_err(|error| format!("set_pdeathsig: {error}"))?;
    // The parent may have died before the death signal was set.
    if getppid() == parent { Ok(()) } else { Err("the playground is gone".to_owned()) }
}

fn see(view: &View) -> Result<(), String> {
    match view {
        View::Inherited => Ok(()),
        View::Own(root) => {
            unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("unshare: {error}"))?;
            root.enter()
        }
        View::Of(pid) => {
            let namespace = File::open(format!("/proc/{pid}/ns/mnt")).map_err(|error| error.to_string())?;
            setns(namespace, CloneFlags::CLONE_NEWNS).map_err(|error| format!("setns: {error}"))
        }
    }
}

/// Searches a program in the container's PATH, as a shell does.
fn resolve(program: &str, env: &[(String, String)]) -> Result<PathBuf, String> {
    if program.contains('/') {
        let found = Path::new(program);
        return match fs::metadata(found) {
            Ok(_) => Ok(found.to_owned()),
            Err(_) => Err(format!("stat {program}: no such file or directory")),
        };
    }
    let path = env.iter().find(|(key, _)| key == "PATH").map_or("", |(_, value)| value);
    let mut places = path.split(':').map(|place| Path::new(place).join(program));
    places.find(|place| place.is_file()).ok_or_else(|| "executable file not found in $PATH".to_owned())
}
