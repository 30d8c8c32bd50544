//! Whether a claim has room for a snapshot, before a member begins to send it.

use quorate_api::job::{BackupOrder, Failure, FailureKind, Manifest};
use quorate_api::quantity;
use quorate_etcd::MemberStatus;

use crate::{Context, Result, Store};

/// Refuses a snapshot that certainly does not fit. The file of the database is sent whole, with its free pages. How small it becomes by
/// compression is known from the last backup beside it; without one it is written, and a warning is in the log.
pub(crate) async fn is_there(
    order: &BackupOrder,
    store: &Store,
    member: &MemberStatus,
    context: &Context,
) -> Result<()> {
    let Some(free) = store.free(&order.key).await? else {
        if order.destination.pvc.is_some() {
            (context.log)("how much is free in the claim is not known: its file system does not tell");
        }
        return Ok(());
    };
    let becomes = if order.compress { Becomes::as_last(store, &order.key).await } else { Becomes::Itself };
    if let Some(doubt) = judge(free, member.db_size, &becomes)? {
        (context.log)(&doubt);
    }
    Ok(())
}

/// Whether so much room is enough; if that is not known, what there is to say.
fn judge(free: u64, database: u64, becomes: &Becomes) -> Result<Option<String>> {
    let (needed, why) = match becomes {
        Becomes::Itself => (database, ""),
        Becomes::Smaller(last) => (last.shrunk(database), ", compressed as the last backup beside it"),
        Becomes::Unknown => {
            let [free_text, database_text] = [free, database].map(quantity::rounded);
            let doubt = format!(
                "{free_text} are free in the claim: the database of {database_text} has to be compressed to less"
            );
            return Ok((free < database).then_some(doubt));
        }
    };
    if free >= needed {
        return Ok(None);
    }
    let message = format!(
        "no room in the claim: the snapshot needs about {}{why}, and {} are free. Nothing was read. Make room: a larger claim, or fewer backups \
         in it (EtcdBackups with deletionPolicy Delete, and retention of their schedule)",
        quantity::rounded(needed),
        quantity::rounded(free)
    );
    Err(Failure::new(FailureKind::NoSpace, message))
}

/// What the object is beside the database.
enum Becomes {
    Itself,
    Smaller(Last),
    /// It is compressed, and nothing tells to what.
    Unknown,
}

/// What a backup was before and after its compression.
struct Last {
    database: u64,
    stored: u64,
}

impl Last {
    /// What becomes of so many bytes. The data may be others now: a tenth less than by proportion may still be right.
    fn shrunk(&self, database: u64) -> u64 {
        let bytes = u128::from(database) * u128::from(self.stored) * 9 / (u128::from(self.database) * 10);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl Becomes {
    /// As the last backup beside an object. Whoever writes to the claim can write this, too: it only says what to expect.
    async fn as_last(store: &Store, key: &str) -> Self {
        let Ok(Some(bytes)) = store.newest_beside(key).await else { return Self::Unknown };
        let Ok(found) = serde_json::from_slice::<Manifest>(&bytes) else { return Self::Unknown };
        let is_one = found.compressed && found.snapshot_bytes > 0 && found.stored_bytes > 0;
        let last = Last { database: found.snapshot_bytes, stored: found.stored_bytes };
        if is_one { Self::Smaller(last) } else { Self::Unknown }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use quorate_api::Destination;
    use quorate_api::destination::Pvc;

    use super::*;
    use crate::Places;
    use crate::manifest::{key_of, to_bytes};

    const MIB: u64 = 1 << 20;

    #[test]
    fn o08_a_snapshot_that_does_not_fit_into_the_claim_is_refused_before_anything_is_read() {
        let quarter = || Becomes::Smaller(Last { database: 8 * MIB, stored: 2 * MIB });
        let failure = judge(1023 * MIB, 1024 * MIB, &Becomes::Itself).unwrap_err();
        assert_eq!(failure.kind, FailureKind::NoSpace);
        assert!(failure.message.contains("needs about 1Gi, and 1023Mi are free"), "{}", failure.message);
        assert_eq!(judge(1024 * MIB, 1024 * MIB, &Becomes::Itself), Ok(None));
        assert_eq!(judge(256 * MIB, 1024 * MIB, &quarter()), Ok(None));
        assert!(judge(200 * MIB, 1024 * MIB, &quarter()).unwrap_err().message.contains("compressed as"));
        assert!(judge(MIB, 1024 * MIB, &Becomes::Unknown).unwrap().unwrap().contains("compressed to less"));
        assert_eq!(judge(1024 * MIB, 1024 * MIB, &Becomes::Unknown), Ok(None));
    }

    #[tokio::test]
    async fn o08_what_compression_makes_of_a_snapshot_is_known_from_the_newest_backup_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places { pvc: dir.path().to_owned(), ..Places::default() };
        let pvc = Pvc { claim_name: "backups".to_owned(), prefix: None };
        let store = Store::open(&Destination { pvc: Some(pvc), ..Destination::default() }, &places).unwrap();
        fs::create_dir(dir.path().join("demo")).unwrap();
        assert!(matches!(Becomes::as_last(&store, "demo/b3").await, Becomes::Unknown), "there is none");
        for (key, stored_bytes, age) in [("demo/b1", 4, 60), ("demo/b2", 2, 30)] {
            let manifest =
                Manifest { compressed: true, snapshot_bytes: 8, stored_bytes, ..Manifest::default() };
            let path = dir.path().join(key_of(key));
            fs::write(&path, to_bytes(&manifest)).unwrap();
            let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000 - age);
            fs::File::open(path).unwrap().set_modified(time).unwrap();
        }
        let Becomes::Smaller(last) = Becomes::as_last(&store, "demo/b3").await else {
            panic!("there are two")
        };
        assert_eq!((last.database, last.stored, last.shrunk(800)), (8, 2, 180));
        assert!(store.free("demo/b3").await.unwrap().is_some());
        assert_eq!(
            store.free("absent/b3").await.unwrap(),
            None,
            "it cannot be asked, and nothing fails by that"
        );
    }
}
