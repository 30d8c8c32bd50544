//! Rows of Secrets, ConfigMaps and ServiceAccounts.

use jiff::Timestamp;
use quorate_apistore::fields::{entries, items, name, text, time};
use serde_json::{Value, json};

use super::age;
use super::columns::{BuiltIn, number, text as shown};

pub(super) const SECRETS: BuiltIn =
    BuiltIn { columns: &[shown("Name"), shown("Type"), number("Data"), shown("Age")], cells: secret };

pub(super) const CONFIG_MAPS: BuiltIn =
    BuiltIn { columns: &[shown("Name"), number("Data"), shown("Age")], cells: config_map };

pub(super) const SERVICE_ACCOUNTS: BuiltIn =
    BuiltIn { columns: &[shown("Name"), number("Secrets"), shown("Age")], cells: service_account };

fn secret(secret: &Value, now: Timestamp) -> Vec<Value> {
    let kind = text(secret, "/type");
    let data = entries(secret, "/data").count();
    vec![
        json!(name(secret)),
        json!(if kind.is_empty() { "Opaque" } else { kind }),
        json!(data),
        old(secret, now),
    ]
}

fn config_map(map: &Value, now: Timestamp) -> Vec<Value> {
    let data = entries(map, "/data").count() + entries(map, "/binaryData").count();
    vec![json!(name(map)), json!(data), old(map, now)]
}

fn service_account(account: &Value, now: Timestamp) -> Vec<Value> {
    vec![json!(name(account)), json!(items(account, "/secrets").len()), old(account, now)]
}

fn old(object: &Value, now: Timestamp) -> Value {
    json!(age::since(time(object, "/metadata/creationTimestamp"), now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_how_many_keys_it_has_and_never_their_values() {
        let ca = json!({ "metadata": { "name": "demo-ca" }, "type": "kubernetes.io/tls",
            "data": { "tls.crt": "Yg==", "tls.key": "Yg==" } });
        let row = secret(&ca, Timestamp::UNIX_EPOCH);
        assert_eq!(Value::from(row), json!(["demo-ca", "kubernetes.io/tls", 2, "<unknown>"]));
    }
}
