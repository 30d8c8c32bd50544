//! Certificates: their kinds, the names they are valid for, and their Secrets. Keys are generated elsewhere.
//!
//! - [`kinds`]: which there are, their names and Secrets; [`parsed`]: what is needed of an X.509 certificate
//! - [`read`](mod@read): from Secrets to what decisions need; [`order`]: what is generated, and the write of its Secret
//! - [`given`]: an authority that somebody else made, and [`private_key`] its key
//! - [`verify`]: whether what somebody else issued is accepted by those who verify it
//! - [`rotation`]: while an authority takes the place of another one

pub mod given;
pub mod kinds;
pub mod order;
pub mod parsed;
pub mod private_key;
pub mod read;
pub mod rotation;
pub mod verify;

pub use kinds::{
    CA, CERT, CLIENT_USER, Certificate, KEY, Kept, KeyPair, PEER_NAME, ROOT_USER, authority_name,
    common_name, is_authority_of, is_of_authority, kept, kept_in, names, organizations,
};
pub(crate) use kinds::{is_with_auth, why_refused};
pub use order::{Generate, KeyAlgorithm, LeafContent, Order};
pub use read::read;
pub use verify::Verifier;
