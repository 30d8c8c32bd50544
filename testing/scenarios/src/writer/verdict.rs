//! What must be true of acknowledged writes: each was reported by every watch, in order; and each key has the last one of them,
//! or a later one whose outcome the client does not know.

use std::collections::BTreeMap;

use super::journal::{Journal, Write};

/// What a member has under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) value: Vec<u8>,
    pub(super) revision: i64,
}

/// A line for each acknowledged write that a watch did not report, for each revision out of order, and for each event that no
/// writer caused.
pub(super) fn faults_of_watch(journal: &Journal, reported: &[(i64, Option<Write>)]) -> Vec<String> {
    let mut faults = Vec::new();
    for pair in reported.windows(2) {
        if pair[0].0 >= pair[1].0 {
            faults.push(format!("revision {} was reported after {}", pair[1].0, pair[0].0));
        }
    }
    let reported: BTreeMap<i64, Option<Write>> = reported.iter().copied().collect();
    for (revision, write) in &journal.acknowledged {
        match reported.get(revision) {
            Some(Some(seen)) if seen == write => {}
            seen => {
                let fault = format!("{write:?}, acknowledged at revision {revision}: {seen:?} was reported");
                faults.push(fault);
            }
        }
    }
    let begun = |write: &Write| journal.unknown.iter().any(|failure| failure.write == *write);
    for (revision, write) in &reported {
        if !journal.acknowledged.contains_key(revision) && !write.as_ref().is_some_and(begun) {
            faults.push(format!("at revision {revision} {write:?} was reported, which nobody wrote"));
        }
    }
    faults
}

/// A line for each key that has lost its last acknowledged write up to a revision. It may have a later one.
pub(super) fn lost(
    journal: &Journal,
    prefix: &str,
    stored: &BTreeMap<String, Stored>,
    up_to: i64,
) -> Vec<String> {
    let mut last: BTreeMap<String, (i64, Write)> = BTreeMap::new();
    for (revision, write) in journal.acknowledged.range(..=up_to) {
        last.insert(write.key(prefix), (*revision, *write));
    }
    let unknown = || journal.unknown.iter().map(|failure| failure.write);
    let later = |revision| journal.acknowledged.get(&revision).copied().into_iter().chain(unknown());
    let mut lost = Vec::new();
    for (key, (revision, write)) in last {
        let found = stored.get(&key);
        let as_written = |found: &Stored| {
            found.revision == revision && found.value == write.value().as_bytes()
                || found.revision > revision
                    && later(found.revision)
                        .any(|later| later.key(prefix) == key && later.value().as_bytes() == found.value)
        };
        if !found.is_some_and(as_written) {
            lost.push(format!("{key}: {write:?} was acknowledged at revision {revision}; it has {found:?}"));
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn write(number: u64) -> Write {
        Write { writer: 1, number }
    }

    /// Writes 1, 2 and 65, which has the key of 1, are acknowledged at revisions 11, 12 and 14; 3 and 66 are unknown.
    fn journal() -> Journal {
        let now = Instant::now();
        let mut journal = Journal::new(now);
        for (number, revision) in [(1, 11), (2, 12), (65, 14)] {
            journal.acknowledge(write(number), revision, 2, now);
        }
        for number in [3, 66] {
            journal.fail(write(number), now, "lost".to_owned());
        }
        journal
    }

    fn stored(one: (u64, i64), two: (u64, i64)) -> BTreeMap<String, Stored> {
        [one, two]
            .map(|(number, revision)| {
                (write(number).key("w/"), Stored { value: write(number).value().into_bytes(), revision })
            })
            .into()
    }

    #[test]
    fn an_acknowledged_write_that_is_missing_or_old_is_lost() {
        let lost = |stored| lost(&journal(), "w/", &stored, i64::MAX);
        assert_eq!(lost(stored((65, 14), (2, 12))), [""; 0]);
        // An unknown write may have taken effect, also late.
        assert_eq!(lost(stored((65, 14), (66, 15))), [""; 0]);
        assert_eq!(lost(stored((1, 11), (2, 12))).len(), 1);
        assert_eq!(lost(stored((65, 14), (66, 11))).len(), 1, "older than what was acknowledged");
        assert_eq!(lost(BTreeMap::new()).len(), 2);
    }

    #[test]
    fn what_is_restored_has_the_last_write_up_to_its_revision() {
        let lost = |stored, up_to| super::lost(&journal(), "w/", &stored, up_to).len();
        assert_eq!(lost(stored((1, 11), (2, 12)), 13), 0);
        assert_eq!(lost(stored((1, 11), (2, 12)), 14), 1);
        // A snapshot has at least the revision that it is said to have.
        assert_eq!(lost(stored((65, 14), (2, 12)), 13), 0);
        assert_eq!(lost(stored((65, 15), (2, 12)), 13), 1, "nobody wrote it then");
        assert_eq!(lost(BTreeMap::new(), 11), 1);
    }

    #[test]
    fn a_watch_reports_every_acknowledged_write_in_order() {
        let faults = |reported: &[(i64, u64)]| {
            let reported: Vec<_> =
                reported.iter().map(|(revision, number)| (*revision, Some(write(*number)))).collect();
            faults_of_watch(&journal(), &reported).len()
        };
        assert_eq!(faults(&[(11, 1), (12, 2), (14, 65)]), 0);
        assert_eq!(faults(&[(11, 1), (12, 2), (13, 3), (14, 65)]), 0, "an unknown write took effect");
        assert_eq!(faults(&[(11, 1), (14, 65)]), 1, "a gap");
        assert_eq!(faults(&[(12, 2), (11, 1), (14, 65)]), 1, "out of order");
        assert_eq!(faults(&[(11, 1), (12, 65), (14, 2)]), 2, "others' values");
        assert_eq!(faults(&[(11, 1), (12, 2), (13, 4), (14, 65)]), 1, "nobody wrote it");
    }
}
