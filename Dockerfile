# The same image as `cargo xtask image`, for who has Docker: docker build -t quorate:0.1.0 .
# Alpine's own target is musl, so the program is static by itself. (Asking for it would break the procedural macros, which
# are built for the same target and have to be loaded.)
FROM rust:1.95.0-alpine AS build
# The C library's headers and start files, for the few C files of the `ring` crate.
# The authorities that stores of backups are trusted by.
RUN apk add --no-cache musl-dev ca-certificates
WORKDIR /quorate
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/quorate/target \
    cargo build --release --locked --package quorate --no-default-features \
    && install -D target/release/quorate /image/quorate \
    && install -D -m 644 /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt \
    && echo 'quorate:x:65532:65532:quorate:/:/sbin/nologin' > /image/etc/passwd \
    && echo 'quorate:x:65532:' > /image/etc/group

FROM scratch
LABEL org.opencontainers.image.title="quorate" \
      org.opencontainers.image.description="Runs etcd clusters on Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /image /
# By number, so that the kubelet can tell that it is not root.
USER 65532:65532
ENTRYPOINT ["/quorate"]
