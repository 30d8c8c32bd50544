//! The words of certificates and their authorities.

use quorate_api::{Reason, keys};
use quorate_model::Instant;
use quorate_model::effect::{AuthorityWait, NotRotated, NotSigned, NotTaken, Unsafe};
use quorate_model::rotation::{Rotation, RotationStage};

use super::{Row, Stops, moves, needs_person, queues, refusal, waits};
use crate::time;

pub(super) fn row(wait: &AuthorityWait) -> Row {
    match wait {
        AuthorityWait::Lost { secret, loss } => needs_person(
            Reason::AuthorityLost,
            format!(
                "the certificate authority is lost. {secret}: {loss}. No other authority is created, because running members \
                 would not trust it. The members serve on, and certificates are not renewed. Without a backup: annotate the \
                 EtcdCluster with {}=clients or =peers, one after another where both are lost. While a certificate is missing, that is followed \
                 at spec.size 0: set that first, and the earlier size afterwards. The data stay. Restore {secret} from a backup, if there is one, with its labels \
                 and annotations",
                keys::ROTATE_CA
            ),
        ),
        AuthorityWait::Ended(secret) => needs_person(
            Reason::CertificateExpired,
            format!(
                "the certificate authority in {secret} has ended, and it signs no certificates any more. Members and clients \
                 do not accept each other. Set spec.size to 0, annotate the EtcdCluster with {}=clients or =peers, one after another \
                 where both have ended, and set the earlier size. The data stay",
                keys::ROTATE_CA
            ),
        ),
        AuthorityWait::Refused(why) => needs_person(
            Reason::AuthorityRefused,
            format!(
                "{}. Nothing waits for it but what needs its certificates: put it right, or let spec.tls name another one",
                not_taken(why)
            ),
        ),
        AuthorityWait::Rotating(rotation, why) => {
            moves(Reason::RotatingAuthority, rotating(rotation, &refusal(why)))
        }
        AuthorityWait::ClientsHaveTime(rotation, until) => {
            queues(Reason::ClientsMustFollow, clients_have_time(rotation, *until)).stopping(Stops::Nothing)
        }
        AuthorityWait::NotRotated(why) => waits(
            Reason::RotationRefused,
            format!("the authority of clients is not replaced: {}", not_rotated(why)),
        )
        .stopping(Stops::Nothing),
    }
}

fn not_taken(why: &NotTaken) -> String {
    match why {
        NotTaken::NotNamed => "spec.tls does not say any more where certificates come from".to_owned(),
        NotTaken::Unusable { secret, why } => {
            format!("spec.tls names {secret}, whose authority cannot be taken: {why}")
        }
        NotTaken::OfAnother(secret) => format!(
            "spec.tls names {secret}, whose authority cannot be taken: what is there is of another authority than that which members trust, which \
             takes its place by a rotation"
        ),
    }
}

fn not_rotated(why: &NotRotated) -> String {
    match why {
        NotRotated::Unusable { secret, why } => format!("{secret} cannot be taken: {why}"),
        NotRotated::CopyOf(secret) => {
            format!("it is a copy of the one in {secret}. Put another one there, and it takes its place")
        }
        NotRotated::Unsafe(why) => refusal(why),
    }
}

/// Why a certificate could not be signed now, or copied.
pub(super) fn not_signed(why: &NotSigned) -> String {
    match why {
        NotSigned::NoTls => "tls.provider is disabled".to_owned(),
        NotSigned::Ended(secret) => format!("the certificate authority in {secret} has ended"),
        NotSigned::NotCreated(secret) => format!("{secret} does not exist yet"),
        NotSigned::Lost { secret, loss } => format!("the certificate authority is lost. {secret}: {loss}"),
        NotSigned::NotNamed => "the key of the authority is somewhere else, and spec.tls does not say any more where certificates come from".to_owned(),
        NotSigned::NotGiven(why) => why.clone(),
        NotSigned::OfAnother { leaf, secret } => format!(
            "the {leaf} certificate that comes with {secret} is of another authority than that which members trust. That one takes its place by a \
             rotation first, once all certificates are of it"
        ),
    }
}

fn rotating(rotation: &Rotation, why: &str) -> String {
    let Rotation { ca, from, to, stage, given: _, since: _, told: _ } = rotation;
    let step = match stage {
        RotationStage::Trust => "members are being restarted to trust both; then the new one signs",
        RotationStage::Sign => {
            "the new one signs, and both are trusted until nobody presents a certificate of the other"
        }
        RotationStage::Drop => {
            "it is taken out of every Secret, and members are being restarted to forget it"
        }
    };
    if *stage == RotationStage::Drop {
        return format!(
            "the certificate authority of {ca} is {to}, and {from} is no longer to be trusted beside it: {step}. Now: {why}"
        );
    }
    format!("the certificate authority of {ca} {from} is being replaced by {to}: {step}. Now: {why}")
}

/// What clients have to do, by when, and what ends the wait for them.
pub(crate) fn clients_have_time(rotation: &Rotation, until: Instant) -> String {
    let Rotation { ca, from, to, stage, given: _, since: _, told: _ } = rotation;
    let until = time(until).0;
    match stage {
        RotationStage::Trust => format!(
            "clients have until {until} to trust a new authority. The certificate authority of {ca} {from} is being replaced by {to}, which signs \
             from then on. A client that does not trust both by then is cut off. Restart those that read ca.crt once, such as API servers. Once all \
             trust both, annotate the EtcdCluster with {}={to}",
            keys::CLIENTS_TRUST
        ),
        RotationStage::Sign | RotationStage::Drop => format!(
            "clients have until {until} to present a new certificate. The certificate authority of {ca} {from} is being replaced by {to}, and {from} is \
             forgotten from then on. A client that presents what {from} signed is cut off then. Renew every copy of a client certificate. Once all \
             present what {to} signed, annotate the EtcdCluster with {}={to}",
            keys::CLIENTS_PRESENT
        ),
    }
}

/// What holds a rotation up, and what is trusted meanwhile.
pub(crate) fn held_up(rotation: &Rotation, why: &Unsafe) -> String {
    let Rotation { ca, from, to, stage, given: _, since, told: _ } = rotation;
    let said = refusal(why);
    let cure = if let Unsafe::NotTrusted(member) | Unsafe::EarlierPresented(member) = why {
        let key = keys::REPLACE_MEMBER;
        format!(". If {member} does not come back, replace it: annotate the EtcdCluster with {key}={member}")
    } else {
        String::new()
    };
    format!(
        "the change of an authority is held up: {said}. The certificate authority of {ca} {from} has been in the stage {stage} of its replacement by \
         {to} since {}, and {from} stays trusted until that ends{cure}",
        time(*since).0,
    )
}
