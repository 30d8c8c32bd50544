//! What precedes a container's start: its image, its configuration, its file system.

use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Container;
use tokio::time::{Duration, Instant, sleep};

use super::Runner;
use crate::builds::{Build, Buildable};
use crate::node::back_off::BackOff;
use crate::node::env::invocation;
use crate::node::events::Kind;
use crate::node::images::{Found, Image};
use crate::node::state::ContainerPhase;
use crate::node::{node_of, volumes};
use crate::shim::{Bind, Root, ShimSpec, View};

/// When an incomplete configuration is read again if nothing changes.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// The length of a termination message that the kubelet reads.
const LONGEST_MESSAGE: usize = 4096;

/// A container that can be started.
pub(super) struct Prepared {
    pub spec: ShimSpec,
    pub container: Container,
    pub image_name: String,
    pub image_id: String,
}

impl Runner {
    /// Prepares the container, retrying. `None` if the Pod stops meanwhile.
    pub(super) async fn make(&self) -> Option<Prepared> {
        let (image_name, image) = self.pull().await?;
        loop {
            let container = self.spec()?;
            let mut changes = self.run.cache().changes();
            match self.configure(&container, &image) {
                Ok(spec) => return Some(Prepared { spec, container, image_name, image_id: image.id }),
                Err(why) => {
                    self.wait_for("CreateContainerConfigError", &why);
                    self.record(Kind::Warning, "Failed", &format!("Error: {why}")).await;
                }
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = sleep(LOOK_AGAIN) => {}
                () = self.run.stopped() => return None,
            }
        }
    }

    /// Resolves the image, retrying. A changed image takes effect immediately.
    async fn pull(&self) -> Option<(String, Image)> {
        let mut back_off = BackOff::new(self.run.crash_back_off());
        let _ = back_off.after(Duration::ZERO);
        let mut pod = self.run.watch();
        let mut built = None::<Instant>;
        loop {
            if self.run.stopping() {
                return None;
            }
            let name = self.spec()?.image.unwrap_or_default();
            let why = match self.run.images().find(&name) {
                Ok(Found::Here(image)) => {
                    let message = built.take().map_or_else(
                        || format!("Container image {name:?} already present on machine"),
                        |since| {
                            format!(
                                "Successfully pulled image {name:?} in {:.1}s",
                                since.elapsed().as_secs_f64()
                            )
                        },
                    );
                    self.record(Kind::Normal, "Pulled", &message).await;
                    return Some((name, image));
                }
                Ok(Found::ToBuild(version)) => {
                    built.get_or_insert_with(Instant::now);
                    match self.wait_for_build(&name, &version).await {
                        Ok(()) => continue,
                        Err(why) => why,
                    }
                }
                Err(why) => {
                    self.record(Kind::Normal, "Pulling", &format!("Pulling image {name:?}")).await;
                    why
                }
            };
            built = None;
            let failed = format!("Failed to pull image {name:?}: {why}");
            self.wait_for("ErrImagePull", &why);
            self.record(Kind::Warning, "Failed", &failed).await;
            self.record(Kind::Warning, "Failed", "Error: ErrImagePull").await;
            self.wait_for(
                "ImagePullBackOff",
                &format!("Back-off pulling image {name:?}: ErrImagePull: {why}"),
            );
            self.record(Kind::Normal, "BackOff", &format!("Back-off pulling image {name:?}")).await;
            self.record(Kind::Warning, "Failed", "Error: ImagePullBackOff").await;
            let again = sleep(back_off.after(Duration::ZERO));
            tokio::pin!(again);
            loop {
                tokio::select! {
                    () = &mut again => break,
                    () = self.run.stopped() => return None,
                    changed = pod.changed() => {
                        if changed.is_err() || self.spec()?.image.as_ref() != Some(&name) {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Waits until the build has ended, the Pod stops, or its image changes. Fails if the build does.
    async fn wait_for_build(&self, name: &str, version: &Buildable) -> Result<(), String> {
        let mut build = self.run.images().etcd().request(version);
        let mut pod = self.run.watch();
        let mut reported = false;
        loop {
            let state = build.borrow_and_update().clone();
            match state {
                Build::Done => return Ok(()),
                Build::Failed(why) => return Err(why),
                Build::Running(report) => {
                    // As while an image is pulled.
                    self.wait_for(
                        if self.is_init { "PodInitializing" } else { "ContainerCreating" },
                        &report,
                    );
                    if !std::mem::replace(&mut reported, true) {
                        let message = format!("Pulling image {name:?}: {report}");
                        self.record(Kind::Normal, "Pulling", &message).await;
                    }
                }
            }
            tokio::select! {
                changed = build.changed() => if changed.is_err() { return Ok(()) },
                () = self.run.stopped() => return Ok(()),
                changed = pod.changed() => {
                    let image = self.spec().and_then(|container| container.image);
                    if changed.is_err() || image.as_deref() != Some(name) {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn wait_for(&self, reason: &str, message: &str) {
        let (reason, message) = (reason.to_owned(), Some(message.to_owned()));
        self.update(|state| state.phase = ContainerPhase::Waiting { reason, message });
    }

    fn configure(&self, container: &Container, image: &Image) -> Result<ShimSpec, String> {
        let run = &self.run;
        let made = invocation(&run.pod(), container, &image.entrypoint, run.placed(), run.cache())?;
        let root = self.own_dir().join("root");
        fs::create_dir_all(&root).map_err(|error| error.to_string())?;
        fs::write(self.termination_log(), "").map_err(|error| error.to_string())?;
        let here = |from: PathBuf, to: &str, read_only| Bind { from, to: to.into(), read_only };
        let mut binds = image.files.clone();
        binds.push(here(run.home().hosts(node_of(&run.pod())), "/etc/hosts", true));
        binds.push(here(run.home().resolv_conf(), "/etc/resolv.conf", true));
        let message_path = container.termination_message_path.as_deref().unwrap_or("/dev/termination-log");
        binds.push(here(self.termination_log(), message_path, false));
        binds.extend(volumes::binds(container.volume_mounts.as_deref().unwrap_or_default(), &run.mounted())?);
        let context = container.security_context.as_ref();
        let read_only = context.and_then(|context| context.read_only_root_filesystem) == Some(true);
        let work_dir = container.working_dir.clone().filter(|dir| !dir.is_empty());
        Ok(ShimSpec {
            view: View::Own(Root { at: root, binds, read_only }),
            command: made.command,
            env: made.env,
            work_dir: work_dir.unwrap_or_else(|| "/".to_owned()).into(),
            ..ShimSpec::default()
        })
    }

    /// The termination message: the content of the file, or the end of the log if the policy says so.
    pub(super) fn termination_message(&self, code: i32, restart: i32) -> Option<String> {
        let left = fs::read(self.termination_log()).unwrap_or_default();
        let left = String::from_utf8_lossy(&left[..left.len().min(LONGEST_MESSAGE)]).into_owned();
        if !left.is_empty() {
            return Some(left);
        }
        let container = self.spec()?;
        let from_logs = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        (from_logs && code != 0)
            .then(|| self.run.logs(&self.name).tail(restart))
            .filter(|tail| !tail.is_empty())
    }

    fn own_dir(&self) -> PathBuf {
        volumes::pod_dir(self.run.home(), self.run.uid()).join("containers").join(&self.name)
    }

    fn termination_log(&self) -> PathBuf {
        self.own_dir().join("termination-log")
    }
}
