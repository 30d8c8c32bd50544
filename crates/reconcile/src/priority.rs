//! Whether the operator's PriorityClass is why Pods of one cluster are refused. A quota for Pods of this class and one for all Pods
//! answer alike, so a Pod without the class shows which it was.

use quorate_model::priority::{NoPriorityClass, PriorityClassRefused};
use quorate_model::{Instant, Span};

use crate::reply::WriteError;

/// After the class turned out not to be the cause, it is suspected again only after this time: each suspicion costs a refused request, and
/// begins the delay after failures anew.
const SUSPECTED_AGAIN: Span = Span::seconds(300);

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
            (Tries::Without | Tries::Nothing, _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(0);

    fn with() -> Tries {
        Tries::With("system-cluster-critical".to_owned())
    }

    fn refused(why: &str) -> WriteError {
        WriteError::Forbidden(format!("pods \"demo-0\" is forbidden: {why}"))
    }

    #[test]
    fn answers_that_name_the_class_or_a_quota_make_it_suspect_and_others_do_not() {
        for why in [
            "insufficient quota to match these scopes: [{PriorityClass In [system-cluster-critical]}]",
            "no PriorityClass with name x was found",
            "exceeded quota: small, requested: pods=1",
            "policy: system-cluster-critical is for the platform",
        ] {
            let mut class = PriorityClass::default();
            assert!(class.failed(&with(), &refused(why), NOW), "{why}");
            assert!(class.refused().is_some_and(|refused| !refused.taken_without), "{why}");
        }
        let others =
            [refused("violates PodSecurity"), WriteError::Unknown("quota".to_owned()), WriteError::Exists];
        for error in others {
            let mut class = PriorityClass::default();
            assert!(!class.failed(&with(), &error, NOW) && class.refused().is_none(), "{error}");
        }
        let mut class = PriorityClass::default();
        assert!(!class.failed(&Tries::Nothing, &refused("exceeded quota"), NOW), "the user's own class");
    }

    #[test]
    fn it_was_the_class_once_a_pod_without_it_is_taken() {
        let mut class = PriorityClass::default();
        class.failed(&with(), &refused("exceeded quota"), NOW);
        assert!(class.failed(&with(), &refused("exceeded quota"), NOW), "another Pod of the same group");
        class.taken(&Tries::Without);
        assert!(class.refused().is_some_and(|refused| refused.taken_without));
        // A later one may be refused for another cause.
        assert!(!class.failed(&Tries::Without, &refused("exceeded quota"), NOW));
        assert!(class.refused().is_some());
    }

    #[test]
    fn it_was_not_the_class_where_a_pod_without_it_is_refused_too_and_it_is_suspected_again_after_five_minutes()
     {
        let mut class = PriorityClass::default();
        class.failed(&with(), &refused("exceeded quota"), NOW);
        assert!(!class.failed(&Tries::Without, &refused("exceeded quota"), NOW));
        assert!(class.refused().is_none());
        assert!(!class.failed(&with(), &refused("exceeded quota"), NOW + Span::seconds(299)));
        assert!(class.failed(&with(), &refused("exceeded quota"), NOW + Span::seconds(300)));
        let mut class = PriorityClass::NotTheCause(NOW);
        class.taken(&with());
        assert!(
            class.failed(&with(), &refused("exceeded quota"), NOW + Span::seconds(1)),
            "it was open since"
        );
    }
}
