//! Rotation of a certificate authority, without an outage: another one takes its place, first trusted, then signing, then alone.
//!
//! C1 make the new authority and record both; C2 both into every bundle, and a rollout, since etcd reads what it trusts once; C3 every member
//! is seen to trust both, and clients had their time; C4 the new one signs; C5 every member is seen to present what it signed, and clients
//! had their time again; C6 the earlier one out of every bundle, and a rollout; C7 done.
//!
//! `rollout` restarts the members: a Pod of an earlier generation of trust is a stale one.

use std::collections::BTreeSet;

use quorate_model::effect::{AuthorityPlace, AuthorityWait, NotRotated};
use quorate_model::mutants::{Rule, is_broken};
use quorate_model::rotation::{Rotation, RotationStage};
use quorate_model::snapshot::{Authority, AuthoritySecret, Certificates, LeafSecret, Signing};
use quorate_model::{Ca, Fingerprint, KubeEffect, Leaf, Step, Waiting};

use crate::draft::Draft;
use crate::{View, safety};

/// No generation of trust comes that far: a person made it up.
const MADE_UP: u32 = 1_000_000;

/// The same where no Pod exists. An authority that is to be replaced by order is replaced at once; whether that is under way.
pub(crate) fn advance_without_pods(draft: &mut Draft<'_>) -> bool {
    let swaps = swap(draft);
    if !swaps {
        advance(draft);
    }
    swaps
}

/// C1 and C4 in one: nobody trusts anything, so nobody has to learn to trust the new one first. It takes the place of one that is lost, has ended or
/// cannot be read as well as of one that signs.
fn swap(draft: &mut Draft<'_>) -> bool {
    let Some(seen) = draft.seen.certificates.as_ref() else { return false };
    let Some(ca) = draft.seen.unspent_rotation(&draft.record).map(|order| order.ca) else { return false };
    if safety::may_swap(draft.view(), ca).is_err() {
        return false;
    }
    let wanted = wanted_of(draft.view(), seen, ca);
    let Some(wanted) = permitted(draft, wanted) else { return false };
    replace_at_once(draft, seen, wanted);
    true
}

/// The same where nothing has ever started, and what is issued is all of another authority by now than what was copied: nobody trusts the one before, and
/// its key is nowhere here. Whether that is under way.
pub(crate) fn take_anew(draft: &mut Draft<'_>) -> bool {
    let Some(seen) = draft.seen.certificates.as_ref() else { return false };
    if safety::may_take_anew(draft.view()).is_err() {
        return false;
    }
    if !arrange(draft, seen).is_empty() {
        return true;
    }
    let is_copy = draft.record.given && seen.keyless().is_some();
    let wanted = wanted_of_clients(draft.view(), seen).ok().flatten();
    let Some(wanted) = wanted.filter(|wanted| is_copy && wanted.given.is_some()) else { return false };
    replace_at_once(draft, seen, wanted);
    true
}

/// C1, then C4: makes or copies the authority, then records that it signs. No process trusts another one.
fn replace_at_once(draft: &mut Draft<'_>, seen: &Certificates, Wanted { ca, order, given }: Wanted) {
    let from = draft.record.authority_of(ca).cloned();
    let secret = seen.authorities.get(&ca);
    let found = secret.and_then(|secret| made(draft, secret, from.as_ref(), given.as_ref()));
    let Some(to) = found.cloned() else {
        draft.write(Step::C1, make(ca, secret, given));
        return;
    };
    draft.write_record(Step::C4, |record| {
        record.keep_certificate(&to);
        record.record_authority(ca, to.fingerprint);
        if ca == Ca::Clients {
            record.given = given.is_some();
        }
        record.rotation = record.rotation.take().filter(|rotation| rotation.ca != ca);
        record.spent_rotation = order.or_else(|| record.spent_rotation.take());
        // Kubelets may still have what was there before: Pods wait for this generation.
        record.trust += 1;
    });
}

/// What is wanted, if nothing is in the way of it that a person has to know.
fn permitted(draft: &mut Draft<'_>, wanted: Result<Option<Wanted>, NotRotated>) -> Option<Wanted> {
    let refusal = match wanted {
        Ok(Some(wanted)) => match safety::may_replace_authority(draft.view(), wanted.given.as_ref()) {
            Ok(()) => return Some(wanted),
            Err(why) => NotRotated::Unsafe(why),
        },
        Ok(None) => return None,
        Err(why) => why,
    };
    draft.wait(Waiting::Authority(AuthorityWait::NotRotated(refusal)));
    None
}

/// One step further, if it is safe. Nothing waits for it: the members serve on meanwhile.
pub(crate) fn advance(draft: &mut Draft<'_>) {
    let Some(seen) = draft.seen.certificates.as_ref() else { return };
    go_on_from(draft, seen);
    give_up_what_is_lost(draft, seen);
    let arranged = arrange(draft, seen);
    if draft.record.rotation.is_none() && !is_broken(Rule::R19Bundle) {
        forget_strays(draft, seen, &arranged);
    }
    if draft.record.rotation.is_none() {
        begin(draft, seen);
    }
    if draft.record.rotation.is_some() || !is_broken(Rule::R19Bundle) {
        write_bundles(draft, seen);
    }
    let Some(rotation) = draft.record.rotation.clone() else { return };
    match rotation.stage {
        RotationStage::Trust => sign_with_new(draft, &rotation),
        RotationStage::Sign => drop_earlier(draft, &rotation),
        RotationStage::Drop => finish(draft, &rotation),
    }
}

/// The authority that is to be replaced.
pub(crate) struct Wanted {
    pub(crate) ca: Ca,
    /// The text of the order, if it is one.
    pub(crate) order: Option<String>,
    /// The one that takes its place, if the spec names it; `None` if one is made.
    pub(crate) given: Option<Fingerprint>,
}

/// The authority that is to be replaced: by order, since the spec says of another one where it comes from, or since two thirds of its life are
/// over. `Err` if an order cannot be followed, or the authority that the spec names cannot be taken: why.
pub(crate) fn wanted(view: View<'_>) -> Result<Option<Wanted>, NotRotated> {
    let Some(certificates) = view.seen.certificates.as_ref() else { return Ok(None) };
    // That of peers first: it has no clients that need their time.
    match wanted_of(view, certificates, Ca::Peers) {
        Ok(None) => wanted_of(view, certificates, Ca::Clients),
        of_peers => of_peers,
    }
}

fn wanted_of(view: View<'_>, certificates: &Certificates, ca: Ca) -> Result<Option<Wanted>, NotRotated> {
    match ca {
        Ca::Peers => {
            let order = ordered(view, ca);
            let is_wanted = order.is_some() || is_due(view, certificates, ca);
            Ok(is_wanted.then_some(Wanted { ca, order, given: None }))
        }
        Ca::Clients => wanted_of_clients(view, certificates),
    }
}

/// The same for the authority of clients alone.
fn wanted_of_clients(view: View<'_>, certificates: &Certificates) -> Result<Option<Wanted>, NotRotated> {
    let (ca, record) = (Ca::Clients, view.record);
    let order = ordered(view, ca);
    let Some(named) = &certificates.given else {
        let is_wanted = order.is_some() || record.given || is_due(view, certificates, ca);
        return Ok(is_wanted.then_some(Wanted { ca, order, given: None }));
    };
    let unusable = |why| NotRotated::Unusable { secret: named.secret.clone(), why };
    let given = named.usable(record, view.now).map_err(unusable)?;
    if record.authority.as_ref() != Some(&given.fingerprint) {
        return Ok(Some(Wanted { ca, order, given: Some(given.fingerprint.clone()) }));
    }
    // Whoever made it renews it.
    if order.is_some() { Err(NotRotated::CopyOf(named.secret.clone())) } else { Ok(None) }
}

/// The text of the order, if there is one that is not spent.
fn ordered(view: View<'_>, ca: Ca) -> Option<String> {
    let order = view.seen.unspent_rotation(view.record).filter(|order| order.ca == ca);
    order.map(|order| order.text.clone())
}

/// Whether two thirds of its life are over, and what spreads the authorities of a fleet.
fn is_due(view: View<'_>, certificates: &Certificates, ca: Ca) -> bool {
    let signing = view.seen.signing(certificates, view.record, ca);
    matches!(signing, Signing::With(_, authority) if view.earliest() >= authority.due())
}

/// Where status was lost, Secrets and Pods say how far the generation had come: one that is used again would say of a Pod that it read what it
/// did not.
fn go_on_from(draft: &mut Draft<'_>, seen: &Certificates) {
    let of_leaves = seen.leaves.values().filter_map(|leaf| Some(leaf.content.as_ref().ok()?.trust));
    // Pods are asked only where nothing is recorded: more people may annotate them.
    let of_pods = draft.seen.pods.values().map(|pod| pod.trust).filter(|_| draft.record.trust == 0);
    let known = of_leaves.chain(of_pods).max().unwrap_or(0);
    if known > draft.record.trust && known < MADE_UP {
        draft.write_record(Step::C1, |record| record.trust = known);
    }
}

/// The new authority is gone before it signed, or the rest of what came with it has ended: nobody can sign by it. That is as if it had never been, and
/// the order begins anew. What is lost after that is lost as any other: where no Pod runs, another one takes its place at once.
fn give_up_what_is_lost(draft: &mut Draft<'_>, seen: &Certificates) {
    let Some(rotation) = draft.record.rotation.clone() else { return };
    let to = seen.authorities.get(&rotation.ca).and_then(|secret| secret.with(&rotation.to));
    let can_sign = to.is_some_and(|to| has_what_it_signs(draft, seen, to));
    if rotation.stage == RotationStage::Trust && !can_sign {
        give_up(draft, seen, &rotation);
    }
}

/// Whether an authority can sign, or has every leaf without that.
fn has_what_it_signs(draft: &Draft<'_>, seen: &Certificates, authority: &Authority) -> bool {
    !authority.keyless || safety::has_all_leaves(draft.view(), seen, authority)
}

/// C7. Somebody may have its key: whoever may trust it already forgets it.
fn give_up(draft: &mut Draft<'_>, seen: &Certificates, rotation: &Rotation) {
    let is_to = |one: &Fingerprint| *one == rotation.to;
    let mut leaves = seen.leaves.values().filter_map(|secret| secret.content.as_ref().ok());
    let is_written = leaves.any(|leaf| leaf.trusted.iter().chain(&leaf.signed_by).any(is_to));
    // It read what Secrets had in this generation, whatever they have by now.
    let is_read = draft.seen.pods.values().any(|pod| pod.trust >= draft.record.trust);
    draft.write_record(Step::C7, |record| {
        record.rotation = None;
        if !rotation.given {
            record.spent_rotation = None;
        }
    });
    if is_written || is_read {
        forget(draft, rotation.ca, [rotation.to.clone()].into());
    }
}

/// What more than the recorded authority is trusted at rest: a rotation was given up or forgotten, or somebody put it there. Where a leaf of it is left
/// that nothing can replace now, it is trusted until one does.
fn forget_strays(draft: &mut Draft<'_>, seen: &Certificates, arranged: &[Ca]) {
    // What is about to get its place signs all leaves anew then.
    for ca in [Ca::Peers, Ca::Clients].into_iter().filter(|ca| !arranged.contains(ca)) {
        let presented = seen.stray_signers(&draft.record, ca, |leaf| !draft.signs(leaf));
        let strays = seen.strays(&draft.record, ca);
        if let Some(from) = presented.into_iter().next() {
            resume(draft, ca, from, Step::I1);
            return;
        }
        // Without a Pod nobody has read it.
        if !strays.is_empty() && !draft.seen.pods.is_empty() {
            forget(draft, ca, strays);
            return;
        }
    }
}

/// The stage `Sign` once more: somebody may present what this one has signed, so it is forgotten when nobody does.
pub(crate) fn resume(draft: &mut Draft<'_>, ca: Ca, from: Fingerprint, step: Step) {
    enter(draft, step, ca, from, RotationStage::Sign);
}

/// Records that the present authority takes the place of this one, and how far it is.
fn enter(draft: &mut Draft<'_>, step: Step, ca: Ca, from: Fingerprint, stage: RotationStage) {
    let Some(to) = draft.record.authority_of(ca).cloned() else { return };
    let since = draft.latest();
    draft.write_record(step, |record| {
        let given = ca == Ca::Clients && record.given;
        record.rotation = Some(Rotation { ca, from, to, given, stage, since, told: None });
        // Who has read more reads it again.
        record.trust += u32::from(stage == RotationStage::Drop);
    });
}

/// C6 by itself: nothing but what signs is trusted, and what members have read they forget by a restart.
fn forget(draft: &mut Draft<'_>, ca: Ca, these: BTreeSet<Fingerprint>) {
    if let Some(from) = these.into_iter().next() {
        enter(draft, Step::C6, ca, from, RotationStage::Drop);
    }
}

/// C1: the next authority, once it is in the Secret, is recorded; else it is made, or copied.
fn begin(draft: &mut Draft<'_>, seen: &Certificates) {
    let wanted = wanted(draft.view());
    let Some(Wanted { ca, order, given }) = permitted(draft, wanted) else { return };
    if draft.wait_unless_safe(safety::may_begin_rotation(draft.view())) {
        return;
    }
    let Some(from) = draft.record.authority_of(ca).cloned() else { return };
    let secret = seen.authorities.get(&ca);
    let found = secret.and_then(|secret| made(draft, secret, Some(&from), given.as_ref()));
    let Some(next) = found.cloned() else {
        draft.write(Step::C1, make(ca, secret, given));
        return;
    };
    let since = draft.latest();
    draft.write_record(Step::C1, |record| {
        record.keep_certificate(&next);
        let (to, given, stage) = (next.fingerprint, given.is_some(), RotationStage::Trust);
        record.rotation = Some(Rotation { ca, from, to, given, stage, since, told: None });
        record.spent_rotation = order.or_else(|| record.spent_rotation.take());
        record.trust += 1;
    });
}

/// Makes the next authority beside the one that it takes the place of, or in a new Secret, if that is lost.
fn make(ca: Ca, secret: Option<&AuthoritySecret>, given: Option<Fingerprint>) -> KubeEffect {
    match secret {
        None => KubeEffect::CreateAuthority { ca, place: AuthorityPlace::Next, given },
        Some(secret) => KubeEffect::MakeNextAuthority { ca, given, observed: secret.observed.clone() },
    }
}

/// The authority beside the present one that is to take its place, if it was made, or copied, and can be used. What has the place of the signer is not
/// asked: an earlier one that somebody has put there would sign again.
fn made<'a>(
    draft: &Draft<'_>,
    secret: &'a AuthoritySecret,
    from: Option<&Fingerprint>,
    given: Option<&Fingerprint>,
) -> Option<&'a Authority> {
    let next = secret.next.as_ref().filter(|next| Some(&next.fingerprint) != from)?;
    let is_usable = match given {
        Some(given) => {
            let seen = draft.seen.certificates.as_ref()?;
            next.fingerprint == *given && has_what_it_signs(draft, seen, next)
        }
        // What was copied before the spec ceased to name it is not taken for one that was made.
        None => next.minted && !next.keyless && draft.now < next.due(),
    };
    is_usable.then_some(next)
}

/// C2, C6: what the holders of each leaf are to trust, and the generation of all of them.
fn write_bundles(draft: &mut Draft<'_>, seen: &Certificates) {
    let rotation = draft.record.rotation.as_ref();
    let (rotates, stage) = (rotation.map(|rotation| rotation.ca), rotation.map(|rotation| rotation.stage));
    let step = if stage == Some(RotationStage::Drop) { Step::C6 } else { Step::C2 };
    // Whoever has read more at the other port reads it again with the rest. What has an earlier generation is read again anyway.
    let has_strays =
        |leaf: Leaf| rotates != Some(leaf.ca()) && !seen.strays(&draft.record, leaf.ca()).is_empty();
    let is_current = |secret: &LeafSecret| {
        secret.content.as_ref().is_ok_and(|content| content.trust >= draft.record.trust)
    };
    if seen.leaves.iter().any(|(leaf, secret)| has_strays(*leaf) && is_current(secret)) {
        draft.write_record(step, |record| record.trust += 1);
    }
    for (leaf, secret) in &seen.leaves {
        let trust = seen.to_trust(&draft.record, leaf.ca());
        let trust: Vec<Fingerprint> = trust.into_iter().cloned().collect();
        if !trust.is_empty() && !draft.signs(*leaf) && !is_written(secret, draft.record.trust, &trust) {
            let (leaf, observed, generation) = (*leaf, secret.observed.clone(), draft.record.trust);
            draft.write(step, KubeEffect::WriteTrust { leaf, observed, trust, generation });
        }
    }
}

fn is_written(secret: &LeafSecret, generation: u32, trust: &[Fingerprint]) -> bool {
    // I3 issues one anew first that cannot be read.
    let content = secret.content.as_ref();
    content.map_or(true, |content| content.trust >= generation && content.trusted == trust)
}

/// C3, C4.
fn sign_with_new(draft: &mut Draft<'_>, rotation: &Rotation) {
    if wait_for_clients(draft, rotation, Step::C3) {
        return;
    }
    if let Err(why) = safety::may_sign_with_new(draft.view()) {
        draft.wait(Waiting::Authority(AuthorityWait::Rotating(rotation.clone(), why)));
        return;
    }
    let next = rotation.clone().next(RotationStage::Sign, draft.latest());
    draft.write_record(Step::C4, |record| {
        record.record_authority(next.ca, next.to.clone());
        if next.ca == Ca::Clients {
            record.given = next.given;
        }
        record.rotation = Some(next);
    });
}

/// C5, C6.
fn drop_earlier(draft: &mut Draft<'_>, rotation: &Rotation) {
    if wait_for_clients(draft, rotation, Step::C5) {
        return;
    }
    if let Err(why) = safety::may_drop_earlier(draft.view()) {
        draft.wait(Waiting::Authority(AuthorityWait::Rotating(rotation.clone(), why)));
        return;
    }
    let next = rotation.clone().next(RotationStage::Drop, draft.latest());
    draft.write_record(Step::C6, |record| {
        record.rotation = Some(next);
        record.trust += 1;
    });
}

/// C7.
fn finish(draft: &mut Draft<'_>, rotation: &Rotation) {
    match safety::is_dropped(draft.view()) {
        Ok(()) => draft.write_record(Step::C7, |record| record.rotation = None),
        Err(why) => draft.wait(Waiting::Authority(AuthorityWait::Rotating(rotation.clone(), why))),
    }
}

/// Whether clients have time left, which a person may cut short. Since when they can know is recorded, as long as it is so; before that the gate refuses
/// what follows.
fn wait_for_clients(draft: &mut Draft<'_>, rotation: &Rotation, step: Step) -> bool {
    let (is_told, now) = (draft.seen.untold(rotation).is_none(), draft.latest());
    if rotation.concerns_clients() && rotation.told.is_some() != is_told {
        let told = is_told.then_some(now);
        draft.write_record(step, |record| record.rotation = Some(Rotation { told, ..rotation.clone() }));
    }
    let rotation = &draft.record.rotation.clone().unwrap_or_else(|| rotation.clone());
    let until = draft.seen.clients_have_until(rotation);
    let Some(until) = until.filter(|until| draft.view().earliest() < *until) else {
        return false;
    };
    draft.wait(Waiting::Authority(AuthorityWait::ClientsHaveTime(rotation.clone(), until)));
    true
}

/// C4: the recorded authority has the place of the signer in its Secret. Those that get it now.
fn arrange(draft: &mut Draft<'_>, seen: &Certificates) -> Vec<Ca> {
    let mut arranged = Vec::new();
    for (ca, secret) in &seen.authorities {
        let Some(signer) = draft.record.authority_of(*ca).cloned() else { continue };
        if secret.with(&signer).is_some() && !secret.is_first(&signer) {
            let (ca, observed) = (*ca, secret.observed.clone());
            draft.write(Step::C4, KubeEffect::ArrangeAuthority { ca, observed, signer });
            arranged.push(ca);
        }
    }
    arranged
}
