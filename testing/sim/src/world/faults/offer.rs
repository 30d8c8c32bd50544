//! The faults that can strike at a moment.

use quorate_apistore::fields::{name, uid};
use quorate_manifests::Kind;
use quorate_model::Effect;
use quorate_model::auth::AuthStage;

use super::{Fault, Patch, Planted, Unread};
use crate::world::World;
use crate::world::clocks::Clock;
use crate::world::wire::RequestOutcome;

impl World {
    /// Every fault that can strike now.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = self.faults_of_the_operator();
        faults.extend(self.faults_of_members());
        faults.extend(self.faults_of_objects());
        faults.extend([Fault::LoseStatus, Fault::OldList, Fault::Expired]);
        faults.extend([Fault::SecondBudget, Fault::BudgetsBehind, Fault::ClientsOnNames]);
        faults.extend(self.names_of_other_operator().map(Fault::OtherOperator));
        if self.wide {
            faults.extend(self.volumes_to_go_back());
            faults.extend([Fault::Restored(true), Fault::Restored(false)]);
            faults.extend(self.fields_to_spoil().map(|field| Fault::SpoilStatus(field.to_owned())));
            if self.record().auth == Some(AuthStage::On) {
                let all = [Planted::Orphan, Planted::OfEtcdUser, Planted::ByHand];
                faults.extend(all.map(Fault::PlantUser));
            }
            let members =
                self.record().members.keys().map(|member| member.as_str().to_owned()).collect::<Vec<_>>();
            faults.extend(members.into_iter().map(Fault::RemovedByHand));
            faults.extend((!self.late.is_empty()).then_some(Fault::Arrives));
            faults.extend(self.refusals());
            let recorded = self.record().voters().map(|voter| voter.as_str().to_owned()).collect::<Vec<_>>();
            let claims = recorded.into_iter().filter(|voter| self.object(Kind::Volume, voter).is_some());
            let touch = |claim| Fault::Touch(Kind::Volume.as_str().to_owned(), claim);
            faults.extend(claims.map(touch));
            faults.extend([4, 12, 40].map(Fault::StoreGoesBack));
            faults.extend(Unread::ALL.map(Fault::ReadsFail));
            faults.extend(clocks());
            let stay: Vec<Fault> = faults.iter().filter(|fault| can_stay(fault)).cloned().collect();
            faults.extend(stay.into_iter().map(|fault| Fault::Stays(Box::new(fault))));
        }
        if self.rogue_planner {
            faults.extend(self.names(Kind::Pod).into_iter().map(Fault::Swap));
            faults.extend(self.rogue_effects().into_iter().map(Fault::Rogue));
        }
        faults.retain(|fault| self.wide || !fault.entry().wide);
        faults
    }

    /// In the middle of a pass the operator dies or loses the lease. Between two passes its view becomes old.
    fn faults_of_the_operator(&self) -> Vec<Fault> {
        let outcomes = RequestOutcome::ALL.into_iter().filter(|outcome| *outcome != RequestOutcome::Done);
        let Some(effect) = self.pending() else {
            let mut faults: Vec<Fault> = outcomes.map(Fault::Request).collect();
            for kind in [Kind::Pod, Kind::Volume, Kind::Cluster, Kind::Service] {
                faults.push(Fault::Stale(kind.as_str().to_owned(), 1));
                // The real operator lists with a quorum read when it starts, so this is more than can happen. A volume that
                // is missing in such a list counts as lost. That is correct, so it is not offered.
                if kind != Kind::Volume {
                    faults.push(Fault::TimeTravel(kind.as_str().to_owned(), 3));
                }
            }
            return faults;
        };
        let mut faults = vec![Fault::Crash];
        if self.former_leader.is_none() {
            faults.extend([Fault::TwoLead, Fault::Paused]);
        }
        // Another client changes only Kubernetes objects.
        let of_etcd = matches!(effect, Effect::Etcd { .. });
        let outcomes = outcomes.filter(|outcome| !(of_etcd && *outcome == RequestOutcome::Raced));
        faults.extend(outcomes.map(Fault::Request));
        faults
    }

    fn faults_of_members(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for pod in self.member_pods() {
            let member = name(&pod).to_owned();
            if !self.pods.contains_key(uid(&pod)) {
                faults.push(Fault::Slow(member.clone()));
                faults.push(Fault::RefusedByKubelet(member.clone()));
            }
            faults.extend([
                Fault::KillPod(member.clone()),
                Fault::DeletePod(member.clone()),
                Fault::Lingers(member.clone()),
                Fault::Drain(member.clone()),
                Fault::ReuseAddress(member.clone()),
                Fault::OthersTakeAddress(member.clone()),
                Fault::KillProcess(member.clone()),
                Fault::LoseNode(member.clone()),
                Fault::NodeGone(member.clone()),
                Fault::NodeCreatedAgain(member.clone()),
                Fault::Cut(member.clone()),
                Fault::CutFromPeers(member.clone()),
                Fault::Wipe(member.clone()),
                Fault::EmptyMount(member.clone()),
                Fault::Lag(member.clone()),
                Fault::HangDisk(member.clone()),
                Fault::FillDisk(member.clone()),
                Fault::ReadOnlyDisk(member.clone()),
                Fault::SlowDisk(member.clone()),
                Fault::NodeShutsDown(member.clone()),
                Fault::Damage(member.clone()),
                Fault::ForgetPromotion(member.clone()),
                Fault::OtherPatch(member.clone(), Patch::Next),
                Fault::OtherPatch(member.clone(), Patch::Before),
                Fault::Alarm(member),
            ]);
        }
        faults.extend(self.to_restore().into_iter().map(Fault::NoStore));
        faults
    }

    fn faults_of_objects(&self) -> Vec<Fault> {
        let volumes = self.names(Kind::Volume);
        let unused = volumes.iter().filter(|name| self.object(Kind::Pod, name).is_none());
        let mut faults: Vec<Fault> = unused.cloned().map(Fault::Wipe).collect();
        // Once the cluster is gone, its volumes and the authority beside them are a person's.
        if self.object(Kind::Cluster, &self.at.name).is_some() {
            faults.extend(volumes.iter().cloned().map(Fault::DeleteClaim));
            faults.extend(volumes.into_iter().map(Fault::LoseVolume));
        }
        for kind in [Kind::Service, Kind::Budget, Kind::Pod] {
            let named = self.names(kind).into_iter();
            faults.extend(named.map(|named| Fault::Touch(kind.as_str().to_owned(), named)));
        }
        for kind in [Kind::Service, Kind::Budget, Kind::Secret] {
            let named = self.names(kind).into_iter();
            faults.extend(named.map(|named| Fault::Remove(kind.as_str().to_owned(), named)));
        }
        faults
    }

    /// While the cluster sleeps, each of its volumes may go back, or all.
    fn volumes_to_go_back(&self) -> impl Iterator<Item = Fault> {
        let record = self.record();
        let members: Vec<String> =
            record.members.keys().map(|member| member.as_str().to_owned()).chain([String::new()]).collect();
        members.into_iter().filter(move |_| record.hibernating).map(Fault::WentBack)
    }

    /// Refusals of the API server: of any Pod, of the Pod of one member, of any volume, of the peer Service, of any Secret.
    fn refusals(&self) -> Vec<Fault> {
        let record = self.record();
        let members = record.members.keys().map(|member| ("Pod", member.as_str()));
        let kinds =
            [("Pod", ""), ("PersistentVolumeClaim", ""), ("Service", self.at.name.as_str()), ("Secret", "")];
        let refused = kinds.into_iter().chain(members);
        refused.map(|(kind, named)| Fault::Refuse(kind.to_owned(), named.to_owned())).collect()
    }
}

/// Seconds by which a clock may be wrong for good.
const SMALL: i64 = 400;

/// Each clock is set ahead and back by so little that nobody corrects it, by two hours, and by more than volumes are kept and leaves are valid.
fn clocks() -> impl Iterator<Item = Fault> {
    let clocks = [Clock::Operator, Clock::OperatorWhileItObserves, Clock::ApiServer, Clock::Kubelets];
    let days = |days: i64| days * 86_400;
    clocks.into_iter().flat_map(move |clock| {
        [90, -90, SMALL, -SMALL, 7200, -7200, days(8), days(400), days(-400)]
            .map(|by| Fault::ClockSet(clock, by))
    })
}

/// Whether a fault may stay until a person acts. A partition of the peers alone stays in named histories only: a learner that is promoted in
/// that moment goes on answering as a learner, and counts as joining until its Pod is deleted.
fn can_stay(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::LoseNode(_)
            | Fault::Slow(_)
            | Fault::Cut(_)
            | Fault::CutFromPeers(_)
            | Fault::Lag(_)
            | Fault::Refuse(..)
            | Fault::ReadsFail(_)
            | Fault::HangDisk(_)
            | Fault::FillDisk(_)
            | Fault::ReadOnlyDisk(_)
            | Fault::SlowDisk(_)
            | Fault::EmptyMount(_)
            | Fault::Damage(_)
    ) || matches!(fault, Fault::ClockSet(_, by) if by.abs() <= SMALL)
}
