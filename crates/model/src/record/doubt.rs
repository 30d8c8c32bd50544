//! R22: whether the record is known to be whole.

/// Why the record in status may lack something. Nothing is done then but what may be done whatever the record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordDoubt {
    /// A newer operator wrote it; how this is known.
    Newer(String),
    /// The record does not have the hash that stands beside it. An API server dropped fields of it, somebody edited it, or it was
    /// restored in part.
    Incomplete {
        /// The hash of the record as it is. Whoever names this hash confirms this record.
        hash: String,
    },
}
