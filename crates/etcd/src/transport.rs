//! What connections to members run over.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// What connections run over: the network, or something that a test has in its place. TLS and HTTP/2 are spoken on top of
/// it either way.
#[derive(Clone, Default)]
pub struct Transport(Way);

/// Bytes to a member and back.
pub type Stream = Box<dyn Duplex>;

/// What a [`Stream`] is made of.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

type Dialled = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

#[derive(Clone, Default)]
enum Way {
    #[default]
    Network,
    Instead(Arc<dyn Fn(SocketAddr) -> Dialled + Send + Sync>),
}

impl Transport {
    /// TCP, as everybody else has it.
    pub fn network() -> Self {
        Self::default()
    }

    /// Whatever `dial` connects to.
    pub fn instead<F>(dial: impl Fn(SocketAddr) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Stream>> + Send + 'static,
    {
        Self(Way::Instead(Arc::new(move |address| Box::pin(dial(address)))))
    }

    pub(crate) async fn dial(&self, address: SocketAddr) -> io::Result<Stream> {
        match &self.0 {
            Way::Network => {
                let tcp = TcpStream::connect(address).await?;
                tcp.set_nodelay(true)?;
                Ok(Box::new(tcp))
            }
            Way::Instead(dial) => dial(address).await,
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Way::Network => "Transport::network()",
            Way::Instead(_) => "Transport::instead(..)",
        })
    }
}
