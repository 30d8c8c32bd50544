//! How the probe reaches its member: the files are read at every look, so that a renewed certificate needs no restart.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_etcd::{Deadlines, Endpoint, MemberClient, Tls};

use super::{EndpointUrl, ProbeArgs};

/// A kubelet waits one second by default: what takes longer is no answer to it.
const DEADLINES: Deadlines = Deadlines { connect: Duration::from_millis(500), call: Duration::from_secs(1) };

/// The address of the member, and the files of the client certificate.
pub(crate) struct Credentials {
    url: EndpointUrl,
    tls: Option<Files>,
    current: Option<(Endpoint, MemberClient)>,
}

struct Files {
    server_name: String,
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}

impl Credentials {
    pub(crate) fn new(args: &ProbeArgs) -> Result<Self, String> {
        let tls = if args.endpoint.tls { Some(Files::named(args)?) } else { None };
        Ok(Self { url: args.endpoint, tls, current: None })
    }

    /// A client with the files as they are now: the same one as long as they do not change.
    pub(crate) fn client(&mut self) -> Result<MemberClient, String> {
        let tls = self.tls.as_ref().map(|files| files.read(&files.server_name)).transpose()?;
        let endpoint = Endpoint { address: self.url.address, tls };
        if let Some((current, client)) = &self.current
            && *current == endpoint
        {
            return Ok(client.clone());
        }
        let client = MemberClient::new(&endpoint, DEADLINES).map_err(|error| error.to_string())?;
        self.current = Some((endpoint, client.clone()));
        Ok(client)
    }

    /// A client of another member, whose certificate must be valid for this name.
    pub(crate) fn client_of(&self, address: SocketAddr, name: &str) -> Result<MemberClient, String> {
        let tls = self.tls.as_ref().map(|files| files.read(name)).transpose()?;
        MemberClient::new(&Endpoint { address, tls }, DEADLINES).map_err(|error| error.to_string())
    }

    /// Whether the member is asked over TLS.
    pub(crate) fn uses_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The address of the member.
    pub(crate) fn address(&self) -> SocketAddr {
        self.url.address
    }
}

impl Files {
    fn named(args: &ProbeArgs) -> Result<Self, String> {
        let needed = |flag: &str| format!("an https endpoint needs --{flag}");
        Ok(Self {
            server_name: args.server_name.clone().ok_or_else(|| needed("server-name"))?,
            ca: args.cacert.clone().ok_or_else(|| needed("cacert"))?,
            cert: args.cert.clone().ok_or_else(|| needed("cert"))?,
            key: args.key.clone().ok_or_else(|| needed("key"))?,
        })
    }

    fn read(&self, server_name: &str) -> Result<Tls, String> {
        let read =
            |path: &Path| fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
        Ok(Tls {
            server_name: server_name.to_owned(),
            ca: read(&self.ca)?,
            cert: read(&self.cert)?,
            key: read(&self.key)?,
        })
    }
}
