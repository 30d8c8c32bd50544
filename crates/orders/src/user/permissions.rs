//! What a role allows: ranges of keys, as etcd has them. Keys are bytes there, so these are, too.

use std::collections::BTreeMap;

use quorate_api::user::{UserAccess, UserPermission};

/// One key, or the keys from `key` up to `end`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    /// The key, or the first one.
    pub key: Vec<u8>,
    /// The first key that is not in it any more. Empty: `key` alone. One zero byte: all keys from `key` on.
    pub end: Vec<u8>,
}

/// What a role allows. etcd has one access for each range.
pub type Permissions = BTreeMap<Range, UserAccess>;

/// The end of a range that has none.
const WITHOUT_END: &[u8] = &[0];

impl Range {
    /// One key.
    pub fn key(key: impl Into<Vec<u8>>) -> Self {
        Self { key: key.into(), end: Vec::new() }
    }

    /// All keys that begin so. Of an empty prefix: all keys.
    pub fn prefix(prefix: &[u8]) -> Self {
        if prefix.is_empty() {
            return Self { key: vec![0], end: WITHOUT_END.to_vec() };
        }
        // The last byte that can be raised. After a prefix of nothing but 0xff there is no key that does not begin so.
        let kept = prefix.iter().rposition(|byte| *byte < u8::MAX);
        let end = kept.map_or_else(
            || WITHOUT_END.to_vec(),
            |last| {
                let mut end = prefix[..=last].to_vec();
                end[last] += 1;
                end
            },
        );
        Self { key: prefix.to_vec(), end }
    }

    /// The range of a permission in a spec; `None` for one that says nothing, or two things.
    pub fn of(permission: &UserPermission) -> Option<Self> {
        let UserPermission { prefix, key, all_keys, access: _ } = permission;
        match (prefix.as_deref(), key.as_deref(), all_keys) {
            (Some(prefix), None, false) if !prefix.is_empty() => Some(Self::prefix(prefix.as_bytes())),
            (None, Some(key), false) if !key.is_empty() => Some(Self::key(key)),
            (None, None, true) => Some(Self::prefix(b"")),
            (_, _, _) => None,
        }
    }

    /// Whether one of these bounds admits every key of it. An empty one admits all keys, one that ends at a boundary what begins with it,
    /// and one that does not is meant as a directory: itself, and what is below it.
    pub fn is_within(&self, bounds: &[String]) -> bool {
        bounds.iter().any(|bound| match below(bound) {
            None => self.is_below(bound.as_bytes()),
            Some(below) => *self == Self::key(bound.as_bytes()) || self.is_below(below.as_bytes()),
        })
    }

    fn is_below(&self, prefix: &[u8]) -> bool {
        if prefix.is_empty() {
            return true;
        }
        if self.end.is_empty() {
            return self.key.starts_with(prefix);
        }
        let admitted = Self::prefix(prefix);
        let ends_before =
            admitted.end == WITHOUT_END || (self.end != WITHOUT_END && self.end <= admitted.end);
        self.key.as_slice() >= prefix && ends_before
    }

    /// For messages.
    pub fn describe(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).escape_debug().to_string();
        if self.end.is_empty() {
            return format!("key {}", text(&self.key));
        }
        if *self == Self::prefix(b"") {
            return "all keys".to_owned();
        }
        if *self == Self::prefix(&self.key) {
            return format!("prefix {}", text(&self.key));
        }
        format!("keys from {} to {}", text(&self.key), text(&self.end))
    }
}

/// For a bound that does not end at a boundary: what the keys below it begin with. A prefix of etcd is any text, so `/tenant1` would admit
/// `/tenant10`, too, which is another tenant.
pub(super) fn below(bound: &str) -> Option<String> {
    let is_closed = bound.chars().next_back().is_none_or(|last| last.is_ascii_punctuation());
    (!is_closed).then(|| format!("{bound}/"))
}

/// What a spec asks for. Two entries for one range allow both.
pub fn desired(permissions: &[UserPermission]) -> Permissions {
    let mut all = Permissions::new();
    for permission in permissions {
        let Some(range) = Range::of(permission) else { continue };
        all.entry(range)
            .and_modify(|access| *access = both(*access, permission.access))
            .or_insert(permission.access);
    }
    all
}

fn both(one: UserAccess, other: UserAccess) -> UserAccess {
    if one == other { one } else { UserAccess::ReadWrite }
}
