//! The CPU time and memory of a process.

use std::fs;

use anyhow::{Context, Result};

/// `CLK_TCK`: Linux shows CPU times in hundredths of a second, whatever its own clock.
const TICKS: f64 = 100.0;

/// User and system time that the process has used.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the operator is gone")?;
    // The name, in parentheses, may hold anything; the state after it is the third field.
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat names the process")?;
    let field =
        |number: usize| fields.split_whitespace().nth(number - 3).and_then(|field| field.parse::<f64>().ok());
    Ok((field(14).context("user time")? + field(15).context("system time")?) / TICKS)
}

/// The memory that it holds.
pub fn resident_mib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the operator is gone")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.split_whitespace().next().context("no figure")?.parse()?;
    Ok(kib / 1024.0)
}

/// The processes of a Pod that run this program.
pub fn of_pod(uid: &str, program: &str) -> Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process that ends meanwhile has neither.
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        if read("comm").trim() == program && read("cgroup").contains(uid) {
            pids.push(pid);
        }
    }
    Ok(pids)
}
