//! The files that Prometheus and Alertmanager read, made of those that are shipped.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// The rules, with every time that an alert must hold, and every range, divided by this.
pub(super) fn rules(shipped: &str, faster: u32) -> Result<String> {
    let mut rules: Value = serde_yaml_ng::from_str(shipped)?;
    for rule in
        list(&mut rules["groups"])?.iter_mut().filter_map(|group| group["rules"].as_array_mut()).flatten()
    {
        if let Some(hold) = rule["for"].as_str() {
            rule["for"] = json!(divided(hold, faster)?);
        }
        let expression = rule["expr"].as_str().context("a rule without an expression")?;
        rule["expr"] = json!(with_ranges_divided(expression, faster)?);
    }
    Ok(serde_yaml_ng::to_string(&rules)?)
}

/// A configuration with the shipped jobs, which find Pods in this file.
pub(super) fn prometheus(
    shipped: &str,
    wait: Duration,
    targets: &str,
    alertmanager: SocketAddr,
) -> Result<String> {
    let mut config: Value = serde_yaml_ng::from_str(shipped)?;
    for job in list(&mut config["scrape_configs"])? {
        let job = job.as_object_mut().context("not a job")?;
        let discovery = job.remove("kubernetes_sd_configs");
        ensure!(
            discovery == Some(json!([{"role": "pod"}])),
            "another discovery than that of Pods: {discovery:?}"
        );
        job.insert(
            "file_sd_configs".to_owned(),
            json!([{"files": [targets], "refresh_interval": interval(wait)}]),
        );
    }
    let wait = interval(wait);
    config["global"] = json!({"scrape_interval": wait, "scrape_timeout": wait, "evaluation_interval": wait});
    config["rule_files"] = json!(["rules.yml"]);
    let targets = json!([{"targets": [alertmanager.to_string()]}]);
    config["alerting"] = json!({"alertmanagers": [{"static_configs": targets}]});
    Ok(serde_yaml_ng::to_string(&config)?)
}

/// One route, to this address: each alert by itself, at once, also when it is over.
pub(super) fn alertmanager(url: &str) -> Result<String> {
    let config = json!({
        "route": {
            "receiver": "test", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s", "repeat_interval": "1h",
        },
        "receivers": [{"name": "test", "webhook_configs": [{"url": url, "send_resolved": true}]}],
    });
    Ok(serde_yaml_ng::to_string(&config)?)
}

fn interval(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

fn list(value: &mut Value) -> Result<&mut Vec<Value>> {
    value.as_array_mut().context("not a list")
}

/// Every `[5m]` of an expression, divided.
fn with_ranges_divided(expression: &str, faster: u32) -> Result<String> {
    let mut parts = expression.split('[');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (range, rest) = part.split_once(']').context("a range without an end")?;
        whole = format!("{whole}[{}]{rest}", divided(range, faster)?);
    }
    Ok(whole)
}

/// A duration as Prometheus writes it, with one unit.
fn divided(duration: &str, faster: u32) -> Result<String> {
    let (number, unit) = duration.split_at(duration.find(|c: char| !c.is_ascii_digit()).unwrap_or(0));
    let number: u64 = number.parse().with_context(|| format!("{duration} is no duration"))?;
    let milliseconds = match unit {
        "s" => number * 1_000,
        "m" => number * 60_000,
        "h" => number * 3_600_000,
        _ => bail!("{duration} is no duration of seconds, minutes or hours"),
    };
    Ok(format!("{}ms", milliseconds / u64::from(faster)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_ranges_are_divided_and_limits_are_not() {
        let shipped = "groups: [{name: a, rules: [{alert: b, expr: 'rate(x[5m]) > 300 and max_over_time(y[1h]) == 1', for: 30m}]}]";
        let expected = "rate(x[10000ms]) > 300 and max_over_time(y[120000ms]) == 1";
        let rules: Value = serde_yaml_ng::from_str(&rules(shipped, 30).unwrap()).unwrap();
        let rule = &rules["groups"][0]["rules"][0];
        assert_eq!((&rule["for"], &rule["expr"]), (&json!("60000ms"), &json!(expected)));
    }

    #[test]
    fn a_range_that_cannot_be_divided_is_refused() {
        for range in ["5", "5w", "1h30m", "5m:1m", "m"] {
            divided(range, 30).unwrap_err();
        }
    }

    #[test]
    fn every_shipped_rule_can_be_divided() {
        let divided = rules(&super::super::shipped("monitoring/rules.yaml").unwrap(), 30).unwrap();
        assert!(divided.contains("[10000ms]") && !divided.contains("[5m]"), "{divided}");
    }
}
