//! `spec.maintenance`. The CRD refuses what cannot be read; with an older CRD that counts as absent, and so as never.

use quorate_api::EtcdCluster;
use quorate_api::cluster::DefragSpec;
use quorate_api::quantity::bytes;
use quorate_model::snapshot::{Maintenance, Threshold, Window};

pub(super) fn read(cluster: &EtcdCluster) -> Maintenance {
    let spec = &cluster.spec.maintenance;
    let defrag = spec.defrag.as_ref().filter(|defrag| defrag.enabled).and_then(threshold);
    Maintenance { no_space_remedy: spec.no_space_remedy, defrag }
}

fn threshold(defrag: &DefragSpec) -> Option<Threshold> {
    let window = match &defrag.window {
        Some(text) => Some(window(text)?),
        None => None,
    };
    Some(Threshold {
        min_free_percent: percent(&defrag.min_free_ratio)?,
        min_free_bytes: bytes(&defrag.min_free_bytes)?,
        window,
    })
}

/// `0.5` is 50, `.05` is 5.
fn percent(ratio: &str) -> Option<u64> {
    let (whole, digits) = ratio.split_once('.')?;
    if !matches!(whole, "" | "0") || digits.is_empty() || digits.len() > 2 {
        return None;
    }
    format!("{digits:0<2}").parse().ok()
}

fn window(text: &str) -> Option<Window> {
    let (from, to) = text.split_once('-')?;
    Some(Window { from: minute(from)?, to: minute(to)? })
}

fn minute(time: &str) -> Option<u16> {
    let (hours, minutes) = time.split_once(':')?;
    let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_never_done() {
        assert_eq!([percent("0.5"), percent(".25"), percent("0.05")], [Some(50), Some(25), Some(5)]);
        assert_eq!([percent("1"), percent("1.0"), percent("0.")], [None; 3]);
        assert_eq!(window("02:00-05:30"), Some(Window { from: 120, to: 330 }));
        assert_eq!([window("2-5"), window("25:00-05:00"), window("02:00")], [None; 3]);
    }
}
