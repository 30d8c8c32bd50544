//! Query parameters.

use quorate_apistore::ApiError;
use quorate_apistore::ResourceInfo;

use super::selector::Selector;

/// The parameters of a URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Self(decoded.collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(own, _)| own == key)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        self.0.iter().any(|(own, value)| own == key && ["true", "1", ""].contains(&value.as_str()))
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<u64>, ApiError> {
        let wrong = |text: &str| format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
        let parse = |text: &str| text.parse().map_err(|_| ApiError::bad_request(wrong(text)));
        self.get(key).map(parse).transpose()
    }

    /// The requested version; `None` for the latest.
    pub(super) fn version(&self) -> Result<Option<u64>, ApiError> {
        let wrong = |text: &str| {
            ApiError::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: \
                 invalid syntax"
            ))
        };
        let parse = |text: &str| text.parse().map_err(|_| wrong(text));
        Ok(self.get("resourceVersion").map(parse).transpose()?.filter(|version| *version != 0))
    }

    pub(super) fn dry_run(&self) -> bool {
        self.get("dryRun") == Some("All")
    }

    pub(super) fn selector(&self, info: &ResourceInfo) -> Result<Selector, ApiError> {
        let text = |key: &str| self.get(key).unwrap_or_default();
        Selector::parse(info, text("labelSelector"), text("fieldSelector"))
    }
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex =
            || std::str::from_utf8(tail.get(..2)?).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, hex()) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = tail;
            }
            (_, _) => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse("labelSelector=app%3Dx%2Cb&limit=5&watch&resourceVersion=0&a=b+c");
        assert_eq!(query.get("labelSelector"), Some("app=x,b"));
        assert_eq!(query.get("a"), Some("b c"));
        assert_eq!(query.number("limit"), Ok(Some(5)));
        assert_eq!(query.version(), Ok(None));
        assert!(query.flag("watch") && !query.dry_run());
        assert!(Query::parse("limit=x").number("limit").is_err());
    }
}
