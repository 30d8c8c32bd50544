//! Kubernetes quantities as whole bytes, and back.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The bytes of a quantity such as `1Gi`, `1.5G`, `1e9` or `1024`, rounded up as Kubernetes rounds; `None` if it is not a
/// quantity, is negative or does not fit.
pub fn bytes(quantity: &Quantity) -> Option<u64> {
    let text = quantity.0.as_str();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let decimals = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let (times, per) = scale(suffix)?;
    let bytes = digits.checked_mul(times)?.div_ceil(decimals.checked_mul(per)?);
    u64::try_from(bytes).ok().filter(|bytes| i64::try_from(*bytes).is_ok())
}

/// The shortest way to write so many bytes: `8Gi`, not `8589934592`.
pub fn text(bytes: u64) -> String {
    let suffixes = [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
    let whole = suffixes.into_iter().find(|(power, _)| bytes > 0 && bytes.is_multiple_of(1 << power));
    whole.map_or_else(|| bytes.to_string(), |(power, suffix)| format!("{}{suffix}", bytes >> power))
}

/// So many bytes for people, rounded up to one place: `1.3Gi`. It reads back as a quantity.
pub fn rounded(bytes: u64) -> String {
    let suffixes = [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
    let Some((power, suffix)) = suffixes.into_iter().find(|(power, _)| bytes >= 1 << power) else {
        return bytes.to_string();
    };
    let tenths = (u128::from(bytes) * 10).div_ceil(1 << power);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole}{suffix}"),
        (whole, tenth) => format!("{whole}.{tenth}{suffix}"),
    }
}

/// What a suffix multiplies by, and divides by.
fn scale(suffix: &str) -> Option<(u128, u128)> {
    let binary = |power: u32| Some((1 << (10 * power), 1));
    let decimal = |power: u32| Some((10_u128.checked_pow(power)?, 1));
    match suffix {
        "" => Some((1, 1)),
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1_000)),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => match suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()? {
            power @ 0.. => decimal(power.unsigned_abs()),
            power => Some((1, 10_u128.checked_pow(power.unsigned_abs())?)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<u64> {
        bytes(&Quantity(text.to_owned()))
    }

    #[test]
    fn quantities_become_bytes_as_kubernetes_reads_them() {
        for (text, desired) in [
            ("0", 0),
            ("1024", 1024),
            ("1Ki", 1024),
            ("1.5Gi", 1_610_612_736),
            ("2G", 2_000_000_000),
            ("1e3", 1000),
            ("5E-1", 1),
            ("1500m", 2),
            (".5Mi", 524_288),
            ("7Ei", 7 << 60),
        ] {
            assert_eq!(parsed(text), Some(desired), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_of_bytes_is_refused() {
        for text in ["", ".", "Gi", "-1Gi", "1GiB", "1 Gi", "1.2.3", "8Ei", "1e99", "1e-99", "ten"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_for_people_have_one_place() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1Ki"),
            (1025, "1.1Ki"),
            (1_395_864_372, "1.4Gi"),
            (3 << 20, "3Mi"),
        ] {
            assert_eq!(rounded(bytes), text);
        }
    }

    #[test]
    fn bytes_are_written_short_and_read_back_the_same() {
        for (bytes, text) in [
            (0, "0"),
            (1, "1"),
            (1023, "1023"),
            (1024, "1Ki"),
            (8 << 30, "8Gi"),
            (3 << 29, "1536Mi"),
            (5 << 40, "5Ti"),
        ] {
            assert_eq!(super::text(bytes), text);
            assert_eq!(parsed(text), Some(bytes));
        }
    }
}
