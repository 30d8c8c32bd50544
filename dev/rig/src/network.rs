//! The network: a namespace with a bridge for the control plane, one namespace for each node, a veth pair to the bridge from
//! each and from the host, and routes between their Pods.
//!
//! The host gets one link and some routes. Its firewall is not touched.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::addresses::Addresses;
use crate::rig::Rig;
use crate::tools::{call, feed};

/// Creates what is missing and connects nodes that were cut off.
pub fn up(rig: &Rig) -> Result<()> {
    let control = rig.control_netns();
    ensure_netns(&control)?;
    if !is_link(&control, "bridge") {
        call(&["ip", "-n", &control, "link", "add", "bridge", "type", "bridge"])?;
    }
    let (cable, here) = (rig.name(), std::process::id().to_string());
    if !is_link(&control, "host") {
        call(&[
            "ip", "-n", &control, "link", "add", "host", "type", "veth", "peer", "name", &cable, "netns",
            &here,
        ])?;
    }
    for node in rig.nodes() {
        self::node(rig, node).with_context(|| format!("cannot connect node n{node}"))?;
    }
    let cables: String = rig.nodes().map(|node| format!("link set n{node} master bridge up\n")).collect();
    for addresses in rig.each_addresses() {
        let (own, host) = (addresses.control(), addresses.host());
        let (prefix, at_once) = (addresses.prefix(), addresses.at_once());
        let links = format!(
            "link set lo up\naddress replace {own}/{prefix} dev bridge{at_once}\nlink set bridge up\n\
             link set host master bridge up\nroute replace default via {host}\n{cables}"
        );
        // The host and the control plane reach Pods through their nodes, and Services through the kube-proxy of the first
        // node.
        let pods = rig.nodes().map(|node| (addresses.pods_of(node), node));
        let routes = pods.chain([(addresses.services(), 1)]);
        let routes: String =
            routes.map(|(to, node)| format!("route replace {to} via {}\n", addresses.node(node))).collect();
        feed(&["ip", "-n", &control, "-batch", "-"], &(links + &routes))?;
        let link = format!("address replace {host}/{prefix} dev {cable}{at_once}\nlink set {cable} up\n");
        feed(&["ip", "-batch", "-"], &(link + &routes))?;
    }
    Ok(())
}

fn node(rig: &Rig, node: u8) -> Result<()> {
    let (netns, control, cable) = (rig.netns(node), rig.control_netns(), format!("n{node}"));
    ensure_netns(&netns)?;
    if !is_link(&control, &cable) {
        call(&[
            "ip", "-n", &control, "link", "add", &cable, "type", "veth", "peer", "name", "eth0", "netns",
            &netns,
        ])?;
    }
    for addresses in rig.each_addresses() {
        let (own, host) = (addresses.node(node), addresses.host());
        let (prefix, at_once) = (addresses.prefix(), addresses.at_once());
        let links = format!(
            "link set lo up\naddress replace {own}/{prefix} dev eth0{at_once}\nlink set eth0 up\nroute replace default via {host}\n"
        );
        let others = rig.nodes().filter(|other| *other != node);
        let others = others.map(|other| (addresses.pods_of(other), addresses.node(other)));
        let routes: String = others.map(|(pods, by)| format!("route replace {pods} via {by}\n")).collect();
        feed(&["ip", "-n", &netns, "-batch", "-"], &(links + &routes))?;
    }
    // Pods of one bridge reach each other by a Service's address only if packets of the bridge pass nftables.
    let bridges = ["bridge/bridge-nf-call-iptables", "bridge/bridge-nf-call-ip6tables"];
    let switches = rig.each_addresses().map(Addresses::forwards).chain(bridges);
    let switches: Vec<String> = switches.map(|switch| format!("echo 1 >/proc/sys/net/{switch}")).collect();
    call(&["nsenter", &format!("--net=/run/netns/{netns}"), "sh", "-c", &switches.join(" && ")])?;
    Ok(())
}

/// Disconnects a node from the bridge.
pub fn cut(rig: &Rig, node: u8) -> Result<()> {
    call(&["ip", "-n", &rig.control_netns(), "link", "set", &format!("n{node}"), "down"]).map(drop)
}

/// Removes everything, also of an earlier `up` with more nodes. Links in a namespace are removed with it, and a veth pair with
/// either of its ends.
pub fn down(rig: &Rig) -> Result<()> {
    for netns in left(rig)? {
        remove_netns(&netns)?;
    }
    let cable = rig.name();
    // The kernel removes a namespace some time later, or may have removed the link already.
    if is_host_link(&cable) && call(&["ip", "link", "delete", &cable]).is_err() && is_host_link(&cable) {
        call(&["ip", "link", "delete", &cable])?;
    }
    Ok(())
}

/// The network namespaces of this cluster.
pub fn left(rig: &Rig) -> Result<Vec<String>> {
    let Ok(namespaces) = fs::read_dir("/run/netns") else { return Ok(Vec::new()) };
    let mut left = Vec::new();
    for entry in namespaces {
        let name = entry.context("cannot read the network namespaces")?.file_name();
        if let Some(name) = name.to_str().filter(|name| name.starts_with(&format!("{}-", rig.name()))) {
            left.push(name.to_owned());
        }
    }
    Ok(left)
}

/// Whether the host has this link.
pub fn is_host_link(name: &str) -> bool {
    Path::new("/sys/class/net").join(name).exists()
}

fn ensure_netns(netns: &str) -> Result<()> {
    // An `ip netns add` that was killed leaves a file that is no namespace.
    if call(&["nsenter", &format!("--net=/run/netns/{netns}"), "true"]).is_err() {
        remove_netns(netns)?;
        call(&["ip", "netns", "add", netns])?;
    }
    Ok(())
}

fn remove_netns(netns: &str) -> Result<()> {
    if Path::new("/run/netns").join(netns).exists() {
        call(&["ip", "netns", "delete", netns])?;
    }
    Ok(())
}

fn is_link(netns: &str, name: &str) -> bool {
    call(&["ip", "-n", netns, "link", "show", name]).is_ok()
}
