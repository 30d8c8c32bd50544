//! Whether the operator's PriorityClass is why Pods of one cluster are refused. A quota for Pods of this class and one for all Pods
//! answer alike, so a Pod without the class shows which it was.

use quorate_model::priority::{NoPriorityClass, PriorityClassRefused};
use quorate_model::{Instant, Span};

use crate::reply::WriteError;

/// After the class turned out not to be the cause, it is suspected again only after this time: each suspicion costs a refused request.
const SUSPECTED_AGAIN: Span = Span::seconds(60);

/// What the answers name where the class, or a quota, is the cause.
const CAUSES: [&str; 3] = ["priority", "exceeded quota", "failed quota"];

/// What is known of the class between passes.
#[derive(Clone, Debug, Default)]
pub(crate) enum PriorityClass {
    /// Nothing speaks against it.
    #[default]
    Open,
    /// A Pod with it was refused. The next one comes without it.
    Refused(PriorityClassRefused),
    /// A Pod without it was refused as well, at this time.
    NotTheCause(Instant),
}

/// How a Pod is created as to the class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tries {
    /// It is no Pod, or the class is not the operator's choice.
    #[default]
    Nothing,
    /// With this class.
    With(String),
    /// Without it, because it was refused.
    Without,
}

impl PriorityClass {
    pub(crate) fn refused(&self) -> Option<&PriorityClassRefused> {
        match self {
            Self::Refused(refused) => Some(refused),
            Self::Open | Self::NotTheCause(_) => None,
        }
    }

    /// The Pod was created.
    pub(crate) fn taken(&mut self, tries: &Tries) {
        match (tries, &mut *self) {
            (Tries::Without, Self::Refused(refused)) => refused.taken_without = true,
            (Tries::With(_), Self::Open | Self::NotTheCause(_)) => *self = Self::Open,
            // Another Pod of the same group was refused.
            (Tries::With(_), Self::Refused(_))
            | (Tries::Without, Self::Open | Self::NotTheCause(_))
            | (Tries::Nothing, _) => {}
        }
    }

    /// The Pod was not created. Returns whether the planner learns something new from it: the next Pod comes without the class.
    pub(crate) fn failed(&mut self, tries: &Tries, error: &WriteError, now: Instant) -> bool {
        let (WriteError::Invalid(why) | WriteError::Forbidden(why)) = error else { return false };
        match (tries, &mut *self) {
            (Tries::With(_), Self::NotTheCause(at)) if now - *at < SUSPECTED_AGAIN => false,
            (Tries::With(class), Self::Open | Self::NotTheCause(_)) => {
                let is_suspect = why.contains(class.as_str())
                    || CAUSES.iter().any(|cause| why.to_lowercase().contains(cause));
                if is_suspect {
                    let refusal = NoPriorityClass { class: class.clone(), why: why.clone() };
                    *self = Self::Refused(PriorityClassRefused { refusal, taken_without: false });
                }
                is_suspect
            }
            // One more of the same group.
            (Tries::With(_), Self::Refused(_)) => true,
            (Tries::Without, Self::Refused(refused)) if !refused.taken_without => {
                *self = Self::NotTheCause(now);
                false
            }
            (Tries::Without, _) | (Tries::Nothing, _) => false,
        }
    }
}
