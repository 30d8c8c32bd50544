#!/usr/bin/env bash
# Makes the certificates of this directory anew, with openssl 3. Each file has a server's certificate, its chain, the authority last, and the key.
set -euo pipefail
cd "$(dirname "$0")"
to=$PWD
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cd "$work"

names='DNS:*.demo.default.svc.cluster.local,DNS:*.demo.default.svc,DNS:demo,DNS:demo.default,DNS:demo.default.svc,DNS:demo.default.svc.cluster.local,DNS:demo-client,DNS:demo-client.default,DNS:demo-client.default.svc,DNS:demo-client.default.svc.cluster.local,DNS:localhost,IP:127.0.0.1,IP:::1'

# key NAME ALGORITHM
key() {
  case $2 in
    rsa*) openssl genpkey -quiet -algorithm RSA -pkeyopt "rsa_keygen_bits:${2#rsa}" -out "$1.key" ;;
    ed25519) openssl genpkey -algorithm ED25519 -out "$1.key" ;;
    *) openssl genpkey -algorithm EC -pkeyopt "ec_paramgen_curve:$2" -out "$1.key" ;;
  esac
}

# signed NAME SUBJECT DIGEST BY EXTENSIONS...: by itself where BY is the same name
signed() {
  local name=$1 subject=$2 digest=$3 by=$4
  shift 4
  printf '%s\n' "$@" >"$name.ext"
  openssl req -new -key "$name.key" -subj "$subject" -out "$name.csr"
  local signer=(-CA "$by.crt" -CAkey "$by.key")
  [ "$name" = "$by" ] && signer=(-signkey "$name.key")
  openssl x509 -req -in "$name.csr" "${signer[@]}" "-$digest" ${options-} -set_serial "0x$(openssl rand -hex 8)" -days 36500 -extfile "$name.ext" -out "$name.crt" 2>/dev/null
}

# authority ALGORITHM DIGEST EXTENSIONS...
authority() {
  local algorithm=$1 digest=$2
  shift 2
  key ca "$algorithm"
  signed ca "/O=Example/CN=Example CA" "$digest" ca "basicConstraints=critical,CA:TRUE" "keyUsage=critical,keyCertSign,cRLSign" "${ski:-subjectKeyIdentifier=hash}" "$@"
}

# server ALGORITHM DIGEST BY EXTENSIONS...
server() {
  local algorithm=$1 digest=$2 by=$3
  shift 3
  key leaf "$algorithm"
  signed leaf "/CN=etcd" "$digest" "$by" "authorityKeyIdentifier=keyid" "subjectAltName=$names" "${usages-extendedKeyUsage=serverAuth,clientAuth}" "$@"
}

# keep FILE CHAIN...
keep() {
  local file=$1 one
  shift
  for one in leaf "$@"; do openssl x509 -in "$one.crt"; done >"$to/$file.pem"
  cat leaf.key >>"$to/$file.pem"
}

for kind in rsa2048 rsa4096 P-256; do
  authority "$kind" sha256; server P-256 sha256 ca; keep "$(tr 'A-Z' 'a-z' <<<"$kind")" ca
done
authority P-384 sha384; server P-384 sha384 ca; keep p-384 ca
authority P-256 sha256; server rsa2048 sha256 ca; keep rsa-leaf ca
authority P-256 sha256; server P-521 sha256 ca; keep p-521-leaf ca
authority P-256 sha256; server ed25519 sha256 ca; keep ed25519-leaf ca
authority ed25519 null; server P-256 null ca; keep ed25519 ca
authority P-521 sha512; server P-256 sha512 ca; keep p-521 ca
authority P-256 sha512; server P-256 sha512 ca; keep sha512-p-256 ca
authority rsa2048 sha512; server P-256 sha512 ca; keep sha512-rsa ca
authority rsa2048 sha256; options="-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:32" server P-256 sha256 ca; keep pss ca
authority rsa2048 sha1; server P-256 sha1 ca; keep sha1 ca
authority rsa1024 sha256; server P-256 sha256 ca; keep rsa1024 ca

authority P-256 sha256
key between P-384
signed between "/O=Example/CN=Example Intermediate" sha256 ca "basicConstraints=critical,CA:TRUE,pathlen:0" "keyUsage=critical,keyCertSign" "subjectKeyIdentifier=hash" "authorityKeyIdentifier=keyid"
server P-256 sha384 between
keep intermediate between ca

authority P-256 sha256 "nameConstraints=critical,excluded;DNS:example.com"; server P-256 sha256 ca; keep constrained-elsewhere ca
authority P-256 sha256 "nameConstraints=critical,permitted;DNS:example.com"; server P-256 sha256 ca; keep constrained ca

ski="subjectKeyIdentifier=01:02:03:04"
authority P-256 sha256; server P-256 sha256 ca
cp ca.crt first.crt
authority P-256 sha256; keep other-key ca; keep other-key-and-its-own ca first
unset ski

authority P-256 sha256 "1.2.3.4=critical,ASN1:NULL"; server P-256 sha256 ca; keep critical-of-authority ca
authority P-256 sha256; server P-256 sha256 ca "1.2.3.4=critical,ASN1:NULL"; keep critical ca
authority P-256 sha256; usages=extendedKeyUsage=clientAuth server P-256 sha256 ca; keep no-server ca
authority P-256 sha256; usages=extendedKeyUsage=serverAuth server P-256 sha256 ca; keep no-client ca
authority P-256 sha256; usages=keyUsage=digitalSignature server P-256 sha256 ca; keep no-extended-usage ca

# Keys with a password, of the server in p-256.pem.
openssl pkey -in "$to/p-256.pem" -aes256 -passout pass:secret -out "$to/encrypted-pkcs8.key"
openssl pkey -in "$to/p-256.pem" -aes256 -passout pass:secret -traditional -out "$to/encrypted-traditional.key"
