//! The sessions of README.md, command by command, in a playground: each command prints what the page shows. It needs the Kubernetes
//! tools for kubectl, and no Kubernetes.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use quorate_scenarios::{Session, Step, Values, until};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

/// Longer than a user waits for a command: the playground starts on a machine that does other things, too.
const DEADLINE: Duration = Duration::from_secs(300);

/// Commands that change nothing. A user who types them sees a later state than this test does at first, so it repeats them.
const READS: [&str; 2] = ["kubectl get ", "etcdctl-3.7 get "];

/// Another playground would take the port of a client Service while its cluster is deleted.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// A command in the shell whose exported variables the commands before it have left.
const SHELL: &str = r#"
. ./exported
eval "$1" 2>&1
status=$?
export -p >exported
exit $status
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_leads_to_the_status_that_the_page_shows() -> Result<()> {
    let user = User::start().await?;
    user.run("cargo xtask playground --detach --empty").await?;
    user.run("export KUBECONFIG=$PWD/.playground/kubeconfig").await?;
    user.follow(&session("What you write, and what you see")?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_playground_prints_what_the_page_shows() -> Result<()> {
    User::start().await?.follow(&session("Try it without Kubernetes")?).await
}

#[test]
fn no_session_of_the_page_is_left_out() -> Result<()> {
    let headings: Vec<String> = Session::read("README.md")?.into_keys().collect();
    ensure!(headings == ["Try it without Kubernetes", "What you write, and what you see"], "{headings:?}");
    Ok(())
}

fn session(heading: &str) -> Result<Session> {
    Session::read("README.md")?.remove(heading).with_context(|| format!("README.md: no session in {heading}"))
}

/// A user who has this repository in `~/quorate`. The playground there is stopped when this is dropped.
struct User {
    home: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl User {
    async fn start() -> Result<Self> {
        let alone = ONE_AT_A_TIME.lock().await;
        let home = tempfile::Builder::new().prefix("quorate-readme-").tempdir()?;
        let user = Self { home, _alone: alone };
        fs::create_dir_all(user.repository().join("target/tools"))?;
        symlink(tools()?, user.repository().join("target/tools/bin"))?;
        fs::create_dir(user.home.path().join("bin"))?;
        let cargo = user.home.path().join("bin/cargo");
        fs::write(&cargo, cargo_xtask_playground(&program()?))?;
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755))?;
        fs::write(user.repository().join("exported"), "")?;
        Ok(user)
    }

    fn repository(&self) -> PathBuf {
        self.home.path().join("quorate")
    }

    async fn follow(&self, session: &Session) -> Result<()> {
        for (name, text) in &session.files {
            fs::write(self.repository().join(name), text)?;
        }
        let mut values = Values::default();
        for step in &session.steps {
            self.take(step, &mut values).await?;
        }
        Ok(())
    }

    async fn take(&self, step: &Step, values: &mut Values) -> Result<()> {
        let command = step.command(values);
        if READS.iter().any(|read| command.starts_with(read)) {
            let what = format!("README.md: {command}");
            return until(&what, async || Ok(step.compare(&self.run(&command).await?, values))).await;
        }
        let printed = self.run(&command).await?;
        step.compare(&printed, values).map_err(|difference| anyhow!("README.md: {difference}"))
    }

    /// Runs a command in the shell of this user; returns what it printed, with `~` for the home directory.
    async fn run(&self, command: &str) -> Result<String> {
        let mut shell = tokio::process::Command::new("sh");
        shell.args(["-c", SHELL, "sh", command]).current_dir(self.repository()).kill_on_drop(true);
        let tools = self.repository().join("target/tools/bin");
        let present = env::var_os("PATH").unwrap_or_default();
        let first = [self.home.path().join("bin"), tools];
        shell.env("PATH", env::join_paths(first.into_iter().chain(env::split_paths(&present)))?);
        shell.env("HOME", self.home.path()).env_remove("KUBECONFIG").env_remove("QUORATE_ETCD_BIN_DIR");
        let start = Instant::now();
        let output = tokio::time::timeout(DEADLINE, shell.output()).await;
        let output = output.with_context(|| format!("not within {DEADLINE:?}: {command}"))??;
        eprintln!("{:6.1} s $ {command}", start.elapsed().as_secs_f32());
        let printed = String::from_utf8_lossy(&output.stdout);
        Ok(printed.replace(&self.home.path().display().to_string(), "~"))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let down = || -> Result<()> {
            let mut down = Command::new(program()?);
            let output = down.args(["playground", "down"]).current_dir(self.repository()).output()?;
            if !output.status.success() {
                bail!("{}", String::from_utf8_lossy(&output.stderr));
            }
            Ok(())
        };
        if let Err(error) = down() {
            eprintln!("stopping the playground: {error:#}");
        }
    }
}

/// A `cargo` that runs the built `quorate` for `cargo xtask playground`, with the arguments that xtask adds.
fn cargo_xtask_playground(quorate: &Path) -> String {
    format!(
        r#"#!/bin/sh
test "$1 $2" = "xtask playground" || {{ echo "only cargo xtask playground is expected here: $*"; exit 1; }}
shift
case "$2" in
-*) exec "{0}" "$@" --etcd-bin-dir "$HOME/quorate/target/tools/bin" ;;
*) exec "{0}" "$@" ;;
esac
"#,
        quorate.display()
    )
}

fn tools() -> Result<PathBuf> {
    let tools = env::var_os("QUORATE_ETCD_BIN_DIR").map(PathBuf::from);
    let tools = tools.context("run this through `cargo xtask test kube`")?;
    for name in ["kubectl", "etcd-3.7", "etcdctl-3.7"] {
        ensure!(tools.join(name).exists(), "{} has no {name}", tools.display());
    }
    Ok(tools)
}

fn program() -> Result<PathBuf> {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/quorate");
    let program = env::var_os("QUORATE_BIN").map_or_else(built, PathBuf::from);
    ensure!(program.exists(), "{} does not exist: run this through cargo xtask test", program.display());
    Ok(fs::canonicalize(program)?)
}
