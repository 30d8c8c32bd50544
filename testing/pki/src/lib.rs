//! Certificates for tests that need no handshake: real ones in form, with keys that are numbers, and as signature the number of the
//! key that signs. The same number gives the same certificate, so that a history can be replayed.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, Error, ExtendedKeyUsagePurpose, IsCa,
    Issuer, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm, SigningKey,
};
use time::OffsetDateTime;

/// A certificate as PEM, and the text that stands for its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub cert: String,
    /// Its key: the number, and the common name of the certificate.
    pub key: String,
}

/// From when until when a certificate is valid, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    /// Not valid before.
    pub not_before: i64,
    /// Not valid after.
    pub not_after: i64,
}

/// An authority.
pub fn authority(common_name: &str, number: u64, validity: Validity) -> Pair {
    let key = NumberedKey::of(number);
    let params = of_authority(common_name, Some(validity));
    let cert = params.self_signed(&key).expect("a certificate of plain parts");
    Pair { cert: cert.pem(), key: format!("key {number} of {common_name}") }
}

/// An authority as a person makes it: its key is a number, too, in the form of an ECDSA key that fits the certificate.
pub fn authority_of_others(common_name: &str, number: u64, validity: Validity) -> Pair {
    of_others(authority(common_name, number, validity), number)
}

/// An authority between that whose key this is and the leaves that it signs.
pub fn intermediate(authority_key: &str, common_name: &str, number: u64, validity: Validity) -> Pair {
    let mut params = of_authority(common_name, Some(validity));
    params.use_authority_key_identifier_extension = true;
    let cert = params.signed_by(&NumberedKey::of(number), &issuer(authority_key));
    let cert = cert.expect("a certificate of plain parts");
    Pair { cert: cert.pem(), key: format!("key {number} of {common_name}") }
}

/// A leaf as somebody else has it signed, with a key that fits it.
pub fn leaf_of_others(
    authority_key: &str,
    common_name: &str,
    names: &[String],
    number: u64,
    validity: Validity,
) -> Pair {
    of_others(leaf(authority_key, common_name, names, number, validity), number)
}

/// The same for clients alone.
pub fn client_of_others(authority_key: &str, common_name: &str, number: u64, validity: Validity) -> Pair {
    let usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let names = ["localhost".to_owned()];
    of_others(leaf_for(authority_key, common_name, &names, number, (validity, usages)), number)
}

/// The number as an ECDSA key, too, in SEC 1: version, a private part, P-256, and the public part.
fn of_others(Pair { cert, key: text }: Pair, number: u64) -> Pair {
    let head = [&[0x30, 0x77, 0x02, 0x01, 0x01, 0x04, 0x20][..], &[1; 32]].concat();
    let curve = [0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    let public = [&[0xa1, 0x44, 0x03, 0x42, 0x00][..], &NumberedKey::of(number).0].concat();
    let key = pem::encode(&pem::Pem::new("EC PRIVATE KEY", [&head[..], &curve, &public].concat()));
    Pair { cert, key: format!("{text}\n{key}") }
}

/// A leaf for server and client use, signed by the authority whose key this is.
pub fn leaf(
    authority_key: &str,
    common_name: &str,
    names: &[String],
    number: u64,
    validity: Validity,
) -> Pair {
    let usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    leaf_for(authority_key, common_name, names, number, (validity, usages))
}

/// A certificate that signs itself and is none of an authority, as a SelfSigned issuer of cert-manager makes it.
pub fn self_signed(common_name: &str, names: &[String], number: u64, validity: Validity) -> Pair {
    let mut params = params(common_name, names, Some(validity));
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let cert = params.self_signed(&NumberedKey::of(number)).expect("a certificate of plain parts");
    of_others(Pair { cert: cert.pem(), key: format!("key {number} of {common_name}") }, number)
}

fn leaf_for(
    authority_key: &str,
    common_name: &str,
    names: &[String],
    number: u64,
    (validity, usages): (Validity, Vec<ExtendedKeyUsagePurpose>),
) -> Pair {
    let mut params = params(common_name, names, Some(validity));
    params.use_authority_key_identifier_extension = true;
    params.extended_key_usages = usages;
    let cert = params.signed_by(&NumberedKey::of(number), &issuer(authority_key));
    let cert = cert.expect("a certificate of plain parts");
    Pair { cert: cert.pem(), key: format!("key {number} of {common_name}") }
}

fn issuer(authority_key: &str) -> Issuer<'static, NumberedKey> {
    let (number, name) = read(authority_key);
    Issuer::new(of_authority(&name, None), NumberedKey::of(number))
}

/// The number in a key, and the common name of its certificate.
pub fn read(key: &str) -> (u64, String) {
    let parts = key.lines().next().unwrap_or_default();
    let parts = parts.strip_prefix("key ").and_then(|rest| rest.split_once(" of "));
    let (number, name) = parts.unwrap_or(("0", ""));
    (number.parse().unwrap_or(0), name.to_owned())
}

fn of_authority(common_name: &str, validity: Option<Validity>) -> CertificateParams {
    let mut params = params(common_name, &[], validity);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params
}

fn params(common_name: &str, names: &[String], validity: Option<Validity>) -> CertificateParams {
    let mut params = CertificateParams::new(names).expect("names fit for a certificate");
    params.distinguished_name = DistinguishedName::new();
    if !common_name.is_empty() {
        params.distinguished_name.push(DnType::CommonName, common_name);
    }
    if let Some(Validity { not_before, not_after }) = validity {
        let at = |millis: i64| OffsetDateTime::from_unix_timestamp(millis.div_euclid(1000));
        params.not_before = at(not_before).expect("a time within the years of certificates");
        params.not_after = at(not_after).expect("a time within the years of certificates");
    }
    params
}

/// From this number on a key is of a kind that etcd verifies, and the operator and its agents do not.
pub const UNKNOWN_TO_OPERATORS: u64 = 1 << 32;

/// As the operator and its agents verify: whether they accept what this authority (DER) signs, and that it signed this leaf (DER).
pub fn verify(signer: &[u8], leaf: Option<&[u8]>) -> Result<(), String> {
    let key = number_in(signer).ok_or("its key is no number")?;
    if key >= &UNKNOWN_TO_OPERATORS.to_be_bytes()[..] {
        return Err("its key is of a kind that is not known here".to_owned());
    }
    match leaf {
        Some(leaf) if !leaf.ends_with(key) => Err("another key signed it".to_owned()),
        _ => Ok(()),
    }
}

/// Whether the key of this certificate (DER) is a number.
pub fn has_number(cert: &[u8]) -> bool {
    number_in(cert).is_some()
}

fn number_in(cert: &[u8]) -> Option<&[u8]> {
    let at = cert.windows(57).position(|part| part == [4; 57])?;
    cert.get(at + 57..at + 65)
}

/// A key that is a number, which is what it signs with.
struct NumberedKey([u8; 65]);

impl NumberedKey {
    fn of(number: u64) -> Self {
        let mut point = [4; 65];
        point[57..].copy_from_slice(&number.to_be_bytes());
        Self(point)
    }
}

impl PublicKeyData for NumberedKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl SigningKey for NumberedKey {
    fn sign(&self, _: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.0[57..].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: Validity = Validity { not_before: 1_800_000_000_000, not_after: 1_831_536_000_000 };

    #[test]
    fn one_number_gives_one_certificate_and_another_number_another() {
        let ca = authority("ca of demo", 1, YEAR);
        assert_eq!(ca, authority("ca of demo", 1, YEAR));
        assert_ne!(ca, authority("ca of demo", 2, YEAR));
        assert_eq!(read(&ca.key), (1, "ca of demo".to_owned()));
        let names = ["demo-0.demo".to_owned()];
        let server = leaf(&ca.key, "server", &names, 3, YEAR);
        assert_eq!(server, leaf(&ca.key, "server", &names, 3, YEAR));
        assert!(server.cert.starts_with("-----BEGIN CERTIFICATE-----"));
    }

    #[test]
    fn a_leaf_is_verified_by_the_number_of_the_key_that_signed_it() {
        let der = |pair: &Pair| pem::parse(&pair.cert).unwrap().into_contents();
        let [ca, other] = [1, 2].map(|number| authority("ca of demo", number, YEAR));
        let server = leaf(&ca.key, "server", &[], 3, YEAR);
        assert_eq!(verify(&der(&ca), Some(&der(&server))), Ok(()));
        assert!(verify(&der(&other), Some(&der(&server))).is_err());
        let unknown = authority("ca of demo", UNKNOWN_TO_OPERATORS, YEAR);
        assert!(verify(&der(&unknown), None).is_err());
    }
}
