//! A server of S3 in this process, with faults. Without keys, and with the preconditions of Google Cloud Storage, it speaks enough of its XML
//! interface for the client.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue, IF_NONE_MATCH};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use quorate_api::destination::{Destination, Gcs, S3, SecretName};
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
    /// Objects are not shown to anybody: 403, as S3 answers without s3:GetObject and s3:ListBucket.
    WriteOnly,
    /// What is written without a checksum header is refused, as by a bucket of AWS with object lock.
    Locked,
    /// An upload is completed, but the answer is 500. S3 does not know the upload when the request is repeated.
    LoseCompletion,
}

/// A file and its bytes.
type Written = (PathBuf, Vec<u8>);

pub struct Server {
    pub destination: Destination,
    pub credentials: PathBuf,
    fault: watch::Sender<Fault>,
    dir: TempDir,
    /// Every request: its method and its path with the query.
    pub requests: Arc<Mutex<Vec<String>>>,
    /// A file, and what is written to it just before the next object that comes in one piece.
    pub meanwhile: Arc<Mutex<Option<Written>>>,
}

impl Server {
    pub async fn start() -> Self {
        Self::serve(Some(SimpleAuth::from_single("AK", "SK"))).await
    }

    /// One that a client of Google Cloud Storage takes for its emulator. It does not check tokens.
    pub async fn start_gcs() -> Self {
        let mut server = Self::serve(None).await;
        let s3 = server.destination.s3.take().unwrap();
        let key = serde_json::json!({
            "gcs_base_url": s3.endpoint, "disable_oauth": true,
            "client_email": "", "private_key": "", "private_key_id": "",
        });
        std::fs::write(server.credentials.join("service-account.json"), key.to_string()).unwrap();
        server.destination.gcs =
            Some(Gcs { bucket: s3.bucket, prefix: s3.prefix, credentials_secret: s3.credentials_secret });
        server
    }

    async fn serve(auth: Option<SimpleAuth>) -> Self {
        // As the program does in main.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("root").join(BUCKET)).unwrap();
        let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(dir.path().join("root")).unwrap());
        if let Some(auth) = auth {
            service.set_auth(auth);
        }
        let service = service.build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (fault, faults) = watch::channel(Fault::None);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let meanwhile = Arc::new(Mutex::new(None::<Written>));
        let (log, planted) = (requests.clone(), meanwhile.clone());
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (service, faults, log, planted) =
                    (service.clone(), faults.clone(), log.clone(), planted.clone());
                let answer = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
                    translate(request.headers_mut());
                    let (service, mut faults, log, planted) =
                        (service.clone(), faults.clone(), log.clone(), planted.clone());
                    async move {
                        log.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
                        let is_part =
                            request.uri().query().is_some_and(|query| query.contains("partNumber="));
                        if request.method() == hyper::Method::PUT && !is_part {
                            let planted = planted.lock().unwrap().take();
                            if let Some((file, bytes)) = planted {
                                std::fs::write(file, bytes).unwrap();
                            }
                        }
                        let is_completion = request.method() == hyper::Method::POST
                            && request.uri().query().is_some_and(|query| query.contains("uploadId="));
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
                            Fault::WriteOnly if ["GET", "HEAD"].contains(&request.method().as_str()) => {
                                return Ok(refusal(403, "AccessDenied"));
                            }
                            Fault::Locked
                                if request.method() == hyper::Method::PUT
                                    && !has_checksum(request.headers()) =>
                            {
                                return Ok(refusal(
                                    400,
                                    "InvalidRequest: Content-MD5 OR x-amz-checksum- HTTP header is required",
                                ));
                            }
                            Fault::WriteOnly
                            | Fault::Locked
                            | Fault::None
                            | Fault::Error
                            | Fault::Cut
                            | Fault::Hang
                            | Fault::LoseCompletion => {}
                        }
                        let reply = service
                            .call(request.map(s3s::Body::from))
                            .await
                            .map_err(|error| std::io::Error::other(format!("{error:?}")))?;
                        if fault != Fault::LoseCompletion || !is_completion {
                            return Ok(reply);
                        }
                        // This server answers 403 for an upload that it does not know, and S3 404.
                        let was_completed = reply.status().is_success();
                        let (status, code) =
                            if was_completed { (500, "InternalError") } else { (404, "NoSuchUpload") };
                        let body = s3s::Body::from(format!("<Error><Code>{code}</Code></Error>"));
                        Ok(hyper::Response::builder().status(status).body(body).unwrap())
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
        Self { destination, credentials, fault, dir, requests, meanwhile }
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

fn refusal(status: u16, code: &str) -> hyper::Response<s3s::Body> {
    let body = s3s::Body::from(format!("<Error><Code>{code}</Code></Error>"));
    hyper::Response::builder().status(status).body(body).unwrap()
}

fn has_checksum(headers: &hyper::HeaderMap) -> bool {
    headers.contains_key("x-amz-checksum-sha256")
}

/// From Google's client. An object that must not exist: generation 0 to Google, any to S3. An emulator gets an empty token.
fn translate(headers: &mut hyper::HeaderMap) {
    if headers.get(AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(b"Bearer")) {
        headers.remove(AUTHORIZATION);
    }
    let generation = headers.remove(HeaderName::from_static("x-goog-if-generation-match"));
    if generation.is_some_and(|generation| generation == "0") {
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
    }
}

/// The files of a Secret.
pub fn write_credentials(dir: &Path, secret: &str) {
    write_secret(dir, "AK\n", secret);
}

/// The files of a Secret.
pub fn write_secret(dir: &Path, id: &str, secret: &str) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("AWS_ACCESS_KEY_ID"), id).unwrap();
    std::fs::write(dir.join("AWS_SECRET_ACCESS_KEY"), secret).unwrap();
}
