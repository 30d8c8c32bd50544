//! Generates the gRPC stubs of the etcd services used here, client and server side. No protoc: the messages are written
//! by hand in `src/wire/`, and only the method tables below are compiled.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    Builder::new().compile(&[
        service(
            "Cluster",
            &[
                unary("MemberAdd", "member_add", "MemberAdd"),
                unary("MemberRemove", "member_remove", "MemberRemove"),
                unary("MemberUpdate", "member_update", "MemberUpdate"),
                unary("MemberList", "member_list", "MemberList"),
                unary("MemberPromote", "member_promote", "MemberPromote"),
            ],
        ),
        service(
            "Maintenance",
            &[
                unary("Alarm", "alarm", "Alarm"),
                unary("Status", "status", "Status"),
                unary("Defragment", "defragment", "Defragment"),
                unary("Hash", "hash", "Hash"),
                unary("HashKV", "hash_kv", "HashKv"),
                stream("Snapshot", "snapshot", "Snapshot"),
                unary("MoveLeader", "move_leader", "MoveLeader"),
            ],
        ),
        service(
            "KV",
            &[
                unary("Range", "range", "Range"),
                unary("Put", "put", "Put"),
                unary("DeleteRange", "delete_range", "DeleteRange"),
                unary("Txn", "txn", "Txn"),
                unary("Compact", "compact", "Compaction"),
            ],
        ),
    ]);
}

/// One method: its name on the wire, in Rust, the stem of its messages' names, and whether the reply is a stream.
type Row = (&'static str, &'static str, &'static str, bool);

fn unary(route: &'static str, name: &'static str, stem: &'static str) -> Row {
    (route, name, stem, false)
}

fn stream(route: &'static str, name: &'static str, stem: &'static str) -> Row {
    (route, name, stem, true)
}

fn service(name: &str, methods: &[Row]) -> Service {
    let empty = Service::builder().name(name).package("etcdserverpb");
    let full = methods.iter().fold(empty, |service, &(route, name, stem, streams)| {
        let method = Method::builder()
            .name(name)
            .route_name(route)
            .input_type(format!("crate::wire::{stem}Request"))
            .output_type(format!("crate::wire::{stem}Response"))
            .codec_path("tonic_prost::ProstCodec");
        service.method(if streams { method.server_streaming().build() } else { method.build() })
    });
    full.build()
}
