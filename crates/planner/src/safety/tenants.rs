//! What a cluster keeps while Kamaji may have a DataStore for it: etcd's auth, which keeps tenants from the data of each other, and the key by which they
//! get certificates.

use quorate_model::effect::Unsafe;
use quorate_model::{Fingerprint, Snapshot};

use super::{Judged, forbid_if};
use crate::View;

/// L9: whether auth may be disabled, as far as tenants are concerned.
pub(crate) fn may_disable_auth(seen: &Snapshot) -> Judged {
    forbid_if(seen.may_have_data_store, || Unsafe::TenantsNeedAuth)
}

/// C1: whether this one may take the place of the authority of clients, as far as tenants are concerned. One that is recorded already has it.
pub(crate) fn may_replace_authority(view: View<'_>, given: Option<&Fingerprint>) -> Judged {
    let View { seen, record, now } = view;
    let is_next = given.filter(|given| record.authority.as_ref() != Some(given));
    let next = is_next.and_then(|given| seen.certificates.as_ref()?.given_as(given, record, now));
    let lacks_key = seen.may_have_data_store && next.is_some_and(|next| next.keyless);
    forbid_if(lacks_key, || Unsafe::TenantsNeedKey)
}
