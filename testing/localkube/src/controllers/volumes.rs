//! The volume binder and its provisioner: gives a claim its volume once its class allows (for a class that waits
//! for the first consumer: once the scheduler chose the node), protects claims that Pods use, grows them, and
//! takes volumes away with their claims where the class says so. A volume is a directory of its node.

mod binding;
mod expansion;
mod protection;
mod reclaim;

use quorate_apistore::fields::annotation;
use serde_json::Value;

use super::action::Action;
use super::view::{View, kinds};
use crate::events::Note;

const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
const BINDER: &str = "persistentvolume-controller";

/// One pass over all claims and volumes.
pub fn step(view: &View) -> Vec<Action> {
    let claims = view.all(kinds::CLAIMS).flat_map(|claim| {
        let protect = protection::claim(view, claim);
        // One write an object and a step: the second would carry an old resource version.
        if protect.is_empty() { serve(view, claim) } else { protect }
    });
    let volumes = view.all(kinds::VOLUMES).flat_map(|volume| reclaim::volume(view, volume));
    claims.chain(volumes).collect()
}

/// The class of claims that name none.
pub(super) fn default_class(view: &View) -> Option<&Value> {
    view.all(kinds::CLASSES).find(|class| annotation(class, IS_DEFAULT) == Some("true"))
}

fn serve(view: &View, claim: &Value) -> Vec<Action> {
    let bind = binding::claim(view, claim);
    if bind.is_empty() { expansion::claim(view, claim) } else { bind }
}

/// A note about a claim, unless the same was told before: a claim that waits says so once.
fn tell(view: &View, note: Note) -> Option<Action> {
    (!view.was_told(&note)).then_some(Action::Record(note))
}
