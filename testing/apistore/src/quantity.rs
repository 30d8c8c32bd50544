//! Kubernetes' resource quantities (`500m`, `2Gi`, `1e3`) as numbers that can be compared and added.
//!
//! `kube_quantity` is not used: its integers are whole units, while CPUs are counted in thousandths, and it brings
//! k8s-openapi, nom and a decimal type.

use serde_json::Value;

/// A quantity in thousandths, so that `250m` of a CPU is an integer. `None` if it is not a quantity.
pub fn millis(quantity: &Value) -> Option<i128> {
    match quantity {
        Value::Number(number) => parse(&number.to_string()),
        Value::String(text) => parse(text),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn parse(text: &str) -> Option<i128> {
    let text = text.trim();
    let digits = text.trim_start_matches(['+', '-']);
    let end = digits
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(digits.len());
    let (number, suffix) = digits.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (multiplier, divisor) = scale(suffix)?;
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let shift = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?.checked_mul(divisor)?;
    // Kubernetes rounds up to a thousandth.
    let scaled = mantissa.checked_mul(multiplier)?.checked_mul(1000)?;
    let value = scaled / shift + i128::from(scaled % shift > 0);
    Some(if text.starts_with('-') { -value } else { value })
}

/// The multiplier and the divisor of a suffix.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    let binary = |power: u32| Some((1024_i128.pow(power), 1));
    let decimal = |power: u32| Some((1000_i128.pow(power), 1));
    match suffix {
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1000)),
        "" => Some((1, 1)),
        "k" => decimal(1),
        "M" => decimal(2),
        "G" => decimal(3),
        "T" => decimal(4),
        "P" => decimal(5),
        "E" => decimal(6),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let factor = 10_i128.checked_pow(power.unsigned_abs()).filter(|_| power.unsigned_abs() <= 18)?;
            Some(if power < 0 { (1, factor) } else { (factor, 1) })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_read_as_kubernetes_reads_them() {
        let table = [
            (json!("250m"), Some(250)),
            (json!("1"), Some(1000)),
            (json!(2), Some(2000)),
            (json!("0.5"), Some(500)),
            (json!(".5"), Some(500)),
            (json!("1Ki"), Some(1_024_000)),
            (json!("1.5Gi"), Some(1_610_612_736_000)),
            (json!("1e3"), Some(1_000_000)),
            (json!("100u"), Some(1)),
            (json!("-3"), Some(-3000)),
            (json!("1Gb"), None),
            (json!("Gi"), None),
            (json!(""), None),
            (json!("1e99"), None),
        ];
        for (quantity, expected) in table {
            assert_eq!(millis(&quantity), expected, "{quantity}");
        }
    }
}
