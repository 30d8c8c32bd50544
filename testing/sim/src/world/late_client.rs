//! A client that reads the connection Secret as late as it may: once the time that `tls.rotation.clientGrace` gives it is over. Whoever rereads in time is
//! never refused, and refuses no member.

use quorate_api::{duration, keys};
use quorate_apistore::fields::{annotation, text};
use quorate_manifests::{Kind, names};
use quorate_model::rotation::RotationPolicy;
use quorate_model::{Instant, Span};

use super::World;
use super::other_operator::is_of_other_operator;
use crate::oracle::Property;
use crate::trust::Mounted;

/// What the client has read, and since when the Secret has something else.
#[derive(Clone, Debug)]
pub(crate) struct LateClient {
    ca: String,
    cert: String,
    differs_since: Option<Instant>,
}

impl World {
    /// The client reads, if it has to, and connects to every member that runs.
    pub(super) fn judge_late_client(&mut self, presented: &[Mounted]) {
        let Some(secret) = self.object(Kind::Secret, &names::connection(&self.at)) else { return };
        let (ca, cert) =
            (text(&secret, "/data/ca.crt").to_owned(), text(&secret, "/data/tls.crt").to_owned());
        if cert.is_empty() || is_of_other_operator(&secret) {
            return;
        }
        let now = self.now;
        // Where no process runs nothing is refused, and whoever comes back reads anew.
        let reads_at_once = presented.is_empty() || self.says_that_clients_have_followed();
        let grace = self.client_grace();
        let mut client = self.trust.client.take().filter(|_| !reads_at_once).unwrap_or_else(|| LateClient {
            ca: ca.clone(),
            cert: cert.clone(),
            differs_since: None,
        });
        let differs = client.ca != ca || client.cert != cert;
        client.differs_since = client.differs_since.filter(|_| differs).or(differs.then_some(now));
        if client.differs_since.is_some_and(|since| now - since >= grace) {
            client = LateClient { ca, cert, differs_since: None };
        }
        let refuses = presented.iter().any(|member| !self.trust.admits(&client.ca, &member.server));
        let mut members = self.trust.members.values();
        let is_refused = members.any(|member| !self.trust.admits(&member.server_ca, &client.cert));
        if refuses || is_refused {
            let how = format!(
                "a client that reads the connection Secret within {grace} {} a member",
                if refuses { "refuses" } else { "is refused by" }
            );
            self.oracle.add_violation(Property::ClientsAreTold, how);
        }
        self.trust.client = Some(client);
    }

    /// Whether a person says that every client has followed, so that none is late.
    fn says_that_clients_have_followed(&self) -> bool {
        let Some(cluster) = self.object(Kind::Cluster, &self.at.name) else { return false };
        [keys::CLIENTS_TRUST, keys::CLIENTS_PRESENT].iter().any(|key| annotation(&cluster, key).is_some())
    }

    fn client_grace(&self) -> Span {
        let cluster = self.cluster();
        let rotation = cluster.as_ref().and_then(|cluster| cluster.spec.tls.rotation.as_ref());
        let grace = rotation.and_then(|rotation| duration::seconds(rotation.client_grace.as_deref()?));
        grace.map_or(RotationPolicy::CLIENT_GRACE, Span::seconds)
    }
}
