//! What connections to members run over.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// What connections run over: TCP, or a replacement. TLS and HTTP/2 run on top of either.
#[derive(Clone, Default)]
pub struct Transport(Kind);

/// A connection to a member.
pub type Stream = Box<dyn Duplex>;

/// What a [`Stream`] is made of.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

type Dialled = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

#[derive(Clone, Default)]
enum Kind {
    #[default]
    Network,
    Instead(Arc<dyn Fn(SocketAddr) -> Dialled + Send + Sync>),
}

impl Transport {
    /// TCP.
    pub fn network() -> Self {
        Self::default()
    }

    /// The connections that `dial` makes: for tests, and for who wants to know of each connection.
    pub fn instead<F>(dial: impl Fn(SocketAddr) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Stream>> + Send + 'static,
    {
        Self(Kind::Instead(Arc::new(move |address| Box::pin(dial(address)))))
    }

    /// A connection to this address.
    pub async fn dial(&self, address: SocketAddr) -> io::Result<Stream> {
        match &self.0 {
            Kind::Network => {
                let tcp = TcpStream::connect(address).await?;
                tcp.set_nodelay(true)?;
                Ok(Box::new(tcp))
            }
            Kind::Instead(dial) => dial(address).await,
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Network => "Transport::network()",
            Kind::Instead(_) => "Transport::instead(..)",
        })
    }
}
