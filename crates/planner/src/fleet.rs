//! Whose turn it is to take new defaults of the operator: so many clusters at a time, and none more while one of them does not get ready.
//! It is decided anew from what is seen, so a new operator goes on where the last one ended.

use std::fmt;
use std::str::FromStr;

use quorate_model::snapshot::DefaultsTurn;

/// How many names a message has.
const NAMES: usize = 3;

/// How many clusters may take new defaults at a time: so many, and so many percent of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// So many.
    pub base: usize,
    /// And so many percent of all clusters, rounded down.
    pub percent: usize,
}

/// A cluster that takes new defaults now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rolling {
    /// Its namespace and name.
    pub name: String,
    /// Why it does not get ready, if it does not for a while.
    pub stuck: Option<String>,
}

/// Whether a cluster may take them now. `rolling`: those that do; `all`: how many clusters there are.
pub fn turn(own: &str, rolling: &[Rolling], all: usize, limit: Limit) -> DefaultsTurn {
    if rolling.iter().any(|cluster| cluster.name == own) {
        return DefaultsTurn::Now;
    }
    let others: Vec<&str> = rolling.iter().map(|cluster| cluster.name.as_str()).take(NAMES).collect();
    let more = rolling.len().saturating_sub(NAMES);
    let mut names = others.join(", ");
    if more > 0 {
        names = format!("{names} and {more} more");
    }
    if let Some((name, why)) =
        rolling.iter().find_map(|cluster| Some((&cluster.name, cluster.stuck.as_ref()?)))
    {
        return DefaultsTurn::After(format!(
            "the operator's new defaults wait: EtcdCluster {name} has taken them and does not get ready ({why}). They reach no \
             other cluster until it does, or is paused"
        ));
    }
    if rolling.len() < limit.of(all) {
        return DefaultsTurn::Now;
    }
    DefaultsTurn::After(format!(
        "the operator's new defaults wait for their turn: {names} take them now, and at most {} may at a time \
         (--max-clusters-rolling={limit})",
        limit.of(all)
    ))
}

impl Limit {
    /// The number among so many clusters: never none, or nobody would ever be next.
    pub fn of(self, all: usize) -> usize {
        (self.base + all * self.percent / 100).max(1)
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self { base: 1, percent: 5 }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.base, self.percent) {
            (base, 0) => write!(f, "{base}"),
            (0, percent) => write!(f, "{percent}%"),
            (base, percent) => write!(f, "{base}+{percent}%"),
        }
    }
}

/// `3`, `10%` or `1+5%`.
impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("expected a number, a percentage or both, such as 3, 10% or 1+5%, and not {text:?}");
        let mut limit = Self { base: 0, percent: 0 };
        for part in text.split('+').map(str::trim) {
            let (number, of) = match part.strip_suffix('%') {
                Some(number) => (number, &mut limit.percent),
                None => (part, &mut limit.base),
            };
            let number = number.trim().parse().ok().filter(|number| (1..=100_000).contains(number));
            match number {
                Some(number) if *of == 0 => *of = number,
                Some(_) | None => return Err(wrong()),
            }
        }
        Ok(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rolling(names: &[&str]) -> Vec<Rolling> {
        names.iter().map(|name| Rolling { name: (*name).to_owned(), stuck: None }).collect()
    }

    #[test]
    fn the_limit_is_a_number_a_percentage_or_both() {
        for (text, all, expected) in [
            ("3", 1000, 3),
            ("10%", 1000, 100),
            ("10%", 3, 1),
            ("1+5%", 30, 2),
            ("1 + 5 %", 1000, 51),
            ("2", 0, 2),
        ] {
            assert_eq!(text.parse::<Limit>().unwrap().of(all), expected, "{text}");
        }
        assert_eq!(Limit::default(), "1+5%".parse().unwrap());
        assert_eq!(Limit::default().to_string(), "1+5%");
        for wrong in ["", "0", "0%", "-1", "1+2", "x", "1+", "99999999999999999999%"] {
            assert!(wrong.parse::<Limit>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn so_many_clusters_take_new_defaults_at_a_time_and_those_that_began_go_on() {
        let limit = Limit { base: 2, percent: 0 };
        assert_eq!(turn("a/x", &rolling(&[]), 9, limit), DefaultsTurn::Now);
        assert_eq!(turn("a/x", &rolling(&["b/y"]), 9, limit), DefaultsTurn::Now);
        let DefaultsTurn::After(why) = turn("a/x", &rolling(&["b/y", "c/z"]), 9, limit) else {
            panic!("a third one")
        };
        assert!(why.contains("b/y, c/z") && why.contains("at most 2"), "{why}");
        assert_eq!(turn("b/y", &rolling(&["b/y", "c/z", "d/w"]), 9, limit), DefaultsTurn::Now);
    }

    #[test]
    fn one_that_does_not_get_ready_stops_the_others_and_is_named() {
        let mut some = rolling(&["b/y"]);
        some[0].stuck = Some("demo-0: ErrImagePull".to_owned());
        let limit = Limit { base: 9, percent: 0 };
        let DefaultsTurn::After(why) = turn("a/x", &some, 9, limit) else { panic!("it goes on") };
        assert!(why.contains("b/y") && why.contains("ErrImagePull"), "{why}");
        assert_eq!(turn("b/y", &some, 9, limit), DefaultsTurn::Now, "what may cure it reaches it");
    }
}
