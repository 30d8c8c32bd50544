//! Structural schemas of custom resources: unknown fields are pruned, defaults are filled in, invalid values are
//! refused in the words of the real server, CEL rules are evaluated.

mod correlate;
mod lists;
mod path;
mod prune;
mod range;
mod reads;
mod rule;
mod rules;
mod validate;
mod values;

use serde_json::Value;

use crate::cause::Cause;
use path::Path;
use rules::CompiledRules;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    raw: Value,
    rules: CompiledRules,
}

impl Schema {
    /// Compiles a schema; the error is for its author.
    pub fn compile(raw: &Value) -> Result<Self, String> {
        Ok(Self { raw: raw.clone(), rules: CompiledRules::compile(raw)? })
    }

    /// Removes unknown fields and returns their paths.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        prune::prune(&self.raw, object, Path::Root, &mut unknown);
        unknown
    }

    /// Fills defaults in.
    pub fn default(&self, object: &mut Value) {
        prune::fill(&self.raw, object);
    }

    /// What is invalid in an object; `old` is the object it replaces, for transition rules.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = self.validate_form(object, old);
        self.validate_rules(object, old, &mut causes);
        causes
    }

    /// Checks types, ranges and the like.
    pub(crate) fn validate_form(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        validate::validate(&self.raw, object, old, "", &mut causes);
        causes
    }

    /// Checks lists and CEL rules. CEL rules are evaluated only if the checks before found nothing that hides them.
    pub(crate) fn validate_rules(&self, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
        let mut twice = Vec::new();
        lists::validate(&self.raw, object, Path::Root, &mut twice);
        if let Some(old) = old.filter(|_| !twice.is_empty()) {
            let mut before = Vec::new();
            lists::validate(&self.raw, old, Path::Root, &mut before);
            if !before.is_empty() {
                twice.clear();
            }
        }
        causes.extend(twice);
        if !causes.iter().any(Cause::hides_rules) {
            self.rules.check(object, old, causes);
        } else if !self.rules.is_empty() {
            causes.push(Cause::invalid(
                "<nil>",
                &Value::Null,
                "some validation rules were not checked because the object was invalid; correct the existing errors \
                 to complete validation",
            ));
        }
    }
}
