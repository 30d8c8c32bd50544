//! Request bodies in protobuf: `kubectl create` and `kubectl auth can-i` send nothing else, whatever the server
//! prefers.
//!
//! Only the kinds that these commands create are known (see [`shapes`]). An unknown field with a value is refused
//! rather than lost. Answers are always JSON, which these clients accept. The messages are a table of tags rather than
//! types generated from `generated.proto`, because they become JSON and seven kinds suffice.

mod shapes;
mod wire;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use shapes::{Field, Shape};
use wire::{Datum, fields};

/// Why a body cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DecodeError {
    /// It is no protobuf, or has no Kubernetes envelope.
    #[error("the body is not a Kubernetes object in protobuf")]
    Malformed,
    /// A kind or field that can only be sent in JSON or YAML.
    #[error("{0} can be read in JSON and YAML only: use kubectl apply -f, or kubectl create -f")]
    Unknown(String),
}

/// Decodes an object from its envelope: a magic number, type metadata, the object.
pub fn decode(body: &[u8]) -> Result<Value, DecodeError> {
    let envelope = body.strip_prefix(b"k8s\0").ok_or(DecodeError::Malformed)?;
    let (mut version, mut kind, mut raw) = (String::new(), String::new(), None);
    for (tag, datum) in fields(envelope)? {
        match (tag, datum) {
            (1, Datum::Bytes(meta)) => {
                for (tag, datum) in fields(meta)? {
                    match tag {
                        1 => version = text(&datum)?,
                        2 => kind = text(&datum)?,
                        _ => {}
                    }
                }
            }
            (2, Datum::Bytes(bytes)) => raw = Some(bytes),
            (_, _) => {}
        }
    }
    let shape =
        shapes::of(&version, &kind).ok_or_else(|| DecodeError::Unknown(format!("{version} {kind} here")))?;
    let mut object = message(shape, raw.ok_or(DecodeError::Malformed)?)?;
    object.insert("apiVersion".to_owned(), json!(version));
    object.insert("kind".to_owned(), json!(kind));
    Ok(Value::Object(object))
}

fn message(shape: &[Field], bytes: &[u8]) -> Result<Map<String, Value>, DecodeError> {
    let mut object = Map::new();
    for (tag, datum) in fields(bytes)? {
        let Some(field) = shape.iter().find(|field| field.tag == tag) else {
            if datum.is_empty() {
                continue;
            }
            return Err(DecodeError::Unknown(format!("field {tag} beside {:?}", names(shape))));
        };
        match &field.shape {
            Shape::ServerOnly => {}
            Shape::Map(of) => {
                let (key, value) = entry(of, &datum)?;
                let map = object.entry(field.name).or_insert_with(|| json!({}));
                map[key] = value;
            }
            Shape::List(of) => {
                let value = single(of, &datum)?;
                if let Some(list) = object.entry(field.name).or_insert_with(|| json!([])).as_array_mut() {
                    list.push(value);
                }
            }
            of => {
                // Go writes every field, also empty ones.
                let value = single(of, &datum)?;
                let empty = [json!(""), json!(0), json!(false), json!({})].contains(&value);
                if !empty || matches!(of, Shape::IntOrString) {
                    object.insert(field.name.to_owned(), value);
                }
            }
        }
    }
    Ok(object)
}

fn single(shape: &Shape, datum: &Datum<'_>) -> Result<Value, DecodeError> {
    match shape {
        Shape::Text => text(datum).map(Value::from),
        Shape::Bytes => Ok(json!(STANDARD.encode(datum.bytes()?))),
        Shape::Flag => Ok(json!(datum.number()? != 0)),
        Shape::Number => Ok(json!(datum.number()?)),
        Shape::Message(shape) => message(shape, datum.bytes()?).map(Value::Object),
        Shape::IntOrString => int_or_string(datum.bytes()?),
        Shape::ServerOnly | Shape::Map(_) | Shape::List(_) => Err(DecodeError::Malformed),
    }
}

fn entry(of: &Shape, datum: &Datum<'_>) -> Result<(String, Value), DecodeError> {
    let (mut key, mut value) = (String::new(), json!(""));
    for (tag, datum) in fields(datum.bytes()?)? {
        match tag {
            1 => key = text(&datum)?,
            2 => value = single(of, &datum)?,
            _ => return Err(DecodeError::Malformed),
        }
    }
    Ok((key, value))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, DecodeError> {
    let (mut is_text, mut number, mut string) = (false, 0, String::new());
    for (tag, datum) in fields(bytes)? {
        match tag {
            1 => is_text = datum.number()? == 1,
            2 => number = datum.number()?,
            3 => string = text(&datum)?,
            _ => return Err(DecodeError::Malformed),
        }
    }
    Ok(if is_text { json!(string) } else { json!(number) })
}

fn text(datum: &Datum<'_>) -> Result<String, DecodeError> {
    std::str::from_utf8(datum.bytes()?).map(str::to_owned).map_err(|_| DecodeError::Malformed)
}

fn names(shape: &[Field]) -> Vec<&str> {
    shape.iter().map(|field| field.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A length-delimited field.
    fn part(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag << 3 | 2, u8::try_from(content.len()).unwrap()];
        bytes.extend(content);
        bytes
    }

    fn envelope(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [part(1, version.as_bytes()), part(2, kind.as_bytes())].concat();
        [b"k8s\0".to_vec(), part(1, &meta), part(2, raw), part(3, b""), part(4, b"")].concat()
    }

    #[test]
    fn a_namespace_as_kubectl_creates_it_is_read() {
        // The name, then empty fields as Go writes them, then a status, which only the server sets.
        let metadata = [part(1, b"team"), part(2, b""), part(3, b""), vec![7 << 3, 0], part(8, b"")].concat();
        let raw = [part(1, &metadata), part(2, b""), part(3, &part(1, b""))].concat();
        let object = decode(&envelope("v1", "Namespace", &raw)).unwrap();
        assert_eq!(
            object,
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "team" } })
        );
    }

    #[test]
    fn maps_of_texts_and_bytes_are_read() {
        let data = part(2, &[part(1, b"key"), part(2, b"value")].concat());
        let config = decode(&envelope("v1", "ConfigMap", &data)).unwrap();
        assert_eq!(config["data"], json!({ "key": "value" }));
        let secret = decode(&envelope("v1", "Secret", &data)).unwrap();
        assert_eq!(secret["data"], json!({ "key": "dmFsdWU=" }), "bytes are base64 in JSON");
    }

    #[test]
    fn a_bound_is_an_integer_or_a_percentage() {
        let budget = |bound: Vec<u8>| {
            let raw = part(2, &part(1, &bound));
            decode(&envelope("policy/v1", "PodDisruptionBudget", &raw)).unwrap()["spec"]["minAvailable"]
                .clone()
        };
        assert_eq!(budget([vec![1 << 3, 0, 2 << 3, 2], part(3, b"")].concat()), 2);
        assert_eq!(budget([vec![1 << 3, 0, 2 << 3, 0], part(3, b"")].concat()), 0);
        assert_eq!(budget([vec![1 << 3, 1, 2 << 3, 0], part(3, b"50%")].concat()), "50%");
    }

    #[test]
    fn unknown_kinds_and_fields_are_refused() {
        let owner = part(1, &part(13, &part(3, b"owner")));
        assert!(matches!(decode(&envelope("v1", "ConfigMap", &owner)), Err(DecodeError::Unknown(_))));
        assert!(matches!(decode(&envelope("v1", "Pod", b"")), Err(DecodeError::Unknown(_))));
    }

    #[test]
    fn truncated_and_malformed_bodies_are_refused() {
        let whole = envelope("v1", "Namespace", &part(1, &part(1, b"team")));
        for length in 0..whole.len() - 4 {
            assert!(decode(&whole[..length]).is_err(), "{length} bytes");
        }
        assert_eq!(decode(b"{}"), Err(DecodeError::Malformed));
    }
}
