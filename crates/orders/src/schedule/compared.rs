//! What a restore test that passed has compared, in words: what was not compared, and why, is always said.

use quorate_api::job::{Compared, NoContents, Verified};

/// What can be compared, and its name.
const ALL: [(Compared, &str); 3] =
    [(Compared::Revision, "revision"), (Compared::Keys, "number of keys"), (Compared::Hash, "hash")];

/// What was compared, what was not, and why.
pub(crate) fn text(result: &Verified) -> String {
    let names = |are_compared: bool| {
        let those = ALL.iter().filter(|(one, _)| result.compared.contains(one) == are_compared);
        those.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
    };
    let (compared, others) = (names(true), names(false));
    if others.is_empty() {
        let alone = result.manifest.contents.as_ref().is_none_or(|contents| contents.confirmed_by.is_none());
        let member = &result.manifest.member;
        return if alone {
            format!("Compared with {member} alone, no other member confirmed it: {compared}")
        } else {
            format!("Compared: {compared}")
        };
    }
    let not = format!("Not compared: {others} ({})", why(result));
    if compared.is_empty() { not } else { format!("Compared: {compared}. {not}") }
}

/// Why not all was compared.
fn why(result: &Verified) -> &'static str {
    let manifest = &result.manifest;
    if result.compared.is_empty() {
        return if manifest.revision > 0 {
            "the Job reported no comparison"
        } else {
            "the store has no manifest of the backup"
        };
    }
    if manifest.contents.is_some() {
        return "etcd compacted its history while the backup was taken";
    }
    match manifest.no_contents {
        Some(NoContents::TooLarge) => "the database is larger than 2 GiB",
        Some(NoContents::NoOtherMember) => "no other member could confirm them, as in a cluster of size one",
        Some(NoContents::Compacting) => "the members compacted their history while the backup was taken",
        Some(NoContents::NoHash) => "a member returned no hash when the backup was taken",
        Some(NoContents::NoQuorum) => "the backup was taken without a quorum",
        Some(NoContents::Unknown) | None => "the manifest of the backup does not contain them",
    }
}

#[cfg(test)]
mod tests {
    use quorate_api::job::{Contents, LARGEST_HASHED, Manifest};

    use super::*;

    #[test]
    fn n08_no_restore_test_reads_like_a_full_comparison_that_was_none() {
        const FULL: [Compared; 3] = [Compared::Revision, Compared::Keys, Compared::Hash];
        type Told<'a> = Result<Option<&'a str>, Option<NoContents>>;
        let told = |compared: &[Compared], told: Told<'_>| {
            let contents =
                told.map(|other| Contents { confirmed_by: other.map(str::to_owned), ..Contents::default() });
            let manifest = Manifest {
                member: "demo-0".to_owned(),
                revision: 9,
                no_contents: contents.as_ref().err().copied().flatten(),
                contents: contents.ok(),
                ..Manifest::default()
            };
            text(&Verified { manifest, compared: compared.to_vec(), ..Verified::default() })
        };
        let confirmed = Ok(Some("demo-1"));
        assert_eq!(told(&FULL, confirmed), "Compared: revision, number of keys, hash");
        assert_eq!(
            told(&FULL, Ok(None)),
            "Compared with demo-0 alone, no other member confirmed it: revision, number of keys, hash"
        );
        assert_eq!(
            told(&FULL[..2], confirmed),
            "Compared: revision, number of keys. Not compared: hash (etcd compacted its history while the backup was taken)"
        );
        assert_eq!(
            told(&FULL[..1], confirmed),
            "Compared: revision. Not compared: number of keys, hash (etcd compacted its history while the backup was taken)"
        );
        assert_eq!(LARGEST_HASHED, 2 << 30);
        for (why, said) in [
            (Some(NoContents::TooLarge), "the database is larger than 2 GiB"),
            (
                Some(NoContents::NoOtherMember),
                "no other member could confirm them, as in a cluster of size one",
            ),
            (Some(NoContents::Compacting), "the members compacted their history while the backup was taken"),
            (Some(NoContents::NoHash), "a member returned no hash when the backup was taken"),
            (Some(NoContents::NoQuorum), "the backup was taken without a quorum"),
            (Some(NoContents::Unknown), "the manifest of the backup does not contain them"),
        ] {
            let expected = format!("Compared: revision. Not compared: number of keys, hash ({said})");
            assert_eq!(told(&FULL[..1], Err(why)), expected);
        }
        let earlier = "Compared: revision. Not compared: number of keys, hash (the manifest of the backup does not contain them)";
        assert_eq!(told(&FULL[..1], Err(None)), earlier, "of an earlier operator");
        let all = "Not compared: revision, number of keys, hash";
        assert_eq!(told(&[], Ok(None)), format!("{all} (the Job reported no comparison)"), "an older agent");
        assert_eq!(text(&Verified::default()), format!("{all} (the store has no manifest of the backup)"));
    }
}
