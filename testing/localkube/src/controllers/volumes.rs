//! The volume binder and its provisioner. It binds a claim to a volume as its class allows (at once, or after the
//! scheduler selected a node), protects claims that Pods use, expands them, and deletes volumes with their claims
//! where the class says so. A volume is a directory of its node.

mod binding;
mod expansion;
mod protection;
mod reclaim;

use quorate_apistore::fields::annotation;
use serde_json::Value;

pub(super) use binding::is_shared;

use super::action::Action;
use super::view::{View, kinds};
use crate::events::Note;

const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
const BINDER: &str = "persistentvolume-controller";

/// One pass over all claims and volumes.
pub fn step(view: &View) -> Vec<Action> {
    let claims = view.all(kinds::CLAIMS).flat_map(|claim| {
        let protect = protection::claim(view, claim);
        // One write for each object and step: a second one would carry an old resourceVersion.
        if protect.is_empty() { serve(view, claim) } else { protect }
    });
    let volumes = view.all(kinds::VOLUMES).flat_map(|volume| reclaim::volume(view, volume));
    claims.chain(volumes).collect()
}

/// The default class.
pub(super) fn default_class(view: &View) -> Option<&Value> {
    view.all(kinds::CLASSES).find(|class| annotation(class, IS_DEFAULT) == Some("true"))
}

fn serve(view: &View, claim: &Value) -> Vec<Action> {
    let bind = binding::claim(view, claim);
    if bind.is_empty() { expansion::claim(view, claim) } else { bind }
}

/// Records a note about a claim unless its event exists: a waiting claim reports its reason once.
fn record_once(view: &View, note: Note) -> Option<Action> {
    (!view.is_recorded(&note)).then_some(Action::Record(note))
}
