//! A request to a program of this machine.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// How long an answer may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// What it answers to a GET.
pub(super) async fn get(address: SocketAddr, path: &str) -> Result<String> {
    let answer = tokio::time::timeout(DEADLINE, ask(address, path)).await;
    answer.with_context(|| format!("{path}: no answer within {DEADLINE:?}"))?
}

async fn ask(address: SocketAddr, path: &str) -> Result<String> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = http::Request::get(path)
        .header(http::header::HOST, address.to_string())
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    connection.abort();
    let body = String::from_utf8_lossy(&body).into_owned();
    ensure!(status.is_success(), "{path}: {status} {body}");
    Ok(body)
}

/// As a part of a query.
pub(super) fn encoded(text: &str) -> String {
    let encode = |byte: u8| {
        if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(encode).collect()
}
