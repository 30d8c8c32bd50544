//! The revision of each member's data. It is not in status, because it changes with every write; etcd serves it as a
//! metric.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::future::join_all;
use quorate_apistore::fields::{items, name, namespace, text};
use serde_json::Value;
use tokio::net::TcpStream;

/// The revisions by namespace and name of the Pod.
pub(super) type Revisions = BTreeMap<(String, String), u64>;

/// The port of etcd's metrics in every member's Pod.
const METRICS_PORT: u16 = 2381;

/// The name is the same in etcd 3.5, 3.6 and 3.7.
const METRIC: &str = "etcd_debugging_mvcc_current_revision ";

/// A member that does not answer must not delay the table.
const PATIENCE: Duration = Duration::from_millis(300);

/// Queries all members at once; a member that does not answer is omitted.
pub(super) async fn of(pods: &[Value]) -> Revisions {
    let asked = pods.iter().filter(|pod| has_etcd(pod)).filter_map(|pod| {
        let ip: IpAddr = text(pod, "/status/podIP").parse().ok()?;
        Some(async move {
            let page = tokio::time::timeout(PATIENCE, metrics(SocketAddr::new(ip, METRICS_PORT))).await;
            Some(((namespace(pod).to_owned(), name(pod).to_owned()), read(&page.ok()??)?))
        })
    });
    join_all(asked).await.into_iter().flatten().collect()
}

fn has_etcd(pod: &Value) -> bool {
    items(pod, "/spec/containers").iter().any(|container| text(container, "/name") == "etcd")
}

async fn metrics(address: SocketAddr) -> Option<String> {
    let stream = TcpStream::connect(address).await.ok()?;
    let (_, page) = crate::http::get(stream, &address.to_string(), "/metrics", []).await.ok()?;
    String::from_utf8(page?.to_vec()).ok()
}

/// The value is a float such as 1.234567e+06.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "etcd counts up from 1")]
fn read(page: &str) -> Option<u64> {
    let value = page.lines().find_map(|line| line.strip_prefix(METRIC))?;
    Some(value.trim().parse::<f64>().ok()? as u64)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn large_revisions_are_parsed() {
        let page = |value: &str| format!("# HELP x\netcd_debugging_mvcc_current_revision {value}\nother 1\n");
        assert_eq!(read(&page("7")), Some(7));
        assert_eq!(read(&page("1.234567e+06")), Some(1_234_567));
        assert_eq!(read("other 1\n"), None);
    }
}
