//! The bound on writes to the Kubernetes API that are under way. Each namespace has a share of it, and namespaces take turns: one whose
//! webhook hangs holds up nobody else (R14).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_reconcile::WriteError;
use tokio::sync::oneshot;

/// Which part of the bound one namespace may take.
const PART: usize = 4;

/// Which part of the bound all namespaces without an answer may take.
const PART_OF_SLOW: usize = 2;

/// Who may write now.
#[derive(Clone, Debug)]
pub(crate) struct Writers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// How many writes of one namespace may be under way.
    share: usize,
    turns: Mutex<Turns>,
}

#[derive(Debug)]
struct Turns {
    free: usize,
    /// How many of them namespaces without an answer may have.
    free_for_slow: usize,
    namespaces: HashMap<String, Namespace>,
    /// The namespaces that wait and have not used up their share, in the order of their turns.
    next: VecDeque<String>,
    /// The same of those without an answer. They come after all others.
    slow: VecDeque<String>,
}

#[derive(Debug, Default)]
struct Namespace {
    under_way: usize,
    waiting: VecDeque<oneshot::Sender<Permit>>,
    /// Its last write had no answer: one at a time is enough to see when that ends.
    is_slow: bool,
}

/// One write may be under way while this exists.
#[derive(Debug)]
pub(crate) struct Permit {
    writers: Writers,
    namespace: String,
    answered: Option<bool>,
    /// It was given to a namespace without an answer.
    is_slow: bool,
    /// Nobody took it, and it is not counted.
    is_void: bool,
}

impl Writers {
    /// So many writes in all.
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(1);
        let turns = Turns {
            free: most,
            free_for_slow: (most / PART_OF_SLOW).max(1),
            namespaces: HashMap::new(),
            next: VecDeque::new(),
            slow: VecDeque::new(),
        };
        Self(Arc::new(Inner { share: (most / PART).max(1), turns: Mutex::new(turns) }))
    }

    /// Waits for the turn of a write in this namespace.
    pub(crate) async fn acquire(&self, namespace: &str) -> Permit {
        let (sender, turn) = oneshot::channel();
        self.wait_in(namespace, sender);
        // The sender is kept until it is used.
        turn.await.unwrap_or_else(|_| {
            let mut unused = self.permit(namespace.to_owned(), false);
            unused.is_void = true;
            unused
        })
    }

    fn wait_in(&self, namespace: &str, sender: oneshot::Sender<Permit>) {
        let mut turns = self.turns();
        turns.namespaces.entry(namespace.to_owned()).or_default().waiting.push_back(sender);
        turns.queue(namespace, self.0.share);
        self.give(&mut turns);
    }

    /// Gives what is free to those whose turn it is.
    fn give(&self, turns: &mut Turns) {
        while let Some(name) = turns.pop() {
            let Some(namespace) = turns.namespaces.get_mut(&name) else { continue };
            let is_slow = namespace.is_slow;
            // Whoever gave up waiting takes nothing.
            let given = namespace.waiting.pop_front().is_some_and(|sender| {
                let unused = sender.send(self.permit(name.clone(), is_slow)).err();
                unused.map(|mut unused| unused.is_void = true).is_none()
            });
            if given {
                namespace.under_way += 1;
                turns.free -= 1;
                turns.free_for_slow -= usize::from(is_slow);
            }
            turns.queue(&name, self.0.share);
        }
    }

    fn end(&self, permit: &Permit) {
        let mut turns = self.turns();
        let turns = &mut *turns;
        turns.free += 1;
        turns.free_for_slow += usize::from(permit.is_slow);
        if let Some(namespace) = turns.namespaces.get_mut(&permit.namespace) {
            namespace.under_way = namespace.under_way.saturating_sub(1);
            namespace.is_slow = permit.answered.map_or(namespace.is_slow, |answered| !answered);
            if !namespace.is_slow {
                turns.slow.retain(|slow| *slow != permit.namespace);
            }
        }
        turns.queue(&permit.namespace, self.0.share);
        self.give(turns);
    }

    fn permit(&self, namespace: String, is_slow: bool) -> Permit {
        Permit { writers: self.clone(), namespace, answered: None, is_slow, is_void: false }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.0.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turns {
    /// Whose turn it is, if anything is free.
    fn pop(&mut self) -> Option<String> {
        if self.free == 0 {
            return None;
        }
        while let Some(name) = self.next.pop_front() {
            if !self.namespaces.get(&name).is_some_and(|namespace| namespace.is_slow) {
                return Some(name);
            }
            self.slow.push_back(name);
        }
        if self.free_for_slow == 0 { None } else { self.slow.pop_front() }
    }

    /// Puts a namespace at the end of the queue if it waits and may have more; forgets one of which nothing is known.
    fn queue(&mut self, name: &str, share: usize) {
        let Some(namespace) = self.namespaces.get(name) else { return };
        let share = if namespace.is_slow { 1 } else { share };
        if namespace.waiting.is_empty() {
            if namespace.under_way == 0 && !namespace.is_slow {
                self.namespaces.remove(name);
            }
        } else if namespace.under_way < share && !self.next.iter().chain(&self.slow).any(|next| next == name)
        {
            // Which of the two it belongs to is judged when it is its turn.
            self.next.push_back(name.to_owned());
        }
    }
}

impl Permit {
    /// The write has ended like this.
    pub(crate) fn ended<T>(mut self, written: &Result<T, WriteError>) {
        self.answered = Some(!matches!(written, Err(WriteError::Unknown(_))));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.is_void {
            self.writers.clone().end(self);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;
    use tokio::time::{Instant, sleep};

    use super::*;

    /// A write that takes so long.
    async fn write(writers: Writers, namespace: String, takes: Duration, answered: bool) -> Instant {
        let permit = writers.acquire(&namespace).await;
        sleep(takes).await;
        permit.ended(&if answered { Ok(()) } else { Err(WriteError::Unknown("no answer".to_owned())) });
        Instant::now()
    }

    #[tokio::test(start_paused = true)]
    async fn n11_a_namespace_whose_writes_hang_takes_its_share_alone_and_then_one() {
        let writers = Writers::new(32);
        let began = Instant::now();
        let hang = |_| tokio::spawn(write(writers.clone(), "slow".to_owned(), Duration::from_secs(4), false));
        let slow: Vec<_> = (0..300).map(hang).collect();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(writers.turns().free, 32 - 8);
        let well = write(writers.clone(), "well".to_owned(), Duration::ZERO, true).await;
        assert!(well - began < Duration::from_secs(1), "{:?}", well - began);
        sleep(Duration::from_secs(5)).await;
        assert_eq!(writers.turns().free, 32 - 1, "one write shows whether it goes on");
        slow.iter().for_each(tokio::task::JoinHandle::abort);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(writers.turns().free, 32, "who gives up holds nothing");
        write(writers.clone(), "slow".to_owned(), Duration::ZERO, true).await;
        assert!(writers.turns().namespaces.is_empty(), "nothing is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn n11_however_many_namespaces_hang_half_of_all_writes_are_for_the_others() {
        let writers = Writers::new(32);
        let hang = |of: u32| {
            tokio::spawn(write(writers.clone(), format!("slow{}", of % 100), Duration::from_secs(4), false))
        };
        let slow: Vec<_> = (0..1000).map(hang).collect();
        // By then each of them has had no answer once.
        sleep(Duration::from_secs(61)).await;
        assert_eq!(writers.turns().free, 16);
        let began = Instant::now();
        let well = write(writers.clone(), "well".to_owned(), Duration::ZERO, true).await;
        assert_eq!(well, began, "at once");
        for one in slow {
            one.await.unwrap();
        }
        let turns = writers.turns();
        assert_eq!((turns.free, turns.free_for_slow), (32, 16));
    }

    #[tokio::test(start_paused = true)]
    async fn n11_namespaces_take_turns_however_many_writes_one_of_them_has() {
        let writers = Writers::new(4);
        let began = Instant::now();
        let second = Duration::from_secs(1);
        let of = |namespace: &str| tokio::spawn(write(writers.clone(), namespace.to_owned(), second, true));
        let busy: Vec<_> = ["a", "b", "c", "d"].iter().flat_map(|name| (0..50).map(|_| of(name))).collect();
        sleep(Duration::from_millis(1)).await;
        let late = of("e").await.unwrap();
        assert!(late - began <= second * 3, "{:?}", late - began);
        for one in busy {
            one.await.unwrap();
        }
        assert_eq!(Instant::now() - began, second * 51, "nothing that is free waits");
    }

    #[tokio::test(start_paused = true)]
    async fn n11_who_gives_up_while_it_waits_or_when_it_was_just_given_a_turn_leaves_it_to_the_next() {
        let writers = Writers::new(1);
        let first = writers.acquire("a").await;
        let mut waits = Box::pin(writers.acquire("b"));
        let mut given = Box::pin(writers.acquire("c"));
        assert!(waits.as_mut().now_or_never().is_none() && given.as_mut().now_or_never().is_none());
        drop(waits);
        drop(first);
        // It has its turn by now, and has not looked.
        drop(given);
        assert!(writers.acquire("d").now_or_never().is_some());
    }
}
