//! Buckets. Credentials come from files of a Secret, or from the environment of the Pod: web identity, node metadata.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, Checksum};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{BackoffConfig, Certificate, ClientOptions, ObjectStore, RetryConfig};
use quorate_api::destination::{Azure, ChecksumHeader, Gcs, S3};
use quorate_api::job::{Failure, FailureKind};

use super::unfinished::Uploads;
use crate::{Places, Result};

/// For a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(10);
/// For one request with its body, which has 8 MiB at most.
const REQUEST: Duration = Duration::from_secs(60);

/// The ends of the host names of storage accounts: Azure's public cloud, and those of China and of the US government.
const AZURE_CLOUDS: [&str; 3] =
    ["blob.core.windows.net", "blob.core.chinacloudapi.cn", "blob.core.usgovcloudapi.net"];

/// A bucket of S3, and requests that its interface lacks.
pub(super) fn s3(spec: &S3, places: &Places) -> Result<(Arc<dyn ObjectStore>, Uploads)> {
    let mut builder = if spec.credentials_secret.is_some() {
        let secret = |key: &str| required(&places.credentials, key);
        let mut builder = AmazonS3Builder::new()
            .with_access_key_id(secret("AWS_ACCESS_KEY_ID")?)
            .with_secret_access_key(secret("AWS_SECRET_ACCESS_KEY")?);
        if let Some(token) = optional(&places.credentials, "AWS_SESSION_TOKEN")? {
            builder = builder.with_token(token);
        }
        builder
    } else if is_plain(spec.endpoint.as_deref()) {
        let what =
            "the identity of the Job's service account or node would be used there: name a credentialsSecret";
        return Err(too_open(what));
    } else {
        identity_of_job(spec)?
    };
    let options = client(spec.endpoint.as_deref(), spec.ca_secret.is_some(), places)?;
    builder = builder.with_bucket_name(&spec.bucket).with_client_options(options.clone()).with_retry(retry());
    let path_style = spec.path_style.unwrap_or(spec.endpoint.is_some());
    if let Some(endpoint) = &spec.endpoint {
        let endpoint = endpoint.trim_end_matches('/');
        builder = builder.with_endpoint(if path_style {
            endpoint.to_owned()
        } else {
            host_of_bucket(endpoint, &spec.bucket)
        });
    }
    builder = in_region(builder, spec);
    // A bucket with object lock takes no write without one, and the signed hash of the payload does not count.
    match spec.checksum.unwrap_or_default() {
        ChecksumHeader::Sha256 => builder = builder.with_checksum_algorithm(Checksum::SHA256),
        ChecksumHeader::None => {}
    }
    let bucket = builder
        .with_virtual_hosted_style_request(!path_style)
        .build()
        .map_err(|error| no_client(&error, spec))?;
    let uploads = Uploads::new(bucket.clone(), &options).map_err(|error| no_client(&error, spec))?;
    let bucket: Arc<dyn ObjectStore> = Arc::new(bucket);
    Ok((bucket, uploads))
}

/// The identity of the Job itself, from its environment. Its token is fetched from the server of the cloud by public authorities, whatever the
/// bucket's server is verified by: whoever names a `caSecret` must not get the token.
fn identity_of_job(spec: &S3) -> Result<AmazonS3Builder> {
    let own = AmazonS3Builder::from_env()
        .with_bucket_name(&spec.bucket)
        .with_client_options(with_timeouts(ClientOptions::new()))
        .with_retry(retry());
    let own = in_region(own, spec).build().map_err(|error| no_client(&error, spec))?;
    Ok(AmazonS3Builder::from_env().with_credentials(own.credentials().clone()))
}

/// One from the environment is that of the node, where the bucket need not be: but it is the best guess.
fn in_region(builder: AmazonS3Builder, spec: &S3) -> AmazonS3Builder {
    if spec.region.is_none() && spec.endpoint.is_none() {
        return builder;
    }
    builder.with_region(spec.region.as_deref().unwrap_or("us-east-1"))
}

/// A bucket of Google Cloud Storage.
pub(super) fn gcs(spec: &Gcs, places: &Places) -> Result<Arc<dyn ObjectStore>> {
    let mut builder =
        GoogleCloudStorageBuilder::from_env().with_bucket_name(&spec.bucket).with_retry(retry());
    let mut emulator = None;
    if spec.credentials_secret.is_some() {
        let key = required(&places.credentials, "service-account.json")?;
        emulator = emulator_of(&key);
        builder = builder.with_service_account_key(key);
    }
    opened(builder.with_client_options(client(emulator.as_deref(), false, places)?).build())
}

/// The URL of an emulator, which takes no token: `gcs_base_url` of a key with `disable_oauth`, as `object_store` reads them.
fn emulator_of(key: &str) -> Option<String> {
    let key: serde_json::Value = serde_json::from_str(key).ok()?;
    let takes_no_token = key["disable_oauth"].as_bool() == Some(true);
    key["gcs_base_url"].as_str().filter(|_| takes_no_token).map(str::to_owned)
}

/// A container of Azure Blob Storage.
pub(super) fn azure(spec: &Azure, places: &Places) -> Result<Arc<dyn ObjectStore>> {
    let mut builder = if spec.credentials_secret.is_some() {
        let builder = MicrosoftAzureBuilder::new();
        let key = optional(&places.credentials, "AZURE_STORAGE_ACCOUNT_KEY")?;
        match (key, optional(&places.credentials, "AZURE_STORAGE_SAS_KEY")?) {
            (Some(key), _) => builder.with_access_key(key),
            (None, Some(_)) if is_plain(spec.endpoint.as_deref()) => {
                return Err(too_open("a SAS is a password, and is part of each URL: use an account key"));
            }
            (None, Some(sas)) => {
                keep_sas_from_others(spec, places)?;
                builder.with_config(AzureConfigKey::SasKey, sas)
            }
            (None, None) => {
                let message = "the Secret of credentials does not exist or has neither AZURE_STORAGE_ACCOUNT_KEY nor AZURE_STORAGE_SAS_KEY";
                return Err(Failure::new(FailureKind::StoreForbidden, message));
            }
        }
    } else if let Some(endpoint) = &spec.endpoint {
        let message = format!(
            "the token of the Job's own identity is not sent to {endpoint}: name a credentialsSecret, or leave the endpoint out"
        );
        return Err(Failure::new(FailureKind::OrderRefused, message));
    } else {
        MicrosoftAzureBuilder::from_env()
    };
    builder = builder
        .with_account(&spec.account)
        .with_container_name(&spec.container)
        .with_client_options(client(spec.endpoint.as_deref(), false, places)?)
        .with_retry(retry());
    if let Some(endpoint) = &spec.endpoint {
        builder = builder.with_endpoint(endpoint.trim_end_matches('/').to_owned());
    }
    opened(builder.build())
}

/// Refuses an endpoint that must not get the SAS. Whoever creates an EtcdBackup or an EtcdRestore chooses the endpoint, and may have no right to
/// read the Secret. Of an account key no server gets more than signatures, but a SAS is in each request. So it is sent to its account at
/// Azure, or to an endpoint that the owner of the Secret names in it.
fn keep_sas_from_others(spec: &Azure, places: &Places) -> Result<()> {
    let Some(endpoint) = &spec.endpoint else { return Ok(()) };
    // Whole texts are compared, so no parser of URLs has to find the same host as the client does.
    let asked = endpoint.trim_end_matches('/');
    let is_of_account =
        |cloud: &&str| asked.eq_ignore_ascii_case(&format!("https://{}.{cloud}", spec.account));
    let named = optional(&places.credentials, "AZURE_STORAGE_ENDPOINT")?;
    let is_named = named.is_some_and(|named| named.trim_end_matches('/') == asked);
    if is_named || AZURE_CLOUDS.iter().any(is_of_account) {
        return Ok(());
    }
    let message = format!(
        "the SAS of the Secret of credentials is not sent to {endpoint}, whose server could use it: this is not the endpoint of the account \
         {} at Azure, and the Secret does not name it. Add the key AZURE_STORAGE_ENDPOINT with this URL to the Secret, use an account key, \
         or leave the endpoint out",
        spec.account
    );
    Err(Failure::new(FailureKind::StoreForbidden, message))
}

/// Whether everybody on the way reads what is sent.
fn is_plain(endpoint: Option<&str>) -> bool {
    endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"))
}

fn too_open(what: &str) -> Failure {
    let message = format!(
        "the endpoint is http://, and what is sent there can be read on the way: use https://. {what}"
    );
    Failure::new(FailureKind::OrderRefused, message)
}

/// The endpoint of a bucket that is part of the host name. The client takes an endpoint as it is, so without this the first part of a key
/// would be taken for the bucket.
fn host_of_bucket(endpoint: &str, bucket: &str) -> String {
    match endpoint.split_once("://") {
        Some((scheme, host)) => format!("{scheme}://{bucket}.{host}"),
        None => format!("{bucket}.{endpoint}"),
    }
}

fn opened<S: ObjectStore>(store: object_store::Result<S>) -> Result<Arc<dyn ObjectStore>> {
    Ok(Arc::new(store.map_err(|error| unusable(&error))?))
}

fn unusable(error: &object_store::Error) -> Failure {
    Failure::new(FailureKind::OrderRefused, format!("the destination cannot be used: {error}"))
}

/// The one cause of these words is a machine without a bundle of public authorities.
fn no_client(error: &object_store::Error, spec: &S3) -> Failure {
    if spec.ca_secret.is_some() || !error.to_string().ends_with("builder error") {
        return unusable(error);
    }
    let message = "the certificate of the server cannot be verified: there are no public authorities here; put the certificate of its own \
                   one into ca.crt of a Secret, and name that Secret in s3.caSecret";
    Failure::new(FailureKind::OrderRefused, message)
}

fn client(endpoint: Option<&str>, own_ca: bool, places: &Places) -> Result<ClientOptions> {
    let plain = is_plain(endpoint);
    // Without TLS there is nothing to trust, and a machine without a bundle of authorities must do.
    let mut options =
        with_timeouts(ClientOptions::new()).with_allow_http(plain).with_no_system_certificates(plain);
    if own_ca {
        let file = &places.ca_file;
        let refused = |why: String| {
            let message = format!("cannot read the authorities of the store in {}: {why}", file.display());
            Failure::new(FailureKind::OrderRefused, message)
        };
        let pem = fs::read(file).map_err(|error| refused(error.to_string()))?;
        let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| refused(error.to_string()))?;
        if certificates.is_empty() {
            return Err(refused("no certificate".to_owned()));
        }
        options = certificates.into_iter().fold(options, ClientOptions::with_root_certificate);
        // Trust only these CAs; an image from scratch has no system roots.
        options = options.with_no_system_certificates(true);
    }
    Ok(options)
}

fn with_timeouts(options: ClientOptions) -> ClientOptions {
    options.with_connect_timeout(CONNECT).with_timeout(REQUEST)
}

/// Short: whoever ordered this tries again.
fn retry() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(3),
            base: 2.0,
        },
        max_retries: 4,
        retry_timeout: Duration::from_secs(30),
    }
}

fn required(dir: &Path, key: &str) -> Result<String> {
    optional(dir, key)?.ok_or_else(|| {
        let message = format!("the Secret of credentials does not exist or has no key {key}");
        Failure::new(FailureKind::StoreForbidden, message)
    })
}

fn optional(dir: &Path, key: &str) -> Result<Option<String>> {
    let file = dir.join(key);
    match fs::read_to_string(&file) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let message = format!("cannot read {}: {error}", file.display());
            Err(Failure::new(FailureKind::StoreForbidden, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_in_the_host_name_is_put_before_the_endpoint() {
        assert_eq!(host_of_bucket("https://s3.example:9000", "backups"), "https://backups.s3.example:9000");
    }

    #[test]
    fn what_would_give_an_identity_away_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("AZURE_STORAGE_SAS_KEY"), "sv=1&sig=x").unwrap();
        let places = Places { credentials: dir.path().to_owned(), ..Places::default() };
        let refused = |opened: Result<Arc<dyn ObjectStore>>, words: &str| {
            let failure = opened.unwrap_err();
            assert_eq!(failure.kind, FailureKind::OrderRefused, "{failure:?}");
            assert!(failure.message.contains(words), "{}", failure.message);
        };
        let plain = || Some("http://store.example".to_owned());
        let bucket = || "backups".to_owned();
        refused(
            s3(&S3 { bucket: bucket(), endpoint: plain(), ..S3::default() }, &places).map(|(store, _)| store),
            "credentialsSecret",
        );
        let container = || Azure {
            account: "acc".to_owned(),
            container: bucket(),
            endpoint: plain(),
            ..Azure::default()
        };
        refused(azure(&container(), &places), "credentialsSecret");
        let credentials_secret = Some(quorate_api::destination::SecretName { name: "keys".to_owned() });
        refused(azure(&Azure { credentials_secret, ..container() }, &places), "a SAS is a password");
    }

    #[test]
    fn a_sas_goes_only_to_its_account_at_azure_and_to_an_endpoint_that_its_secret_names() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("AZURE_STORAGE_SAS_KEY"), "sv=1&sig=x").unwrap();
        let places = Places { credentials: dir.path().to_owned(), ..Places::default() };
        let at = |endpoint: &str| Azure {
            account: "acc".to_owned(),
            container: "backups".to_owned(),
            endpoint: Some(endpoint.to_owned()),
            credentials_secret: Some(quorate_api::destination::SecretName { name: "keys".to_owned() }),
            ..Azure::default()
        };
        let refused = |endpoint: &str| {
            let failure = azure(&at(endpoint), &places).unwrap_err();
            assert_eq!(failure.kind, FailureKind::StoreForbidden, "{endpoint}: {}", failure.message);
            assert!(failure.message.contains("AZURE_STORAGE_ENDPOINT"), "{}", failure.message);
            assert!(failure.message.contains(endpoint), "{}", failure.message);
        };
        let admitted = |endpoint: &str| keep_sas_from_others(&at(endpoint), &places).unwrap();
        let proxy = "https://blobs.example:8443/acc";
        for endpoint in [
            proxy,
            "https://other.blob.core.windows.net",
            "https://acc.blob.core.windows.net.evil.example",
            "https://acc.blob.core.windows.net:x@evil.example",
            "https://evil.example/acc.blob.core.windows.net",
        ] {
            refused(endpoint);
        }
        admitted("https://acc.blob.core.windows.net/");
        admitted("https://ACC.blob.core.chinacloudapi.cn");
        admitted("https://acc.blob.core.usgovcloudapi.net");
        fs::write(dir.path().join("AZURE_STORAGE_ENDPOINT"), format!("{proxy}/\n")).unwrap();
        admitted(proxy);
        refused("https://blobs.example:8443");
        refused("https://evil.example");
    }
}
