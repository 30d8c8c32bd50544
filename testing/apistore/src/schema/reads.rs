//! The fields that a CEL rule reads. While these are unchanged its result is unchanged.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, SelectExpr};
use serde_json::Value;

/// Paths below `self` and `oldSelf`, taken together. The empty path is the whole value.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Their values are read.
    values: BTreeSet<Vec<String>>,
    /// Only `has()` is called on them.
    presences: BTreeSet<Vec<String>>,
}

impl Reads {
    /// At least the fields that an expression reads.
    pub(super) fn of(expression: &IdedExpr) -> Self {
        let mut reads = Self::default();
        reads.add(&expression.expr);
        reads
    }

    /// A hash of these fields.
    pub(super) fn fingerprint(&self, value: &Value, old: Option<&Value>) -> u64 {
        let mut hasher = DefaultHasher::new();
        for path in &self.values {
            lookup(value, path).hash(&mut hasher);
            old.map(|old| lookup(old, path)).hash(&mut hasher);
        }
        for path in &self.presences {
            lookup(value, path).0.hash(&mut hasher);
            old.map(|old| lookup(old, path).0).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn add(&mut self, expression: &Expr) {
        if let Some(path) = path_of(expression) {
            let only_presence = matches!(expression, Expr::Select(SelectExpr { test: true, .. }));
            if only_presence {
                self.presences.insert(path)
            } else {
                self.values.insert(path)
            };
            return;
        }
        match expression {
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
            Expr::Call(CallExpr { target, args, .. }) => {
                self.add_all(target.as_deref());
                self.add_all(args);
            }
            Expr::Comprehension(comprehension) => {
                let parts = [
                    &comprehension.iter_range,
                    &comprehension.accu_init,
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ];
                self.add_all(parts);
            }
            Expr::List(list) => self.add_all(&list.elements),
            Expr::Map(map) => self.add_entries(&map.entries),
            Expr::Select(SelectExpr { operand, .. }) => self.add(&operand.expr),
            Expr::Struct(of) => self.add_entries(&of.entries),
        }
    }

    fn add_all<'a>(&mut self, expressions: impl IntoIterator<Item = &'a IdedExpr>) {
        for expression in expressions {
            self.add(&expression.expr);
        }
    }

    fn add_entries(&mut self, entries: &[IdedEntryExpr]) {
        for entry in entries {
            match &entry.expr {
                EntryExpr::StructField(field) => self.add(&field.value.expr),
                EntryExpr::MapEntry(entry) => self.add_all([&entry.key, &entry.value]),
            }
        }
    }
}

/// `self.spec.size` as a path; `None` for any other expression.
fn path_of(expression: &Expr) -> Option<Vec<String>> {
    match expression {
        Expr::Ident(name) => (name == "self" || name == "oldSelf").then(Vec::new),
        Expr::Select(SelectExpr { operand, field, .. }) => {
            let mut path = path_of(&operand.expr)?;
            // Escaped names are not resolved: the whole enclosing value counts as read.
            if field.contains("__") {
                return None;
            }
            path.push(field.clone());
            Some(path)
        }
        Expr::Unspecified
        | Expr::Call(_)
        | Expr::Comprehension(_)
        | Expr::List(_)
        | Expr::Literal(_)
        | Expr::Map(_)
        | Expr::Struct(_) => None,
    }
}

/// The value at a path, and how much of the path exists.
fn lookup<'a>(value: &'a Value, path: &[String]) -> (usize, &'a Value) {
    let mut place = value;
    for (depth, key) in path.iter().enumerate() {
        match place.get(key) {
            Some(below) => place = below,
            None => return (depth, &Value::Null),
        }
    }
    (path.len(), place)
}

#[cfg(test)]
mod tests {
    use kube_cel::cel::Program;
    use serde_json::json;

    use super::*;

    fn reads(rule: &str) -> Reads {
        Reads::of(Program::compile(rule).expect("a rule").expression())
    }

    #[test]
    fn fields_of_self_and_old_self_are_found_anywhere_in_a_rule() {
        let Reads { values, presences } = reads(
            "!has(self.spec.a) || self.spec.b.all(x, x in oldSelf.spec.c) ? self.d[0] == 1 : size(self.e.f) > 0",
        );
        let words =
            |paths: BTreeSet<Vec<String>>| paths.iter().map(|path| path.join(".")).collect::<Vec<_>>();
        assert_eq!(
            (words(values), words(presences)),
            (
                ["d", "e.f", "spec.b", "spec.c"].map(str::to_owned).to_vec(),
                ["spec.a"].map(str::to_owned).to_vec(),
            )
        );
    }

    #[test]
    fn a_rule_that_takes_all_of_self_reads_all_of_it() {
        for rule in ["self == oldSelf", "size(self) > 1", "self.x__dash__y == 1"] {
            assert_eq!(reads(rule).values, BTreeSet::from([Vec::new()]), "{rule}");
        }
    }

    #[test]
    fn only_fields_that_a_rule_reads_change_the_fingerprint() {
        let rule = reads("has(self.status) && self.spec.a == oldSelf.spec.b");
        let of = |value: Value, old: Value| rule.fingerprint(&value, Some(&old));
        let (value, old) = (json!({ "spec": { "a": 1 }, "status": 1 }), json!({ "spec": { "b": 1 } }));
        let same = of(value.clone(), old.clone());
        assert_eq!(same, of(json!({ "spec": { "a": 1, "c": 3 }, "status": 2 }), old.clone()));
        let others = [
            json!({ "spec": { "a": 2 }, "status": 1 }),
            json!({ "spec": { "a": null }, "status": 1 }),
            json!({ "spec": {}, "status": 1 }),
            json!({ "spec": { "a": 1 } }),
            json!({ "status": 1 }),
        ];
        for other in others {
            assert_ne!(same, of(other.clone(), old.clone()), "{other}");
        }
        assert_ne!(same, of(value.clone(), json!({ "spec": { "b": 2 } })));
        assert_ne!(same, rule.fingerprint(&value, None));
    }
}
