//! `kube status`: nodes, programs, and how to use the cluster.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::rig::Rig;
use crate::{cluster, programs, tools};

/// Prints it; fails unless everything runs.
pub async fn run(dir: &Path) -> Result<()> {
    let Some(rig) = Rig::open(dir)? else {
        println!("there is no cluster in {}; `cargo xtask kube up` makes one", dir.display());
        return Ok(());
    };
    let programs = programs::all(&rig)?;
    if programs.is_empty() {
        println!("the cluster in {} is down", rig.dir().display());
        return Ok(());
    }
    let mut whole = true;
    println!("{:<26} {:<8} LOG", "PROGRAM", "PID");
    for (name, pid) in &programs {
        whole &= pid.is_some();
        let pid = pid.map_or("ended".to_owned(), |pid| pid.to_string());
        println!("{name:<26} {pid:<8} {}", rig.path("logs").join(format!("{name}.log")).display());
    }
    println!("\n{:<6} {:<9} {:<5} ADDRESS", "NODE", "STATE", "ZONE");
    match nodes(&rig).await {
        Ok(nodes) => {
            for (name, ready, zone) in nodes {
                whole &= ready;
                let state = if ready { "Ready" } else { "NotReady" };
                let number = name.trim_start_matches('n').parse();
                let address = number.map(|number| rig.addresses().node(number).to_string());
                println!("{name:<6} {state:<9} {zone:<5} {}", address.unwrap_or_default());
            }
        }
        Err(error) => {
            whole = false;
            println!("unknown: {error:#}");
        }
    }
    println!("\n{}", exports(&rig));
    ensure!(whole, "not everything runs; `cargo xtask kube up` starts the rest");
    Ok(())
}

/// What to export.
pub fn exports(rig: &Rig) -> String {
    let bin = tools::binary("kubectl");
    let bin = bin.parent().unwrap_or(Path::new("")).display();
    format!("export KUBECONFIG={}\nexport PATH={bin}:$PATH", rig.kubeconfig().display())
}

async fn nodes(rig: &Rig) -> Result<Vec<(String, bool, String)>> {
    cluster::nodes(&cluster::client(&rig.kubeconfig()).await?).await
}
