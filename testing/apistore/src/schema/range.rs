//! Numeric ranges, lengths, counts, patterns and formats.

use serde_json::Value;

use crate::cause::Cause;

pub(super) fn check(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Number(number) => check_number(schema, number.as_f64().unwrap_or(0.0), value, path, causes),
        Value::String(text) => check_text(schema, text, value, path, causes),
        Value::Array(entries) => {
            check_count(schema, ["minItems", "maxItems"], "items", entries.len(), path, causes);
        }
        Value::Object(fields) => {
            check_count(schema, ["minProperties", "maxProperties"], "properties", fields.len(), path, causes);
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn check_number(schema: &Value, number: f64, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if schema["format"] == "int32" && (number < f64::from(i32::MIN) || number > f64::from(i32::MAX)) {
        let message = format!("Checked value must be of type integer with format int32 in {path}");
        causes.push(Cause::invalid("<nil>", &Value::String(String::new()), message));
    }
    let mut wrong = |message: String| causes.push(Cause::invalid(path, value, message));
    let exclusive = |key: &str| schema[key] == true;
    if let Some(maximum) = schema["maximum"].as_f64() {
        if exclusive("exclusiveMaximum") && number >= maximum {
            wrong(format!("{path} in body should be less than {maximum}"));
        } else if number > maximum {
            wrong(format!("{path} in body should be less than or equal to {maximum}"));
        }
    }
    if let Some(minimum) = schema["minimum"].as_f64() {
        if exclusive("exclusiveMinimum") && number <= minimum {
            wrong(format!("{path} in body should be greater than {minimum}"));
        } else if number < minimum {
            wrong(format!("{path} in body should be greater than or equal to {minimum}"));
        }
    }
    if let Some(step) = schema["multipleOf"].as_f64()
        && number % step != 0.0
    {
        wrong(format!("{path} in body should be a multiple of {step}"));
    }
}

fn check_text(schema: &Value, text: &str, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let length = text.chars().count() as u64;
    if let Some(limit) = schema["maxLength"].as_u64()
        && length > limit
    {
        causes.push(Cause::too_long(path, limit));
    }
    if let Some(limit) = schema["minLength"].as_u64()
        && length < limit
    {
        causes.push(Cause::invalid(
            path,
            value,
            format!("{path} in body should be at least {limit} chars long"),
        ));
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && !regex::Regex::new(pattern).is_ok_and(|regex| regex.is_match(text))
    {
        causes.push(Cause::invalid(path, value, format!("{path} in body should match '{pattern}'")));
    }
    if schema["format"] == "date-time" && text.parse::<jiff::Timestamp>().is_err() {
        let message = format!("{path} in body must be of type date-time: {value}");
        causes.push(Cause::invalid_type(path, value, message));
    }
}

fn check_count(
    schema: &Value,
    limits: [&str; 2],
    what: &str,
    count: usize,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    let [least, most] = limits.map(|limit| schema[limit].as_u64());
    if let Some(least) = least
        && (count as u64) < least
    {
        let message = format!("{path} in body should have at least {least} {what}");
        causes.push(Cause::invalid(path, &Value::from(count), message));
    }
    if let Some(most) = most
        && count as u64 > most
    {
        let message = format!("Too many: {count}: must have at most {most} items");
        causes.push(Cause { field: path.to_owned(), reason: "FieldValueTooMany", message });
    }
}
