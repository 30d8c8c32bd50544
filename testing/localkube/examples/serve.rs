//! Serves the API on plain HTTP, to try kubectl against it:
//! `cargo run -p quorate-localkube --example serve -- 127.0.0.1:8001`, then `kubectl -s http://127.0.0.1:8001 get all`.

#[path = "../tests/api/server.rs"]
mod server;

#[tokio::main]
async fn main() {
    let at = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8001".to_owned());
    let (_kube, bound) = server::serve(at.parse().expect("an address such as 127.0.0.1:8001")).await;
    println!("kubectl -s http://{bound} get all");
    std::future::pending::<()>().await;
}
