//! Bytes as a Kubernetes quantity.

/// The shortest way to write so many bytes: `8Gi`, not `8589934592`.
pub(crate) fn of(bytes: u64) -> String {
    let suffixes = [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
    let whole = suffixes.into_iter().find(|(power, _)| bytes > 0 && bytes.is_multiple_of(1 << power));
    whole.map_or_else(|| bytes.to_string(), |(power, suffix)| format!("{}{suffix}", bytes >> power))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    use super::*;

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
            assert_eq!(of(bytes), text);
            assert_eq!(quorate_api::quantity::bytes(&Quantity(text.to_owned())), Some(bytes));
        }
    }
}
