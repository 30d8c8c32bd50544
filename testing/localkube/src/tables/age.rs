//! Ages, rounded as Kubernetes' `duration.HumanDuration` does.

use jiff::Timestamp;

/// The time since `then`: `5s`, `3m20s`, `7h5m`, `12d`; `<unknown>` without a time.
pub fn since(then: Option<Timestamp>, now: Timestamp) -> String {
    then.map_or_else(|| "<unknown>".to_owned(), |then| human(now.as_second() - then.as_second()))
}

/// A number of seconds in at most two units; the smaller one only where it matters.
pub fn human(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        // Clocks of two machines differ by a little: that is "now", not invalid.
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_round_as_in_kubectl() {
        let table = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (25_500, "7h5m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (86_400 * 8, "8d"),
            (86_400 * 800, "2y70d"),
            (86_400 * 365 * 9, "9y"),
        ];
        for (seconds, text) in table {
            assert_eq!(human(seconds), text, "{seconds} s");
        }
        assert_eq!(since(None, Timestamp::UNIX_EPOCH), "<unknown>");
    }
}
