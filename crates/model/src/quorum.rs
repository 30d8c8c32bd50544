//! Quorum arithmetic.

/// How many of `voters` must agree: more than half.
pub fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

/// Whether `healthy` of `voters` can still decide. A cluster without voters can not.
pub fn has_quorum(healthy: usize, voters: usize) -> bool {
    voters > 0 && healthy >= quorum(voters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorum_is_more_than_half() {
        for (voters, needed) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)] {
            assert_eq!(quorum(voters), needed, "of {voters}");
            assert!(has_quorum(needed, voters) && !has_quorum(needed - 1, voters));
        }
        assert!(!has_quorum(0, 0));
    }
}
