//! One CEL rule: when it is evaluated, and the message when it fails.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube_cel::KubeCelExt as _;
use kube_cel::cel::objects::{OptionalValue, Value as Cel};
use kube_cel::cel::{Context, Program};
use serde_json::Value;

use super::reads::Reads;
use super::values::to_cel;
use crate::cause::Cause;

#[derive(Debug)]
pub(super) struct Rule {
    program: Program,
    text: String,
    message: Option<String>,
    message_program: Option<Program>,
    field_path: Option<String>,
    reason: Option<String>,
    is_transition: bool,
    optional_old_self: bool,
    reads: Reads,
    /// Hashes of inputs for which the rule holds. A status is written often, and most fields that rules read stay the
    /// same.
    satisfied: Mutex<HashSet<u64>>,
}

/// How many hashes are kept.
const MAX_SATISFIED: usize = 10_000;

impl Rule {
    pub(super) fn compile(validation: &Value) -> Result<Self, String> {
        let text = validation["rule"].as_str().unwrap_or_default().to_owned();
        let compile = |text: &str| {
            Program::compile(text)
                .map_err(|error| format!("x-kubernetes-validations: rule {text:?}: {error}"))
        };
        let program = compile(&text)?;
        let message_program = validation["messageExpression"].as_str().map(compile).transpose()?;
        let optional = |key: &str| validation[key].as_str().map(str::to_owned);
        let reads = Reads::of(program.expression());
        let is_transition = program.references().variables().contains(&"oldSelf");
        Ok(Self {
            program,
            text,
            message: optional("message"),
            message_program,
            field_path: optional("fieldPath"),
            reason: optional("reason"),
            is_transition,
            optional_old_self: validation["optionalOldSelf"] == true,
            reads,
            satisfied: Mutex::default(),
        })
    }

    fn satisfied(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.satisfied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn check(
        &self,
        schema: &Value,
        path: &str,
        value: &Value,
        old: Option<&Value>,
        causes: &mut Vec<Cause>,
    ) {
        if self.is_transition && old.is_none() && !self.optional_old_self {
            return;
        }
        // As on a real server, a value that did not change is not checked again, so that other fields can be repaired.
        if !self.is_transition && old == Some(value) {
            return;
        }
        let read = self.reads.fingerprint(value, old);
        if self.satisfied().contains(&read) {
            return;
        }
        let context = self.context(schema, value, old);
        let why = match self.program.execute(&context) {
            Ok(Cel::Bool(true)) => {
                let mut satisfied = self.satisfied();
                if satisfied.len() < MAX_SATISFIED {
                    satisfied.insert(read);
                }
                return;
            }
            Ok(Cel::Bool(false)) => self.message(&context),
            Ok(other) => {
                format!("rule evaluated to {} instead of a boolean: {}", other.type_of(), self.text.trim())
            }
            Err(error) => format!("{error} evaluating rule: {}", self.text.trim()),
        };
        let field = match &self.field_path {
            Some(below) => format!("{path}{below}").trim_start_matches('.').to_owned(),
            None if path.is_empty() => "<nil>".to_owned(),
            None => path.to_owned(),
        };
        causes.push(match self.reason.as_deref() {
            Some("FieldValueForbidden") => Cause::forbidden(field, why),
            Some("FieldValueRequired") => Cause::required_because(field, why),
            Some("FieldValueDuplicate") => Cause::duplicate(field, value),
            Some(_) | None => Cause::invalid(field, value, why),
        });
    }

    fn context(&self, schema: &Value, value: &Value, old: Option<&Value>) -> Context<'static> {
        let mut context = Context::default().with_all();
        context.add_variable_from_value("self", to_cel(schema, value));
        let old = old.map(|old| to_cel(schema, old));
        if self.optional_old_self {
            let old = old.map_or_else(OptionalValue::none, OptionalValue::of);
            context.add_variable_from_value("oldSelf", Cel::Opaque(Arc::new(old)));
        } else if let Some(old) = old {
            context.add_variable_from_value("oldSelf", old);
        }
        context
    }

    fn message(&self, context: &Context<'_>) -> String {
        let computed = self.message_program.as_ref().and_then(|program| match program.execute(context) {
            Ok(Cel::String(text)) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            Ok(_) | Err(_) => None,
        });
        let given = || self.message.as_deref().map(|message| message.trim().to_owned());
        computed.or_else(given).unwrap_or_else(|| format!("failed rule: {}", self.text.trim()))
    }
}
