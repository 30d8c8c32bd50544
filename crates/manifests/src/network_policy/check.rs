//! What of `spec.networkPolicy` the API server would refuse in a NetworkPolicy, and what would shut the operator out. It is refused here, with
//! its field, before it is written.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::networking::v1::{IPBlock, NetworkPolicyPeer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use quorate_api::EtcdCluster;

use crate::defaults::{Defaults, Invalid};
use crate::metadata;

const CLIENTS: &str = "spec.networkPolicy.clientsFrom";
const METRICS: &str = "spec.networkPolicy.metricsFrom";

/// Whether the policy that the spec wants can be written.
pub(crate) fn check(cluster: &EtcdCluster, defaults: &Defaults) -> Result<(), Invalid> {
    let Some(given) = cluster.spec.network_policy.as_ref().filter(|policy| policy.enabled) else {
        return Ok(());
    };
    if given.clients_from.is_some() && defaults.operator_pods.is_none() {
        let why = "this operator does not know by which labels its own Pods are found, because it runs outside of this Kubernetes or in the \
                   network of a node, so a policy that lists clients would shut it out; leave the list out, and the port is open to \
                   everybody who has a certificate, or run the operator in a Pod";
        return Err(Invalid::new(CLIENTS, why));
    }
    for (field, sources) in [(CLIENTS, &given.clients_from), (METRICS, &given.metrics_from)] {
        for (at, source) in sources.iter().flatten().enumerate() {
            if let Some(why) = why_refused(source) {
                return Err(Invalid::new(format!("{field}[{at}]"), why));
            }
        }
    }
    Ok(())
}

fn why_refused(source: &NetworkPolicyPeer) -> Option<String> {
    let NetworkPolicyPeer { ip_block, namespace_selector, pod_selector } = source;
    let selects = namespace_selector.is_some() || pod_selector.is_some();
    match ip_block {
        Some(_) if selects => Some("ipBlock stands alone: a source is addresses or Pods".to_owned()),
        Some(block) => of_block(block),
        None if !selects => Some("it is empty: give podSelector, namespaceSelector or ipBlock".to_owned()),
        None => namespace_selector.iter().chain(pod_selector).find_map(of_selector),
    }
}

fn of_block(IPBlock { cidr, except }: &IPBlock) -> Option<String> {
    let Some(whole) = Block::parse(cidr) else {
        return Some(format!("{cidr:?} is no block of addresses such as 192.0.2.0/24 or 2001:db8::/64"));
    };
    let is_inside = |part: &&String| Block::parse(part).is_some_and(|part| whole.contains(part));
    let outside = except.iter().flatten().find(|part| !is_inside(part))?;
    Some(format!("{outside:?} is no block of addresses within {cidr}, and smaller"))
}

fn of_selector(selector: &LabelSelector) -> Option<String> {
    let labels = selector.match_labels.clone().unwrap_or_default();
    let expressions = selector.match_expressions.iter().flatten();
    metadata::why_refused(&labels, &BTreeMap::new())
        .or_else(|| expressions.into_iter().find_map(of_expression))
}

fn of_expression(
    LabelSelectorRequirement { key, operator, values }: &LabelSelectorRequirement,
) -> Option<String> {
    let values = values.as_deref().unwrap_or_default();
    match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => Some(format!("{operator} of the key {key:?} needs values")),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            Some(format!("{operator} of the key {key:?} has no values"))
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {
            let label = |value: &String| {
                metadata::why_refused(&BTreeMap::from([(key.clone(), value.clone())]), &BTreeMap::new())
            };
            label(&String::new()).or_else(|| values.iter().find_map(label))
        }
        other => Some(format!("{other:?} is none of In, NotIn, Exists and DoesNotExist")),
    }
}

/// Addresses that begin with the same bits.
#[derive(Clone, Copy)]
struct Block {
    address: IpAddr,
    bits: u32,
}

impl Block {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let is_number =
            bits.bytes().all(|digit| digit.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
        let bits = bits.parse().ok().filter(|bits| is_number && *bits <= width(address))?;
        Some(Self { address, bits })
    }

    /// Whether the other one is within this one, and smaller.
    fn contains(self, other: Self) -> bool {
        let begins = |address: IpAddr| number(address).checked_shr(width(address) - self.bits).unwrap_or(0);
        width(self.address) == width(other.address)
            && self.bits < other.bits
            && begins(self.address) == begins(other.address)
    }
}

fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}
