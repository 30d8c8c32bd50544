//! Whether the member that sends a snapshot has what the others have: each is asked for HashKV at one revision, one after the other, until two
//! agree. A member reads its whole database for that, and applies nothing meanwhile.

use std::time::Duration;

use quorate_api::job::{Contents, Failure, FailureKind, LARGEST_HASHED, NoContents};
use quorate_etcd::{CallError, Read};
use quorate_model::Revision;
use quorate_model::snapshot::KeysHash;

use crate::source::Candidate;
use crate::{Context, Result};

/// How often they are asked: hashes can be compared only where all have begun the same compaction.
const ROUNDS: u32 = 3;

/// Between two rounds: a compaction reaches all members with the entries of the log, and etcd removes some thousand revisions each 10 ms.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(5);

/// The contents of a member, or why they are not known.
pub(crate) type Told = std::result::Result<Contents, NoContents>;

/// The first candidate whose contents another one confirms, by its place, and the contents. It is an error if members that can be compared
/// differ, and no two agree. Where there is nobody to compare with, or no hash can be had, that alone says nothing against the data.
///
/// etcd serves neither reads nor writes at a member while it makes a hash. So the only follower is asked alone, and confirmed by nobody; the
/// leader is asked only to tell which of two followers is right; and nobody is in a cluster of one, or of a database that takes long.
pub(crate) async fn on_contents(
    candidates: &[Candidate<'_>],
    revision: Revision,
    context: &Context,
) -> Result<(usize, Told)> {
    if candidates.iter().any(|candidate| candidate.status.db_size > LARGEST_HASHED) {
        (context.log)(
            "the database is so large that a hash would stop its members for long: they are not compared",
        );
        return Ok((0, Err(NoContents::TooLarge)));
    }
    let mut round = 1;
    loop {
        let mut hashes: Vec<(usize, KeysHash)> = Vec::new();
        for (place, candidate) in candidates.iter().enumerate() {
            if candidate.status.is_leader() && hashes.len() < 2 {
                continue;
            }
            let hash = match ask(candidate, revision).await {
                Ok(hash) => hash,
                Err(error) => {
                    (context.log)(&format!(
                        "{} gives no hash at revision {revision}: {error}",
                        candidate.member
                    ));
                    // It goes on with the hash whose caller has left, and nobody else is stopped beside it.
                    return Ok((0, Err(NoContents::NoHash)));
                }
            };
            if let Some((first, found)) = hashes.iter().find(|(_, earlier)| is_same(earlier, &hash)) {
                let contents = contents(&candidates[*first], found, revision, Some(candidate.member)).await;
                return Ok((*first, contents));
            }
            hashes.push((place, hash));
        }
        match judge(&hashes) {
            Judged::Nobody => return Ok((0, Err(NoContents::NoOtherMember))),
            Judged::Alone(place, hash) => {
                return Ok((place, contents(&candidates[place], &hash, revision, None).await));
            }
            Judged::NotComparable | Judged::Differ if round < ROUNDS => {}
            Judged::NotComparable => {
                (context.log)("the members compact their history: what they have cannot be compared now");
                return Ok((0, Err(NoContents::Compacting)));
            }
            Judged::Differ => {
                let of = |(place, hash): &(usize, KeysHash)| {
                    format!("{} has hash {:08x}", candidates[*place].member, hash.hash)
                };
                let each = hashes.iter().map(of).collect::<Vec<_>>().join(", ");
                let message = format!(
                    "the members have different data at revision {revision}, and no two of them agree: {each}. Find out which are right \
                     before you rely on any (runbook: DataInconsistent)"
                );
                return Err(Failure::new(FailureKind::NoSource, message));
            }
        }
        round += 1;
        tokio::time::sleep(BETWEEN_ROUNDS).await;
    }
}

/// What the hashes of a round say, no two of which are the same.
#[derive(Debug, PartialEq, Eq)]
enum Judged {
    /// Nobody was asked.
    Nobody,
    /// Nobody to compare with: the member at this place.
    Alone(usize, KeysHash),
    /// Each stands for another history.
    NotComparable,
    /// Two that can be compared differ.
    Differ,
}

fn judge(hashes: &[(usize, KeysHash)]) -> Judged {
    match hashes {
        [] => Judged::Nobody,
        [(place, hash)] => Judged::Alone(*place, *hash),
        [..] => {
            let differs = |(at, (_, one)): (usize, &(usize, KeysHash))| {
                hashes[..at].iter().any(|(_, other)| other.compacted == one.compacted)
            };
            if hashes.iter().enumerate().any(differs) { Judged::Differ } else { Judged::NotComparable }
        }
    }
}

/// Its hash, after it has applied all that the revision has.
async fn ask(candidate: &Candidate<'_>, revision: Revision) -> std::result::Result<KeysHash, CallError> {
    candidate.client.revision(Read::Linearizable).await?;
    candidate.client.hash_kv(Some(revision)).await
}

fn is_same(one: &KeysHash, other: &KeysHash) -> bool {
    (one.hash, one.compacted) == (other.hash, other.compacted)
}

async fn contents(
    sender: &Candidate<'_>,
    hash: &KeysHash,
    revision: Revision,
    confirmed_by: Option<&str>,
) -> Told {
    let keys = sender.client.count_keys_at(revision).await.map_err(|_| NoContents::NoHash)?;
    Ok(Contents {
        keys,
        hash: hash.hash,
        compact_revision: hash.compacted.0,
        confirmed_by: confirmed_by.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use quorate_model::MemberId;

    use super::*;

    fn hash(hash: u32, compacted: i64) -> KeysHash {
        KeysHash {
            member_id: MemberId(1),
            hash,
            revision: Revision(9),
            compacted: Revision(compacted),
            latest: Revision(9),
        }
    }

    #[test]
    fn o09_members_differ_only_where_their_hashes_can_be_compared() {
        assert_eq!(judge(&[]), Judged::Nobody);
        assert_eq!(judge(&[(2, hash(7, 0))]), Judged::Alone(2, hash(7, 0)));
        assert_eq!(judge(&[(0, hash(7, 0)), (1, hash(8, 5))]), Judged::NotComparable);
        assert_eq!(judge(&[(0, hash(7, 0)), (1, hash(8, 5)), (2, hash(6, 0))]), Judged::Differ);
    }
}
