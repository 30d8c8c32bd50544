//! The operator's own counters.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Requests to the API server, by verb, kind and code.
pub const API_REQUESTS: &str = "quorate_api_requests_total";

/// Calls to members, by method and outcome.
pub const ETCD_CALLS: &str = "quorate_etcd_calls_total";

/// The operator's metrics at one moment, by series.
#[derive(Clone, Debug, Default)]
pub struct Counts(BTreeMap<String, f64>);

impl Counts {
    /// Reads them from an operator.
    pub async fn scrape(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await;
        let mut stream = stream.with_context(|| format!("no metrics on {address}"))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await?;
        ensure!(reply.starts_with("HTTP/1.0 200") || reply.starts_with("HTTP/1.1 200"), "metrics: {reply}");
        let counts = Self::of(&reply);
        // A running operator has listed something, so this fails if the counter has another name.
        counts.demand(API_REQUESTS)?;
        Ok(counts)
    }

    /// Fails unless something was counted there.
    pub fn demand(&self, counter: &str) -> Result<()> {
        let counted = self.0.keys().any(|series| series.starts_with(counter));
        ensure!(counted, "the operator does not count {counter}");
        Ok(())
    }

    /// The series of a counter that have grown, and by how much.
    pub fn since(&self, before: &Self, counter: &str) -> BTreeMap<&str, f64> {
        let of = self.0.iter().filter(|(series, _)| series.starts_with(counter));
        of.map(|(series, value)| (series.as_str(), value - before.0.get(series).unwrap_or(&0.0)))
            .filter(|(_, more)| *more > 0.0)
            .collect()
    }

    fn of(text: &str) -> Self {
        let series = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        };
        Self(text.lines().filter_map(series).collect())
    }
}

/// The value of a label of a series.
pub fn label<'a>(series: &'a str, name: &str) -> Option<&'a str> {
    let (_, labels) = series.split_once('{')?;
    let mut pairs = labels.trim_end_matches('}').split(',').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_counted_by_series() {
        let before =
            Counts::of("# TYPE a counter\na_total{verb=\"get\",kind=\"pods\"} 2\na_total{verb=\"list\"} 1\n");
        let after = Counts::of(
            "a_total{verb=\"get\",kind=\"pods\"} 5\na_total{verb=\"list\"} 1\na_total{verb=\"watch\"} 4\nb_total 9\n",
        );
        let more: Vec<_> = after.since(&before, "a_total").into_iter().collect();
        assert_eq!(more, [(r#"a_total{verb="get",kind="pods"}"#, 3.0), (r#"a_total{verb="watch"}"#, 4.0)]);
        assert_eq!(label(more[0].0, "kind"), Some("pods"));
        assert_eq!(label(more[1].0, "kind"), None);
        assert!(after.demand("b_total").is_ok() && after.demand("c_total").is_err());
    }
}
