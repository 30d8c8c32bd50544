//! What more than one program of this repository's commands needs.

pub mod oci;
