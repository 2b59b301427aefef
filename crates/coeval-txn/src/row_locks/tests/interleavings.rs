// SPDX-License-Identifier: Apache-2.0
//! All short interleavings, and random longer ones, against what locks promise.
//!
//! A request is an object here, so no thread is needed: a script says who does what next. After each step a
//! checker that knows the promises and not the code looks at who holds and who waits ([`Script::check`]):
//! no two holders conflict; everybody holds what it was given and has not given back; nobody waits without a
//! reason; nobody was overtaken; who was granted was woken; and a victim was part of a circle of holders, of
//! which none is left.

use crate::row_locks::{
    LockError, LockListing, LockOwner, LockState, LockStrength, OwnerId, Patience, Requested, RowLocks,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake, Waker};

type Key = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// With a place in the queue, and a look for deadlocks.
    Request(usize, Key, LockStrength),
    /// With a place in the queue.
    Queue(usize, Key, LockStrength),
    /// A look for deadlocks.
    Look(usize),
    /// Without one.
    Try(usize, Key, LockStrength),
    Withdraw(usize),
    /// Back to where half of the locks were granted.
    ReleaseSome(usize),
    ReleaseAll(usize),
}

#[derive(Default)]
struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// An owner and what the script knows of it.
struct Actor {
    owner: LockOwner<Key>,
    /// What it was granted, in order.
    granted: Vec<(Key, LockStrength)>,
    /// What it waits for, and since when.
    wanted: Option<(Key, LockStrength, usize)>,
    woken: Arc<Counting>,
}

impl Actor {
    fn holds(&self, key: Key) -> Option<LockStrength> {
        self.granted.iter().filter(|(granted, _)| *granted == key).map(|(_, strength)| *strength).max()
    }
}

struct Script {
    locks: Arc<RowLocks<Key>>,
    actors: Vec<Actor>,
    time: usize,
    /// Queues were put into another order: from then on one may be overtaken.
    was_reordered: bool,
    /// Somebody waits who has not looked for deadlocks.
    is_unchecked: bool,
    deadlocks: usize,
}

/// PostgreSQL's table once more, as pairs.
fn conflict(one: LockStrength, other: LockStrength) -> bool {
    use LockStrength::{KeyShare, NoKeyUpdate, Share, Update};
    matches!(
        (one, other),
        (Update, _) | (_, Update) | (NoKeyUpdate, Share | NoKeyUpdate) | (Share, NoKeyUpdate)
    ) && !matches!((one, other), (KeyShare, KeyShare))
}

type Edges = HashMap<OwnerId, HashSet<OwnerId>>;

fn reaches(edges: &Edges, from: OwnerId, to: OwnerId) -> bool {
    let mut seen = HashSet::new();
    let mut open: Vec<OwnerId> = edges.get(&from).into_iter().flatten().copied().collect();
    while let Some(owner) = open.pop() {
        if owner == to {
            return true;
        }
        if seen.insert(owner) {
            open.extend(edges.get(&owner).into_iter().flatten());
        }
    }
    false
}

impl Script {
    fn new(actors: usize) -> Self {
        let locks = Arc::new(RowLocks::new());
        let actor =
            |_| Actor { owner: locks.owner(), granted: Vec::new(), wanted: None, woken: Arc::default() };
        let actors = (0..actors).map(actor).collect();
        Self { actors, locks, time: 0, was_reordered: false, is_unchecked: false, deadlocks: 0 }
    }

    fn can(&self, step: Step) -> bool {
        match step {
            Step::Request(actor, ..) | Step::Queue(actor, ..) | Step::Try(actor, ..) => {
                self.actors[actor].wanted.is_none()
            }
            Step::Withdraw(actor) | Step::Look(actor) => self.actors[actor].wanted.is_some(),
            Step::ReleaseSome(actor) => self.actors[actor].granted.len() > 1,
            Step::ReleaseAll(actor) => !self.actors[actor].granted.is_empty(),
        }
    }

    fn run(&mut self, step: Step) {
        self.time += 1;
        match step {
            Step::Request(actor, key, strength) => {
                self.request(actor, key, strength);
                self.look(actor);
            }
            Step::Queue(actor, key, strength) => {
                self.request(actor, key, strength);
                self.is_unchecked = true;
            }
            Step::Look(actor) => self.look(actor),
            Step::Try(actor, key, strength) => {
                let held = self.actors[actor].holds(key);
                match self.actors[actor].owner.lock(&key, strength, Patience::None) {
                    Ok(_) if held < Some(strength) => self.grant(actor, key, strength, self.time),
                    Ok(_) => {}
                    Err(error) => {
                        assert_eq!(error, LockError::NotAvailable);
                        let in_the_way = self.actors.iter().enumerate().any(|(other, its)| {
                            let wants = its.wanted.filter(|wanted| wanted.0 == key).map(|wanted| wanted.1);
                            let blocks = |other: Option<LockStrength>| {
                                other.is_some_and(|other| conflict(other, strength))
                            };
                            other != actor && (blocks(its.holds(key)) || blocks(wants))
                        });
                        assert!(in_the_way, "refused without a reason");
                    }
                }
            }
            Step::Withdraw(actor) => {
                self.actors[actor].owner.withdraw();
                self.actors[actor].wanted = None;
            }
            Step::ReleaseSome(actor) => self.release(actor, self.actors[actor].granted.len() / 2),
            Step::ReleaseAll(actor) => self.release(actor, 0),
        }
        self.check();
    }

    fn release(&mut self, actor: usize, count: usize) {
        self.actors[actor].owner.release_after(count);
        self.actors[actor].granted.truncate(count);
        self.actors[actor].wanted = None;
    }

    fn request(&mut self, actor: usize, key: Key, strength: LockStrength) {
        let held = self.actors[actor].holds(key);
        match self.actors[actor].owner.request(&key, strength) {
            Requested::Granted(_) if held < Some(strength) => self.grant(actor, key, strength, self.time),
            Requested::Granted(_) => {}
            Requested::Queued => {
                self.actors[actor].wanted = Some((key, strength, self.time));
                self.actors[actor].woken = Arc::default();
                let waker = Waker::from(Arc::clone(&self.actors[actor].woken));
                assert_eq!(self.actors[actor].owner.poll_wait(&waker), Poll::Pending);
            }
        }
    }

    fn look(&mut self, actor: usize) {
        if self.actors[actor].wanted.is_none() {
            return;
        }
        let id = self.actors[actor].owner.id();
        let (holders, all) = self.edges();
        let is_victim = reaches(&holders, id, id);
        self.was_reordered |= all.keys().any(|&owner| reaches(&all, owner, owner));
        match self.actors[actor].owner.check_deadlock() {
            Ok(()) => assert!(!is_victim, "a deadlock was overlooked"),
            Err(_) => {
                assert!(is_victim, "a victim without a deadlock");
                self.actors[actor].wanted = None;
                self.deadlocks += 1;
            }
        }
    }

    /// Notes a lock that was granted; `since` is when it was asked for.
    fn grant(&mut self, actor: usize, key: Key, strength: LockStrength, since: usize) {
        let held_before = self.actors[actor].holds(key).is_some();
        for (other, its) in self.actors.iter().enumerate() {
            if let Some((wanted, wants, began)) = its.wanted
                && other != actor
                && wanted == key
                && began < since
                && its.holds(key).is_none()
                && !its.owner.turn_has_come()
            {
                let overtaken = conflict(wants, strength) && !held_before;
                assert!(!overtaken || self.was_reordered, "{actor} overtook {other} at key {key}");
            }
        }
        self.actors[actor].granted.push((key, strength));
    }

    /// Who waits for whom: for holders, and for holders and those ahead in the queue.
    fn edges(&self) -> (Edges, Edges) {
        let list = self.locks.list();
        let (mut holders, mut all) = (Edges::new(), Edges::new());
        for (place, waiter) in list.iter().enumerate().filter(|(_, lock)| lock.state == LockState::Waiting) {
            let upgrades = list.iter().any(|lock| {
                lock.state == LockState::Granted && lock.key == waiter.key && lock.owner == waiter.owner
            });
            for (other_place, other) in list.iter().enumerate() {
                if other.key != waiter.key
                    || other.owner == waiter.owner
                    || !conflict(other.strength, waiter.strength)
                {
                    continue;
                }
                if other.state == LockState::Granted {
                    holders.entry(waiter.owner).or_default().insert(other.owner);
                    all.entry(waiter.owner).or_default().insert(other.owner);
                } else if other_place < place && !upgrades {
                    all.entry(waiter.owner).or_default().insert(other.owner);
                }
            }
        }
        (holders, all)
    }

    fn check(&mut self) {
        self.take_grants();
        let list = self.locks.list();
        let granted: Vec<&LockListing<Key>> =
            list.iter().filter(|lock| lock.state == LockState::Granted).collect();
        for (place, one) in granted.iter().enumerate() {
            for other in &granted[place + 1..] {
                let conflicts = one.key == other.key && conflict(one.strength, other.strength);
                assert!(!conflicts, "{one:?} and {other:?}");
                assert!(one.key != other.key || one.owner != other.owner, "one lock of a key for an owner");
            }
        }
        let told: BTreeMap<(OwnerId, Key), LockStrength> =
            granted.iter().map(|lock| ((lock.owner, lock.key), lock.strength)).collect();
        let known: BTreeMap<(OwnerId, Key), LockStrength> = self
            .actors
            .iter()
            .flat_map(|actor| {
                actor
                    .granted
                    .iter()
                    .map(|(key, _)| ((actor.owner.id(), *key), actor.holds(*key).expect("it is granted")))
            })
            .collect();
        assert_eq!(told, known, "everybody holds what it was given");
        let (_, edges) = self.edges();
        for actor in &self.actors {
            let id = actor.owner.id();
            assert_eq!(actor.wanted.is_some(), edges.contains_key(&id), "waits exactly with a reason");
            assert!(self.is_unchecked || !reaches(&edges, id, id), "a circle of waits is left");
        }
        assert_eq!(self.locks.waiting_count(), edges.len());
    }

    /// Grants that came by the end of another's lock.
    fn take_grants(&mut self) {
        let mut came: Vec<(usize, usize)> = (self.actors.iter().enumerate())
            .filter_map(|(actor, its)| its.wanted.map(|wanted| (wanted.2, actor)))
            .filter(|(_, actor)| self.actors[*actor].owner.turn_has_come())
            .collect();
        came.sort_unstable();
        for (_, actor) in came {
            let its = &mut self.actors[actor];
            assert_eq!(its.woken.0.load(Ordering::SeqCst), 1, "who is granted is woken");
            assert_eq!(its.owner.poll_wait(Waker::noop()), Poll::Ready(()));
            let (key, strength, since) = its.wanted.take().expect("it waited");
            self.grant(actor, key, strength, since);
        }
        for actor in self.actors.iter().filter(|actor| actor.wanted.is_some()) {
            assert_eq!(actor.woken.0.load(Ordering::SeqCst), 0, "nobody is woken for nothing");
        }
    }

    /// Those who run end, one after the other, until all have ended.
    fn drain(&mut self) {
        for actor in 0..self.actors.len() {
            self.look(actor);
            self.take_grants();
        }
        self.is_unchecked = false;
        self.check();
        for _ in 0..self.actors.len() {
            let running = (0..self.actors.len()).filter(|&actor| self.actors[actor].wanted.is_none());
            for actor in running.collect::<Vec<_>>() {
                self.release(actor, 0);
                self.check();
            }
        }
        assert!(self.actors.iter().all(|actor| actor.wanted.is_none()), "somebody waits for ever");
        assert_eq!(self.locks.list().len(), 0);
    }
}

impl LockOwner<Key> {
    fn turn_has_come(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.has_come())
    }
}

fn steps(actors: usize, keys: Key, strengths: &[LockStrength]) -> Vec<Step> {
    let mut steps = Vec::new();
    for actor in 0..actors {
        for key in 0..keys {
            for &strength in strengths {
                steps.push(Step::Request(actor, key, strength));
                steps.push(Step::Queue(actor, key, strength));
                steps.push(Step::Try(actor, key, strength));
            }
        }
        steps.extend([Step::Look(actor), Step::Withdraw(actor)]);
        steps.extend([Step::ReleaseSome(actor), Step::ReleaseAll(actor)]);
    }
    steps
}

/// Runs every script of so many of these steps that begins with one of the first `firsts`; returns how many there
/// were and how many deadlocks they met.
fn run_all(actors: usize, steps: &[Step], firsts: usize, length: usize) -> (usize, usize) {
    let mut prefix: Vec<usize> = Vec::new();
    let (mut scripts, mut deadlocks) = (0, 0);
    loop {
        // Runs the prefix; a step that is not possible ends it.
        let mut script = Script::new(actors);
        let mut possible = true;
        for &step in &prefix {
            possible = script.can(steps[step]);
            if !possible {
                break;
            }
            script.run(steps[step]);
        }
        if possible {
            if prefix.len() < length {
                prefix.push(0);
                continue;
            }
            scripts += 1;
            deadlocks += script.deadlocks;
            script.drain();
        }
        while prefix.last().is_some_and(|&last| last + 1 == steps.len()) {
            prefix.pop();
        }
        match prefix.last_mut() {
            Some(last) => *last += 1,
            None => return (scripts, deadlocks),
        }
        if prefix.len() == 1 && prefix[0] == firsts {
            return (scripts, deadlocks);
        }
    }
}

#[test]
fn two_owners_of_one_key_in_all_strengths() {
    let steps = steps(2, 1, &LockStrength::ALL);
    let (scripts, deadlocks) = run_all(2, &steps, steps.len() / 2, 4);
    assert!(scripts > 10_000 && deadlocks > 100, "{scripts} scripts, {deadlocks} deadlocks");
}

// Owners and keys may change their names: a script begins with the first owner and the first key.

#[test]
fn three_owners_of_two_keys_in_two_strengths() {
    let mut steps = steps(3, 2, &[LockStrength::KeyShare, LockStrength::Update]);
    steps.retain(|step| matches!(step, Step::Request(..) | Step::Withdraw(_) | Step::ReleaseAll(_)));
    let (scripts, deadlocks) = run_all(3, &steps, 2, 5);
    assert!(scripts > 10_000 && deadlocks > 1_000, "{scripts} scripts, {deadlocks} deadlocks");
}

#[test]
fn random_scripts_of_up_to_six_owners() {
    let steps = steps(6, 3, &LockStrength::ALL);
    let (mut deadlocks, mut reordered) = (0, 0);
    for seed in 0..6_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let actors = random.random_range(2..=6);
        let mut script = Script::new(6);
        let mut done = Vec::new();
        for _ in 0..60 {
            let step = steps[random.random_range(0..steps.len())];
            let actor = match step {
                Step::Request(actor, ..) | Step::Queue(actor, ..) | Step::Try(actor, ..) => actor,
                Step::Look(actor) | Step::Withdraw(actor) => actor,
                Step::ReleaseSome(actor) | Step::ReleaseAll(actor) => actor,
            };
            let is_late = matches!(step, Step::Queue(..) | Step::Look(_));
            if actor < actors && script.can(step) && !(is_late && seed % 2 == 0) {
                done.push(step);
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| script.run(step)));
                assert!(outcome.is_ok(), "seed {seed}: {done:?}");
            }
        }
        script.drain();
        deadlocks += script.deadlocks;
        reordered += usize::from(script.was_reordered);
    }
    assert!(deadlocks > 1_000 && reordered > 10, "{deadlocks} deadlocks, {reordered} reordered");
}
