//! What more than one program of this repository's commands needs.

#[cfg(feature = "oci")]
pub mod oci;
