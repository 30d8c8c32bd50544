//! Whether Go can build the tools, and what to do when it cannot.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Fails with what to do when Go is missing or too old for these modules.
pub fn check(modules: &[&Path]) -> Result<()> {
    let mut needed = (0, 0);
    for module in modules {
        let file = fs::read_to_string(module.join("go.mod"))?;
        let line = file.lines().find_map(|line| line.strip_prefix("go ")).context("go.mod has no go line")?;
        needed = needed.max(version(line).with_context(|| format!("go.mod has the line: go {line}"))?);
    }
    let (major, minor) = needed;
    let desired =
        format!("Go {major}.{minor} or newer (https://go.dev/dl), which builds the tools from source");
    // Outside of any module, Go reports its own version and not that of the toolchain that the module asks for.
    let env = Command::new("go")
        .args(["env", "GOVERSION", "GOTOOLCHAIN"])
        .env("GOTOOLCHAIN", "local")
        .current_dir("/")
        .output();
    let output = match env {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(output) => bail!("`go env` fails: {}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => bail!("no `go` on the PATH. Needed: {desired}"),
    };
    let installed = output.lines().next().unwrap_or_default();
    match version(installed.trim_start_matches("go")) {
        Some(version) if version >= needed => Ok(()),
        // From 1.21 on, Go fetches the newer toolchain by itself unless GOTOOLCHAIN forbids it.
        Some(version) if version >= (1, 21) && fetches_toolchains() => Ok(()),
        _ => bail!("{installed} is too old. Needed: {desired}"),
    }
}

/// Why a build failed and what to do.
pub fn explain(what: &str, stderr: &str) -> String {
    const OFFLINE: [&str; 6] = [
        "dial tcp",
        "no such host",
        "i/o timeout",
        "connection refused",
        "module lookup disabled",
        "network is unreachable",
    ];
    let tail: Vec<&str> = stderr.lines().filter(|line| !line.starts_with("go: downloading")).collect();
    let tail = tail[tail.len().saturating_sub(12)..].join("\n");
    let hint = if OFFLINE.iter().any(|sign| stderr.contains(sign)) {
        "\n\nGo could not fetch the sources. They are fetched once and then cached: is the machine online, \
         and does `go env GOPROXY` name a proxy that can be reached?"
    } else {
        ""
    };
    format!("{what} cannot be built:\n{tail}{hint}")
}

fn fetches_toolchains() -> bool {
    let output = Command::new("go").args(["env", "GOTOOLCHAIN"]).current_dir("/").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() != "local")
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(['.', ' ', 'r', 'b']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_go_are_read_in_all_their_shapes() {
        assert_eq!(version("1.26.8"), Some((1, 26)));
        assert_eq!(version("1.27rc1"), Some((1, 27)));
        assert_eq!(version("1.26.8 X:nodwarf5"), Some((1, 26)));
        assert_eq!(version("devel"), None);
    }

    #[test]
    fn a_build_without_network_is_explained() {
        let stderr =
            "go: downloading x\ngo: x@v1: Get \"https://proxy/x\": dial tcp: lookup proxy: no such host\n";
        let text = explain("etcd 3.6", stderr);
        assert!(text.contains("is the machine online"), "{text}");
        assert!(!text.contains("downloading"), "{text}");
        assert!(!explain("etcd 3.6", "undefined: foo").contains("online"));
    }
}
