//! Azurite, an emulator of Azure Blob Storage.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quorate_api::destination::{Azure, Destination, SecretName};
use sha2::{Digest, Sha256};

/// The account and the key that every Azurite has, from its documentation.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const CONTAINER: &str = "backups";

/// One that runs; it ends with this.
struct Azurite {
    process: Child,
    /// `127.0.0.1:PORT`.
    address: String,
}

impl Azurite {
    /// Starts it with an empty container. `folder` is where npm installed it.
    async fn start(folder: &Path) -> Self {
        // As the program does in main.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let program = folder.join("node_modules/.bin/azurite-blob");
        assert!(program.exists(), "run `cargo xtask tools azure`: there is no {}", program.display());
        let process = Command::new("node")
            .arg(program)
            .args(["--blobHost", "127.0.0.1", "--blobPort", &free.to_string()])
            .args(["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, address: format!("127.0.0.1:{free}") };
        quorate_etcd::testkit::eventually("Azurite answers", async || {
            tokio::net::TcpStream::connect(&server.address).await.map(drop)
        })
        .await;
        server.create_container().await;
        server
    }

    fn destination(&self) -> Destination {
        let azure = Azure {
            account: ACCOUNT.to_owned(),
            container: CONTAINER.to_owned(),
            endpoint: Some(format!("http://{}/{ACCOUNT}", self.address)),
            credentials_secret: Some(SecretName { name: "store".to_owned() }),
            prefix: Some("team/prod".to_owned()),
        };
        Destination { azure: Some(azure), ..Destination::default() }
    }

    /// The container must exist, and the client cannot create one. Signed as Azure documents it under "Authorize with Shared Key".
    #[expect(clippy::disallowed_methods, reason = "the server compares it with its clock")]
    async fn create_container(&self) {
        let date = jiff::fmt::rfc2822::DateTimePrinter::new();
        let now = jiff::Timestamp::now();
        let date = date.timestamp_to_rfc9110_string(&now).unwrap();
        let version = "2023-11-03";
        // The path has the account twice: that of the URL, and that of the resource.
        let resource = format!("/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container");
        let signed =
            format!("PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:{version}\n{resource}");
        let signature = STANDARD.encode(hmac(&STANDARD.decode(KEY).unwrap(), signed.as_bytes()));
        let url = format!("http://{}/{ACCOUNT}/{CONTAINER}?restype=container", self.address);
        let request = reqwest::Client::new()
            .put(url)
            .header("x-ms-date", date)
            .header("x-ms-version", version)
            .header("content-length", "0")
            .header("authorization", format!("SharedKey {ACCOUNT}:{signature}"));
        let reply = request.send().await.unwrap();
        assert_eq!(reply.status(), 201, "{}", reply.text().await.unwrap());
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// HMAC-SHA256 (RFC 2104).
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

mod full {
    use super::*;
    use crate::bed::Bed;
    use crate::{MINOR, lives};

    #[tokio::test]
    async fn a_client_of_azure_blob_storage_backs_up_finds_restores_and_removes() {
        let tools = quorate_etcd::testkit::etcd(MINOR).parent().unwrap().parent().unwrap().to_owned();
        let bed = Bed::new(MINOR, 1).await;
        let server = Azurite::start(&tools.join("azurite")).await;
        std::fs::write(bed.context.places.credentials.join("AZURE_STORAGE_ACCOUNT_KEY"), KEY).unwrap();
        lives(&bed, &server.destination()).await;
    }
}
