//! Scopes in which others use the bucket, and EtcdBackups stand for what is there.

use serde_json::json;

use super::{explored, keep_last};
use crate::world::{Departure, Forged, Order, Setup, Which};

pub fn shared(order: Option<Order>) -> Setup {
    Setup { retention: json!({"keepLast": 2}), shared: true, order, ..keep_last() }
}

/// What may come between an order and what it finds. Clocks and rules are those of the scope before.
fn is_beside(what: &Departure) -> bool {
    use Departure::{
        Away, Break, Clock, Crash, Credentials, Deface, Delete, Ends, Forge, Forget, Halve, Held, Keep, Need,
        Order, Plant, PodWrites, Recreate, Reply, Rewrite, Stale, Suspend, Swap, Vanish,
    };
    match what {
        Crash | Reply(_) | Stale(..) | Held | Ends(_) | PodWrites | Away(_) | Plant(_) | Deface(_)
        | Halve(_) | Vanish(_) | Forget | Delete(_) | Recreate => true,
        Forge(how) => matches!(how, Forged::Neighbor | Forged::Standing),
        Clock(..) | Keep(_) | Suspend | Swap | Break(_) | Credentials(_) | Need(_) | Order(_)
        | Rewrite(_) => false,
    }
}

/// One departure of any kind, beside what is ordered.
#[test]
fn the_newest_backup_is_looked_for() {
    explored("latest", &shared(Some(Order::Latest)), 1, |_| true);
}

#[test]
fn the_newest_backup_of_a_cluster_id_is_looked_for() {
    explored("latest of ID", &shared(Some(Order::LatestOfId)), 1, is_beside);
}

#[test]
fn an_object_is_looked_for_by_its_key() {
    explored("by key", &shared(Some(Order::ByKey)), 1, is_beside);
}

#[test]
fn the_newest_backup_is_restored() {
    explored("restore latest", &shared(Some(Order::RestoreLatest)), 1, is_beside);
}

#[test]
fn an_object_is_restored_by_its_place() {
    explored("restore source", &shared(Some(Order::RestoreSource)), 1, is_beside);
}

#[test]
fn a_store_is_listed_beside_the_backups_that_wrote_it() {
    explored("catalog", &shared(Some(Order::Catalog)), 1, is_beside);
}

#[test]
fn a_store_is_listed_after_the_backups_were_lost() {
    let setup = Setup { policy: "Retain", retention: json!({"keepLast": 3}), warm: 3, ..shared(None) };
    explored("catalog after loss", &Setup { order: Some(Order::CatalogAfterLoss), ..setup }, 1, is_beside);
}

/// Two departures of the operator itself.
#[test]
fn the_operator_departs_twice_while_a_store_is_listed() {
    let setup = Setup { policy: "Retain", ..shared(Some(Order::CatalogAfterLoss)) };
    explored("listing", &setup, 2, |what| {
        matches!(what, Departure::Crash | Departure::Reply(_) | Departure::Stale(..) | Departure::Held)
    });
}

/// Two departures of those who share the bucket.
#[test]
fn those_who_share_the_bucket_depart_twice() {
    explored("sharing", &shared(None), 2, |what| {
        matches!(
            what,
            Departure::Plant(_)
                | Departure::Forge(Forged::Neighbor)
                | Departure::Deface(Which::Newest)
                | Departure::Halve(_)
                | Departure::Order(Order::Latest | Order::Catalog)
        )
    });
}

/// A bucket with versions.
#[test]
fn what_is_overwritten_stays_as_a_version() {
    let setup = Setup { versioned: true, ..shared(None) };
    explored("versions", &setup, 2, |what| {
        matches!(
            what,
            Departure::Rewrite(_)
                | Departure::Deface(Which::Newest)
                | Departure::Halve(_)
                | Departure::Vanish(Which::Newest)
                | Departure::Need(Which::Newest)
        )
    });
}
