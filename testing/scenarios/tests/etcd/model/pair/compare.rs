//! Compares the two sides after a step.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use quorate_etcd::Read;
use quorate_sim::etcd::State;

use super::super::script::Place;
use super::{DEADLINE, Pair, key, name};

impl Pair {
    /// Waits until both sides agree.
    pub(super) async fn agree(&mut self) {
        let end = Instant::now() + DEADLINE;
        while let Err(difference) = self.compare().await {
            assert!(Instant::now() < end, "{difference}\n{}", self.both());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(super) async fn compare(&mut self) -> Result<(), String> {
        if self.has_lost() {
            return self.compare_data().await;
        }
        let serving = self.compare_processes()?;
        for at in &serving {
            self.compare_member(*at).await?;
        }
        self.compare_leader(&serving).await?;
        self.compare_data().await
    }

    /// Compares which processes run; returns the places of those that serve.
    fn compare_processes(&mut self) -> Result<Vec<Place>, String> {
        let mut serving = Vec::new();
        for place in 0..self.cluster.members.len() {
            let ended = self.cluster.members[place].has_ended();
            let Some(process) = self.model.process(&name(place)) else { continue };
            match &process.state {
                State::Ended(words) if !ended => return Err(format!("m{place} runs; the model: {words}")),
                State::Ended(_) => {}
                State::Starting | State::Running if ended => {
                    return Err(format!("m{place} has ended; in the model it runs"));
                }
                State::Starting | State::Running => serving.extend(process.serves.then_some(place)),
            }
        }
        Ok(serving)
    }

    /// Compares the status of a member, and its member list.
    async fn compare_member(&mut self, at: Place) -> Result<(), String> {
        let real = self.client(at).status().await.map_err(|why| format!("Status of m{at}: {why}"))?;
        let model = self.model.status(&name(at)).map_err(|why| format!("the model's m{at}: {why:?}"))?;
        self.ids.insert(at, (model.member_id, real.member_id));
        if real.is_learner != model.is_learner {
            return Err(format!(
                "m{at} is a learner: {}, in the model: {}",
                real.is_learner, model.is_learner
            ));
        }
        if real.leader.is_some() != model.leader.is_some() {
            return Err(format!("the leader of m{at}: {:?}, in the model {:?}", real.leader, model.leader));
        }
        if model.is_learner {
            return Ok(());
        }
        let list = self.client(at).member_list(model.leader.is_some()).await;
        let list = list.map_err(|why| format!("the list of m{at}: {why}"))?;
        let real: BTreeSet<_> = list
            .members
            .iter()
            .map(|member| {
                let name = member.name.as_ref().map_or("", |name| name.as_str()).to_owned();
                let urls: Vec<_> = member.peer_urls.iter().map(|url| url.as_str().to_owned()).collect();
                (urls, name, member.is_learner, member.started())
            })
            .collect();
        let group = self.group().ok_or("no cluster")?;
        let dir = self.model.dir(&name(at)).ok_or("no directory")?;
        let conf = if model.leader.is_some() { group.conf() } else { group.conf_at(dir.stored.len) };
        let members: Vec<_> = conf.members.iter().map(|(id, peer)| (*id, peer.clone())).collect();
        let model: BTreeSet<_> = members
            .iter()
            .map(|(_, peer)| {
                (vec![peer.url.as_str().to_owned()], peer.name.clone(), peer.is_learner, peer.started)
            })
            .collect();
        if real != model {
            return Err(format!("the list of m{at}: {real:?}, in the model: {model:?}"));
        }
        for (id, peer) in &members {
            let place = (0..self.cluster.members.len()).find(|place| self.url(*place) == peer.url);
            let real = list.by_peer_url(&peer.url).map(|member| member.id);
            self.ids.extend(place.zip(real).map(|(place, real)| (place, (*id, real))));
        }
        Ok(())
    }

    /// All members follow one leader. etcd decides which; the model follows, if that member can lead in the model.
    async fn compare_leader(&mut self, serving: &[Place]) -> Result<(), String> {
        let Some(leader) = self.leader() else { return Ok(()) };
        let mut led = BTreeSet::new();
        for at in serving {
            let status = self.client(*at).status().await.map_err(|why| format!("Status of m{at}: {why}"))?;
            led.insert(
                status.leader.map(|id| self.ids.iter().find(|(_, ids)| ids.1 == id).map(|(at, _)| *at)),
            );
        }
        let one = led.pop_first();
        let Some(Some(Some(real))) = one.filter(|_| led.is_empty()) else {
            return Err(format!("not one leader: {one:?} {led:?}"));
        };
        if real != leader {
            let moved = self.model.move_leader(&name(leader), self.ids[&real].0, self.now(0));
            moved.map_err(|why| {
                format!("m{real} leads; the model's m{leader} cannot transfer leadership to it: {why:?}")
            })?;
        }
        Ok(())
    }

    /// Exactly the writes that the model holds can be read.
    async fn compare_data(&self) -> Result<(), String> {
        let Some(group) = self.group().filter(|group| group.leader().is_some()) else { return Ok(()) };
        let kept: BTreeSet<u64> = group.writes().collect();
        let asked = self.leader().filter(|_| !self.has_lost());
        // Once data are lost, any member that can serve a linearizable read is asked.
        let asked: Vec<Place> =
            asked.map_or_else(|| (0..self.cluster.members.len()).collect(), |at| vec![at]);
        let mut why = String::new();
        for at in asked {
            match self.read(at).await {
                Ok(read) if read == kept => return Ok(()),
                Ok(read) => return Err(format!("m{at} reads {read:?}; the model holds {kept:?}")),
                Err(error) => why = error,
            }
        }
        Err(format!("no member serves a read: {why}"))
    }

    async fn read(&self, at: Place) -> Result<BTreeSet<u64>, String> {
        let client = self.client(at);
        let mut read = BTreeSet::new();
        for write in 1..=self.writes {
            let value = client.get(&key(write), Read::Linearizable).await;
            let value = value.map_err(|why| format!("reading at m{at}: {why}"))?;
            read.extend(value.map(|_| write));
        }
        Ok(read)
    }
}
