//! The free space of a member's volume, which its agent replies on the port of the probe. The agent may be older than the operator, and a
//! policy of the network may admit no request: then nothing is known, and nothing waits for it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use quorate_api::job;
use quorate_etcd::Transport;
use quorate_manifests::service::PROBE_PORT;
use quorate_model::snapshot::VolumeSpace;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The agent has the numbers in memory.
const DEADLINE: Duration = Duration::from_secs(1);

/// A reply is two numbers.
const LONGEST_REPLY: u64 = 4096;

/// Why the free space is not known.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("its Pod has no IP address")]
    NoAddress,
    #[error("no reply within {DEADLINE:?}")]
    TimedOut,
    #[error("no connection to the agent")]
    Connection(#[from] io::Error),
    #[error("the agent replied: {0}")]
    Refused(String),
    #[error("the agent's reply is not understood")]
    Reply(#[from] serde_json::Error),
}

/// Asks the agent in the Pod with this address.
pub(in super::super) async fn free_space(
    transport: &Transport,
    ip: Option<String>,
) -> Result<VolumeSpace, String> {
    let asked = match ip.and_then(|ip| ip.parse::<IpAddr>().ok()) {
        Some(ip) => {
            let asked = tokio::time::timeout(DEADLINE, ask(transport, SocketAddr::new(ip, PROBE_PORT)));
            asked.await.unwrap_or(Err(AskError::TimedOut))
        }
        None => Err(AskError::NoAddress),
    };
    asked.map_err(|error| {
        let error = crate::runtime::watch::chain(&error);
        tracing::debug!(error, "the free space of a volume is not known");
        error
    })
}

/// One request, with a connection of its own: the next one may be minutes away.
async fn ask(transport: &Transport, address: SocketAddr) -> Result<VolumeSpace, AskError> {
    let mut stream = transport.dial(address).await?;
    let path = job::VOLUME_PATH;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut reply = Vec::new();
    stream.take(LONGEST_REPLY).read_to_end(&mut reply).await?;
    let reply = String::from_utf8_lossy(&reply);
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(AskError::Refused(format!("{status} {}", body.trim())));
    }
    let job::VolumeSpace { free_bytes, volume_bytes } = serde_json::from_str(body)?;
    Ok(VolumeSpace { free: free_bytes, all: volume_bytes })
}

#[cfg(test)]
mod tests {
    use quorate_etcd::Stream;
    use tokio::io::duplex;

    use super::*;

    /// An agent that gives this reply to any request.
    fn agent(reply: &'static str) -> Transport {
        Transport::instead(move |address: SocketAddr| async move {
            assert_eq!(address, "10.1.2.3:9980".parse().unwrap());
            let (ours, mut theirs) = duplex(1 << 16);
            tokio::spawn(async move {
                let mut request = [0; 22];
                theirs.read_exact(&mut request).await.unwrap();
                assert_eq!(&request, b"GET /volume HTTP/1.1\r\n");
                theirs.write_all(reply.as_bytes()).await.unwrap();
            });
            Ok(Box::new(ours) as Stream)
        })
    }

    async fn asked(reply: &'static str) -> Result<VolumeSpace, String> {
        free_space(&agent(reply), Some("10.1.2.3".to_owned())).await
    }

    #[tokio::test]
    async fn m02_an_agent_replies_with_the_free_space_of_its_volume() {
        let reply = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n\
                     {\"freeBytes\":7,\"volumeBytes\":9,\"more\":1}";
        assert_eq!(asked(reply).await, Ok(VolumeSpace { free: 7, all: 9 }));
    }

    #[tokio::test]
    async fn m02_of_an_agent_that_is_older_than_the_operator_the_free_space_is_not_known() {
        let older = asked("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await.unwrap_err();
        assert!(older.contains("404 Not Found"), "{older}");
        assert!(asked("HTTP/1.1 200 OK\r\n\r\n<html>").await.is_err(), "another server");
        assert!(asked("").await.is_err(), "it closed the connection");
    }

    #[tokio::test(start_paused = true)]
    async fn m02_an_agent_that_cannot_be_reached_holds_up_nothing_for_longer_than_a_second() {
        let drops = Transport::instead(|_| std::future::pending::<io::Result<Stream>>());
        let begun = tokio::time::Instant::now();
        let error = free_space(&drops, Some("10.1.2.3".to_owned())).await.unwrap_err();
        assert!(error.contains("no reply within 1s") && begun.elapsed() == DEADLINE, "{error}");
    }
}
