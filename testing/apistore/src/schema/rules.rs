//! `x-kubernetes-validations`: the CEL rules of a schema, each at its node.

use serde_json::Value;

use super::correlate::counterpart;
use super::prune::join;
use super::rule::Rule;
use crate::cause::Cause;

/// The rules of a schema node and of the nodes below it.
#[derive(Debug)]
pub(super) struct CompiledRules {
    schema: Value,
    here: Vec<Rule>,
    properties: Vec<(String, CompiledRules)>,
    items: Option<Box<CompiledRules>>,
    additional: Option<Box<CompiledRules>>,
}

impl CompiledRules {
    pub(super) fn compile(schema: &Value) -> Result<Self, String> {
        let here = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
        let here = here.map(Rule::compile).collect::<Result<Vec<_>, String>>()?;
        let mut properties = Vec::new();
        for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
            let rules = Self::compile(schema)?;
            if !rules.is_empty() {
                properties.push((key.clone(), rules));
            }
        }
        let nested = |key: &str| -> Result<Option<Box<Self>>, String> {
            let Some(schema) = schema.get(key).filter(|schema| schema.is_object()) else { return Ok(None) };
            let rules = Self::compile(schema)?;
            Ok((!rules.is_empty()).then(|| Box::new(rules)))
        };
        let (items, additional) = (nested("items")?, nested("additionalProperties")?);
        Ok(Self { schema: schema.clone(), here, properties, items, additional })
    }

    pub(super) fn check(&self, value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
        self.check_at("", value, old, causes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.here.is_empty()
            && self.properties.is_empty()
            && self.items.is_none()
            && self.additional.is_none()
    }

    fn check_at(&self, path: &str, value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
        if value.is_null() {
            return;
        }
        for rule in &self.here {
            rule.check(&self.schema, path, value, old, causes);
        }
        let below = |key: &str| old.and_then(|old| old.get(key));
        for (key, rules) in &self.properties {
            if let Some(value) = value.get(key) {
                rules.check_at(&join(path, key), value, below(key), causes);
            }
        }
        if let (Some(rules), Some(fields)) = (&self.additional, value.as_object()) {
            for (key, value) in fields {
                rules.check_at(&format!("{path}[{key}]"), value, below(key), causes);
            }
        }
        if let (Some(rules), Some(entries)) = (&self.items, value.as_array()) {
            for (index, entry) in entries.iter().enumerate() {
                let old = counterpart(&self.schema, entry, old);
                rules.check_at(&format!("{path}[{index}]"), entry, old, causes);
            }
        }
    }
}
