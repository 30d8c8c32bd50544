//! Objects that another operator made for the same EtcdCluster, under the names of ours, are left alone, and the cluster begins once they are gone.

use quorate_sim::history::{ends_well, plain};
use serde_json::json;

#[test]
fn objects_of_another_operator_for_the_same_etcdcluster_are_never_changed() {
    for tls in ["disabled", "auto"] {
        let mut spec = plain(3);
        spec["tls"] = json!({ "provider": tls });
        let strike = |named| json!({ "at": 0, "what": { "fault": { "other-operator": named } } });
        let strikes =
            json!(["demo", "demo-server-tls", "demo-connection", "demo-ca", "demo-peer-ca"].map(strike));
        ends_well(&json!({ "spec": spec, "wide": true, "departures": strikes }));
    }
}
