//! Durations as the spec has them: `365d`, `30d12h`, `168h`, `1h30m`, `45s`.

/// The seconds of a duration; `None` if it is none.
pub fn seconds(text: &str) -> Option<u64> {
    let (mut rest, mut total) = (text, 0_u64);
    for (unit, factor) in [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)] {
        if let Some((number, after)) = rest.split_once(unit) {
            total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(factor)?)?;
            rest = after;
        }
    }
    (rest.is_empty() && !text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_days_hours_minutes_and_seconds_in_this_order() {
        assert_eq!(seconds("30d12h"), Some(2_635_200));
        assert_eq!(seconds("8760h0m0s"), Some(31_536_000));
        assert_eq!(seconds("168h"), Some(604_800));
        assert_eq!(seconds("1h30m5s"), Some(5405));
        assert_eq!(seconds("0s"), Some(0));
        for wrong in ["", "10", "h", "5m1h", "1h1d", "-1h", "99999999999999999999h"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
