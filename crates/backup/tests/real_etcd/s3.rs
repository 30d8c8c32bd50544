//! A server of S3 in this process, with faults.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use quorate_api::destination::{Destination, S3, SecretName};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub const BUCKET: &str = "backups";

/// What happens to parts of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Every part is answered with 500.
    Error,
    /// The connection is cut in the middle of every part.
    Cut,
    /// Parts are not answered.
    Hang,
}

pub struct Server {
    pub destination: Destination,
    pub credentials: PathBuf,
    fault: watch::Sender<Fault>,
    dir: TempDir,
    /// Every request: its method and its path with the query.
    pub requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub async fn start() -> Self {
        // As the program does in main.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("root").join(BUCKET)).unwrap();
        let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(dir.path().join("root")).unwrap());
        service.set_auth(SimpleAuth::from_single("AK", "SK"));
        let service = service.build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (fault, faults) = watch::channel(Fault::None);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = requests.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (service, faults, log) = (service.clone(), faults.clone(), log.clone());
                let answer = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    let (service, mut faults, log) = (service.clone(), faults.clone(), log.clone());
                    async move {
                        log.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
                        let is_part =
                            request.uri().query().is_some_and(|query| query.contains("partNumber="));
                        let fault = *faults.borrow();
                        match fault {
                            Fault::Error if is_part => {
                                let reply = hyper::Response::builder().status(500).body(s3s::Body::empty());
                                return Ok(reply.unwrap());
                            }
                            Fault::Cut if is_part => return Err(std::io::Error::other("cut")),
                            Fault::Hang if is_part => {
                                let _ = faults.wait_for(|fault| *fault != Fault::Hang).await;
                            }
                            Fault::None | Fault::Error | Fault::Cut | Fault::Hang => {}
                        }
                        service
                            .call(request.map(s3s::Body::from))
                            .await
                            .map_err(|error| std::io::Error::other(format!("{error:?}")))
                    }
                });
                tokio::spawn(async move {
                    let server = Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(connection), answer).await;
                    Ok::<_, Infallible>(())
                });
            }
        });
        let credentials = dir.path().join("credentials");
        write_credentials(&credentials, "SK");
        let destination = Destination {
            s3: Some(S3 {
                bucket: BUCKET.to_owned(),
                prefix: Some("team/prod".to_owned()),
                endpoint: Some(format!("http://{address}")),
                credentials_secret: Some(SecretName { name: "store".to_owned() }),
                ..S3::default()
            }),
            ..Destination::default()
        };
        Self { destination, credentials, fault, dir, requests }
    }

    pub fn fault(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }

    /// The file of an object.
    pub fn file(&self, key: &str) -> PathBuf {
        self.bucket().join("team/prod").join(key)
    }

    pub fn bucket(&self) -> PathBuf {
        self.dir.path().join("root").join(BUCKET)
    }

    /// Parts of uploads that were neither completed nor aborted.
    pub fn unfinished(&self) -> usize {
        let entries = std::fs::read_dir(self.dir.path().join("root")).unwrap();
        let name =
            |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        entries.map(name).filter(|name| name.starts_with(".upload")).count()
    }
}

/// The files of a Secret.
pub fn write_credentials(dir: &Path, secret: &str) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("AWS_ACCESS_KEY_ID"), "AK\n").unwrap();
    std::fs::write(dir.join("AWS_SECRET_ACCESS_KEY"), secret).unwrap();
}
