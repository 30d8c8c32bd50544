//! A number that stands for some texts, the same in every run: for names that the real control plane draws by lot.

/// FNV-1a over the texts, with a mark between them.
pub(crate) fn fingerprint(texts: &[&str]) -> u64 {
    texts
        .iter()
        .flat_map(|text| text.bytes().chain([0]))
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
