//! A plain HTTP request, for probes and the table.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Collected, Empty};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Sends GET on an open connection and closes it. Returns the status, and the body if it is complete.
pub(crate) async fn get<'a>(
    stream: TcpStream,
    host: &str,
    path: &str,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(u16, Option<Bytes>), String> {
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);
    let mut request = Request::get(path).header("host", host).header("connection", "close");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    let answer = match sender.send_request(request).await {
        Ok(response) => {
            let code = response.status().as_u16();
            Ok((code, response.into_body().collect().await.ok().map(Collected::to_bytes)))
        }
        Err(error) => Err(error.to_string()),
    };
    connection.abort();
    answer
}
