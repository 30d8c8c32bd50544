//! What is asked of `quorate agent` in a Job, each by a command of its own.

use std::fmt::Display;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{
    Answer, BackupOrder, FindOrder, FoundBackup, InspectOrder, ListOrder, ListedBackups, LookOrder, Looked,
    Manifest, ReadOrder, RemoveOrder, Verified, VerifyOrder,
};
use crate::destination::Destination;

/// An order of a Job, which its agent carries out and answers.
pub trait Task: Serialize + DeserializeOwned {
    /// What its answer says.
    type Answered;
    /// The command of the agent that carries it out.
    const COMMAND: &'static str;
    /// What the names of its Jobs begin with.
    const JOB: &'static str;
    /// It changes nothing in the store: a claim is mounted so, and the owners of its files stay.
    const ONLY_READS: bool;
    /// It signs manifests, or believes signed ones.
    const KNOWS_SIGNATURES: bool;

    /// The store.
    fn destination(&self) -> &Destination;

    /// The answer of a Job that has done it.
    fn answer(answered: Self::Answered) -> Answer;

    /// What the answer says, if it is one to this.
    fn answered(answer: &Answer) -> Option<&Self::Answered>;

    /// The name of a Job. It depends on the uid of the owner and on the attempt or the time, so that each of these has one Job at most.
    fn job_name<N: Display>(owner_uid: &str, number: N) -> String {
        format!("{}-{owner_uid}-{number}", Self::JOB)
    }
}

/// Tasks whose answers say something: their commands, what the names of their Jobs begin with, and where they have their store.
macro_rules! tasks {
    ($($order:ident: $command:literal, $job:literal, only_reads: $reads:literal, signatures: $signatures:literal,
        $($store:ident).+ => $answer:ident($answered:ty);)*) => {$(
        impl Task for $order {
            type Answered = $answered;
            const COMMAND: &'static str = $command;
            const JOB: &'static str = $job;
            const ONLY_READS: bool = $reads;
            const KNOWS_SIGNATURES: bool = $signatures;

            fn destination(&self) -> &Destination {
                &self.$($store).+
            }

            fn answer(answered: $answered) -> Answer {
                Answer::$answer(answered)
            }

            fn answered(answer: &Answer) -> Option<&$answered> {
                if let Answer::$answer(answered) = answer { Some(answered) } else { None }
            }
        }
    )*};
}

tasks! {
    BackupOrder: "backup", "backup", only_reads: false, signatures: true, destination => BackedUp(Manifest);
    ReadOrder: "read-backup", "read-backup", only_reads: true, signatures: false, source.destination => Read(Manifest);
    VerifyOrder: "verify-backup", "verify-backup", only_reads: true, signatures: false, source.destination => Verified(Verified);
    LookOrder: "look-for-backups", "look-backups", only_reads: true, signatures: false, destination => Looked(Looked);
    // Either is asked in the same tries.
    InspectOrder: "inspect-backup", "inspect-backup", only_reads: true, signatures: true, destination => Inspected(Manifest);
    FindOrder: "find-backup", "inspect-backup", only_reads: true, signatures: true, destination => Found(FoundBackup);
    ListOrder: "list-backups", "list-backups", only_reads: true, signatures: true, destination => Listed(ListedBackups);
}

/// Its answer says nothing more.
impl Task for RemoveOrder {
    type Answered = ();
    const COMMAND: &'static str = "remove-backup";
    const JOB: &'static str = "remove-backup";
    const ONLY_READS: bool = false;
    const KNOWS_SIGNATURES: bool = false;

    fn destination(&self) -> &Destination {
        &self.destination
    }

    fn answer((): ()) -> Answer {
        Answer::Removed
    }

    fn answered(answer: &Answer) -> Option<&()> {
        if let Answer::Removed = answer { Some(&()) } else { None }
    }
}
