//! Compares two servers of the Kubernetes API: calls drawn from a seed are sent to both, one after another, and every answer
//! is compared. The caller provides a [`Side`] for each server.
//!
//! - [`generate()`]: the calls; what localkube does not support is left out there, with the reason
//! - [`Side`]: sends a call, and returns the comparable part of the answer
//! - [`run()`]: the comparison; it waits for the controllers, and compares their work too
//! - [`shortest`]: the shortest part of a sequence that still shows a difference

mod call;
mod generate;
mod kinds;
mod mask;
mod objects;
mod random;
mod run;
mod shrink;
mod side;

pub use call::{Call, Form, Verb};
pub use generate::generate;
pub use kinds::{Kind, definition};
pub use mask::Answer;
pub use run::{Difference, Pair, run};
pub use shrink::shortest;
pub use side::{Settle, Side};
