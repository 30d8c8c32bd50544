//! The condition about the DataStore of Kamaji. It is another object, so who knows it passes the verdict in.

pub mod report;

use quorate_api::Explanation;

use super::conditions::Finding;
use super::picture::Picture;

/// What is known about the DataStore of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataStoreHealth {
    /// Whether Kamaji has one that is as it should be; `None` if that is not known.
    pub ready: Option<bool>,
    /// Why, with its name.
    pub why: Explanation,
}

/// `None` where none is asked for, and none is left.
pub(super) fn find(picture: &Picture<'_>) -> Option<Finding> {
    let DataStoreHealth { ready, why } = picture.data_store?;
    Some(Finding { holds: *ready, why: why.clone() })
}
