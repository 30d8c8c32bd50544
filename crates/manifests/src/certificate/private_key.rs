//! Private keys as people and their tools write them: PKCS #8, PKCS #1 (RSA) and SEC 1 (ECDSA), without encryption. Nothing is computed:
//! all three have the public part, too.

use x509_parser::pem::Pem;

/// `rsaEncryption` and `id-ecPublicKey` (RFC 8017, RFC 5480).
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// The curves that the operator can sign on: P-256 and P-384 (RFC 5480).
const CURVES: [&[u8]; 2] =
    [&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], &[0x2b, 0x81, 0x04, 0x00, 0x22]];

/// The lengths of RSA keys that the operator can sign with, in bits: those of ring.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;

const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const OCTETS: u8 = 0x04;
const NULL: u8 = 0x05;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const FIRST: u8 = 0xa0;
const SECOND: u8 = 0xa1;

/// The public part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Public<'a> {
    Rsa { modulus: &'a [u8], exponent: &'a [u8] },
    Ec { curve: &'a [u8], point: &'a [u8] },
}

/// Whether the key (PEM) is that of this public key (`SubjectPublicKeyInfo`, DER), and one that the operator can sign with; why not.
pub(super) fn fits(key: &[u8], of: &[u8]) -> Result<(), String> {
    let (label, der) = block(key)?;
    let public = public_of(&label, &der)?;
    match public {
        Public::Rsa { modulus, exponent } => {
            let bits = modulus.len() * 8 - modulus.first().map_or(0, |first| first.leading_zeros() as usize);
            // ring refuses a smaller exponent than 65537.
            if !RSA_BITS.contains(&bits) || exponent.len() < 3 {
                return Err(format!(
                    "its key is RSA of {bits} bits; it has to have 2048 to 4096, and the exponent 65537"
                ));
            }
        }
        Public::Ec { curve, .. } if !CURVES.contains(&curve) => {
            return Err("its key is on another curve than P-256 and P-384".to_owned());
        }
        Public::Ec { .. } => {}
    }
    if of_certificate(of) == Some(public) {
        Ok(())
    } else {
        Err("its tls.key is not the key of its tls.crt".to_owned())
    }
}

/// The key as PEM of PKCS #8, the one form that the operator signs with. `None` if it cannot be read.
pub fn to_pkcs8(key: &str) -> Option<String> {
    let (label, der) = block(key.as_bytes()).ok()?;
    let algorithm = match label.as_str() {
        "RSA PRIVATE KEY" => [element(OID, RSA), element(NULL, &[])].concat(),
        "EC PRIVATE KEY" => {
            let Ok(Public::Ec { curve, .. }) = public_of(&label, &der) else { return None };
            [element(OID, EC), element(OID, curve)].concat()
        }
        _ => return Some(pem_of(&der)),
    };
    let parts = [element(INTEGER, &[0]), element(SEQUENCE, &algorithm), element(OCTETS, &der)].concat();
    Some(pem_of(&element(SEQUENCE, &parts)))
}

fn pem_of(der: &[u8]) -> String {
    let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new("PRIVATE KEY", der), lines)
}

/// The first private key of a PEM: what it is called, and its content.
fn block(pem: &[u8]) -> Result<(String, Vec<u8>), String> {
    let mut blocks = Pem::iter_from_buffer(pem).filter_map(Result::ok);
    let block = blocks.find(|block| block.label.ends_with("PRIVATE KEY"));
    let Some(block) = block else {
        // Such a header makes the block unreadable.
        let is_encrypted = String::from_utf8_lossy(pem)
            .lines()
            .any(|line| line.starts_with("Proc-Type:") && line.contains("ENCRYPTED"));
        return Err(if is_encrypted {
            "its tls.key is encrypted, which cannot be used: give it as PKCS #8 without a password".to_owned()
        } else {
            "its tls.key has no private key that can be read".to_owned()
        });
    };
    match block.label.as_str() {
        "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY" => Ok((block.label, block.contents)),
        other => Err(format!(
            "its tls.key is an {other}, which cannot be used: give it as PKCS #8 without a password"
        )),
    }
}

fn public_of<'a>(label: &str, der: &'a [u8]) -> Result<Public<'a>, String> {
    let unreadable = || "its tls.key is not readable".to_owned();
    let (kind, curve, inner) = match label {
        "RSA PRIVATE KEY" => (RSA, None, der),
        "EC PRIVATE KEY" => (EC, None, der),
        _ => pkcs8(der).ok_or_else(unreadable)?,
    };
    if kind == RSA {
        let [_, modulus, exponent] = elements(inner).ok_or_else(unreadable)?;
        return rsa(modulus, exponent).ok_or_else(unreadable);
    }
    if kind != EC {
        return Err("its key is neither RSA nor ECDSA".to_owned());
    }
    let (_, mut rest) = within(inner, SEQUENCE).ok_or_else(unreadable)?;
    let mut found = (curve, None);
    while let Some((tag, content, after)) = next(rest) {
        match tag {
            FIRST => found.0 = within(content, OID).map(|(_, curve)| curve).or(found.0),
            SECOND => found.1 = within(content, BITS).and_then(|(_, bits)| bits.strip_prefix(&[0])),
            _ => {}
        }
        rest = after;
    }
    match found {
        (Some(curve), Some(point)) => Ok(Public::Ec { curve, point }),
        (None, _) => Err("its tls.key names no curve".to_owned()),
        (_, None) => Err(
            "its tls.key lacks the public part, by which it is told whether it fits: openssl ec writes it"
                .to_owned(),
        ),
    }
}

/// Of a key: its algorithm, its curve, and its content.
type Parts<'a> = (&'a [u8], Option<&'a [u8]>, &'a [u8]);

/// The algorithm, the curve, and the key in PKCS #8 (RFC 5208).
fn pkcs8(der: &[u8]) -> Option<Parts<'_>> {
    let [(_, _), (SEQUENCE, algorithm), (OCTETS, inner)] = elements(der)? else { return None };
    let (OID, kind, rest) = next(algorithm)? else { return None };
    let curve = next(rest).filter(|(tag, ..)| *tag == OID).map(|(_, curve, _)| curve);
    Some((kind, curve, inner))
}

fn of_certificate(info: &[u8]) -> Option<Public<'_>> {
    let [(SEQUENCE, algorithm), (BITS, bits)] = elements(info)? else { return None };
    let key = bits.strip_prefix(&[0])?;
    let (OID, kind, rest) = next(algorithm)? else { return None };
    if kind == RSA {
        let [modulus, exponent] = elements(key)?;
        return rsa(modulus, exponent);
    }
    let (OID, curve, _) = next(rest).filter(|_| kind == EC)? else { return None };
    Some(Public::Ec { curve, point: key })
}

/// Without the zero that keeps a number from being negative.
fn rsa<'a>((_, modulus): (u8, &'a [u8]), (_, exponent): (u8, &'a [u8])) -> Option<Public<'a>> {
    let number = |bytes: &'a [u8]| bytes.strip_prefix(&[0]).unwrap_or(bytes);
    let (modulus, exponent) = (number(modulus), number(exponent));
    (!modulus.is_empty()).then_some(Public::Rsa { modulus, exponent })
}

/// The first elements of a sequence.
fn elements<const N: usize>(der: &[u8]) -> Option<[(u8, &[u8]); N]> {
    let (_, mut rest) = within(der, SEQUENCE)?;
    let mut found = [(0, der); N];
    for place in &mut found {
        let (tag, content, after) = next(rest)?;
        (*place, rest) = ((tag, content), after);
    }
    Some(found)
}

fn within(der: &[u8], wanted: u8) -> Option<(u8, &[u8])> {
    next(der).filter(|(tag, ..)| *tag == wanted).map(|(tag, content, _)| (tag, content))
}

/// The tag and the content of the first element (DER), and what follows it.
fn next(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, length, rest @ ..] = der else { return None };
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let bytes = length.to_be_bytes();
    let used: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
    let length = match used.as_slice() {
        [] => vec![0],
        [short] if *short < 0x80 => used,
        // A key has some thousand bytes at most.
        [_] => [vec![0x81], used].concat(),
        _ => [vec![0x82], used].concat(),
    };
    [vec![tag], length, content.to_vec()].concat()
}
