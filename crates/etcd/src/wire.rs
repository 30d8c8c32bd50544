//! etcd's gRPC interface: messages and stubs, client and server side, generated from `proto/etcd.proto`.
//!
//! The types are etcd's: plain integers and strings. Everything outside this crate uses
//! [`MemberClient`](crate::MemberClient) instead; the server side exists so that tests can play etcd.
//!
//! The generated code is committed, because the generator is thirty crates, which every build of `quorate` would compile first.
#![allow(missing_docs, clippy::all, clippy::pedantic)] // generated

include!("wire/etcdserverpb.rs");

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    const FILE: &str = "src/wire/etcdserverpb.rs";
    const HEAD: &str =
        "// Generated from proto/etcd.proto; a test of wire.rs compares. Long because it is.\n";

    /// `QUORATE_UPDATE=1 cargo test -p quorate-etcd --lib wire` writes it.
    #[test]
    fn the_generated_code_is_that_of_the_definitions() {
        let folder = tempfile::tempdir().unwrap();
        let files = protox::compile(["etcd.proto"], ["proto"]).unwrap();
        // protox reads the definitions: no protoc is needed.
        tonic_prost_build::configure().out_dir(folder.path()).compile_fds(files).unwrap();
        let generated = fs::read_to_string(folder.path().join("etcdserverpb.rs")).unwrap();
        let desired = format!("{HEAD}{generated}");
        if std::env::var_os("QUORATE_UPDATE").is_some() {
            fs::write(FILE, &desired).unwrap();
        }
        assert!(Path::new(FILE).exists());
        assert!(
            fs::read_to_string(FILE).unwrap() == desired,
            "{FILE} differs from proto/etcd.proto: QUORATE_UPDATE=1 cargo test -p quorate-etcd --lib wire"
        );
    }
}
