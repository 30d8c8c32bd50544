//! After etcd has ended by itself: whether the names of its peers resolve here. etcd's own last words name a connection, or nothing at all, where
//! the DNS of the node is what failed.

use std::ffi::OsString;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use tokio::net::lookup_host;
use tokio::time::timeout;

/// How long all names together may take: the container is restarted after this.
const WITHIN: Duration = Duration::from_secs(3);

/// The last line of the log, as etcd writes its own, if DNS fails: its own name does not resolve, or at least half of all. One of a member that was
/// removed since this Pod was made does not resolve either.
pub(super) async fn why_unresolved(command: &[OsString]) -> Option<String> {
    let value =
        |flag: &str| command.iter().find_map(|arg| arg.to_str()?.strip_prefix(flag).map(str::to_owned));
    let own = value("--name=")?;
    let peers = value("--initial-cluster=")?;
    let looks = peers.split(',').filter_map(|peer| {
        let (name, url) = peer.split_once('=')?;
        let (host, port) = url.split_once("://")?.1.rsplit_once(':')?;
        let (name, host, port) = (name.to_owned(), host.to_owned(), port.parse::<u16>().ok()?);
        Some(async move {
            let error = match timeout(WITHIN, lookup_host((host.as_str(), port))).await {
                Ok(Ok(_)) => return (name, None),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {WITHIN:?}"),
            };
            (name, Some(format!("{host} ({error})")))
        })
    });
    let found = join_all(looks).await;
    let failed: Vec<&String> = found.iter().filter_map(|(_, why)| why.as_ref()).collect();
    let own_fails = found.iter().any(|(name, why)| *name == own && why.is_some());
    (own_fails || (!failed.is_empty() && failed.len() * 2 >= found.len())).then(|| {
        let names: Vec<&str> = failed.iter().map(|why| why.as_str()).collect();
        let message = format!(
            "etcd has ended, and DNS does not resolve {}: look at the DNS of this node",
            names.join(", ")
        );
        json!({ "level": "error", "logger": "agent", "msg": message }).to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(own: &str, peers: &str) -> Vec<OsString> {
        ["etcd".to_owned(), format!("--name={own}"), format!("--initial-cluster={peers}")]
            .into_iter()
            .map(OsString::from)
            .collect()
    }

    #[tokio::test]
    async fn a_peer_name_that_does_not_resolve_is_diagnosed_as_dns() {
        let here = "a=http://127.0.0.1:2380";
        let nowhere = |name: &str| format!("{name}=https://{name}.peers.invalid:2380");
        assert_eq!(why_unresolved(&command("a", here)).await, None);
        let removed = format!("{here},b=http://127.0.0.2:2380,{}", nowhere("c"));
        assert_eq!(why_unresolved(&command("a", &removed)).await, None, "one of a member that was removed");
        let own = why_unresolved(&command("c", &removed)).await.expect("its own name");
        assert!(own.contains("DNS does not resolve c.peers.invalid"), "{own}");
        let half = format!("{here},{}", nowhere("b"));
        assert!(why_unresolved(&command("a", &half)).await.is_some());
        assert_eq!(why_unresolved(&[OsString::from("etcd")]).await, None);
    }
}
