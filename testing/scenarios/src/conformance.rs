//! Two servers of the Kubernetes API, asked the same: calls drawn from a seed, done one after another on both, every answer
//! compared. Neither side is known here; whoever runs it brings a [`Side`] of each.
//!
//! - [`generate()`]: which calls; what our small Kubernetes does not claim to do is left out there, with the reason
//! - [`Side`]: does a call, and says what is comparable of the answer
//! - [`run()`]: the comparison; controllers' work is waited for, and compared as well
//! - [`shortest`]: of a sequence that tells the sides apart, what is needed to do so

mod call;
mod dice;
mod generate;
mod kinds;
mod mask;
mod objects;
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
