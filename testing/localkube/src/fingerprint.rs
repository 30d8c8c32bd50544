//! A hash of texts that is the same in every run, for names that a real control plane generates randomly.

/// FNV-1a over the texts, with a separator between them.
pub(crate) fn fingerprint(texts: &[&str]) -> u64 {
    texts
        .iter()
        .flat_map(|text| text.bytes().chain([0]))
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
