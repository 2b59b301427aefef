// SPDX-License-Identifier: Apache-2.0
//! Who leads: whoever wants something done queues, and one at a time takes the queue and does it for all in it.
//!
//! Each of the others waits on a ticket of its own and is woken for it alone: to be told its verdict, or because nobody
//! leads and its ticket is the first in the queue. What waiting costs does not depend on how many wait.
//!
//! ```text
//! enter --nobody leads--> Turn --take--> tickets --give--> verdicts
//!   |                      | dropped: nobody leads; the first in the queue, if there is one, is woken
//!   +--somebody does--> wait --verdict--> ended
//!                         +--woken, and nobody leads--> Turn
//! ```
//!
//! # Why nobody sleeps for ever
//! A ticket is in the queue, or taken by a turn, or has its verdict. While tickets are in the queue, somebody leads or the
//! owner of the first has been woken: a thread that enters leads if no other does, and a turn that ends wakes the first. A thread
//! that was woken leads, unless another one has begun to: that turn ends too. A ticket that is taken gets a verdict from the thread
//! that took it or, if that panics, from its [`Taken`]. `tests/loom` runs this file in every order of three threads.
//!
//! Whoever enters while nobody leads does so at once, before those who have been woken: a thread that runs is faster
//! than one that is being woken, and takes the others' tickets along.

use parking_lot::{Condvar, Mutex};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Something to be done, on its way.
///
/// # Locking
/// `order` and `word` are leaf locks, held for moments.
pub(crate) struct Ticket<O, V> {
    order: Mutex<Option<O>>,
    word: Mutex<Word<V>>,
    told: Condvar,
    /// Set behind `word`, for those who look before they sleep.
    has_word: AtomicBool,
}

/// What a waiting one is woken for.
enum Word<V> {
    None,
    /// Perhaps nobody leads.
    Look,
    Verdict(V),
}

/// What the owner of a ticket does next.
pub(crate) enum Next<'t, O, V> {
    Lead(Turn<'t, O, V>),
    Verdict(V),
}

impl<O, V> Ticket<O, V> {
    pub(crate) fn new(order: O) -> Self {
        Self {
            order: Mutex::new(Some(order)),
            word: Mutex::new(Word::None),
            told: Condvar::new(),
            has_word: AtomicBool::new(false),
        }
    }

    /// What is to be done, without taking it.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&O) -> T) -> Option<T> {
        self.order.lock().as_ref().map(look)
    }

    /// What is to be done; it is taken once.
    pub(crate) fn take_order(&self) -> Option<O> {
        self.order.lock().take()
    }

    /// Ends the wait.
    pub(crate) fn give(&self, verdict: V) {
        self.say(|word| *word = Word::Verdict(verdict));
    }

    fn nudge(&self) {
        self.say(|word| {
            // Somebody else may have led for it since.
            if matches!(word, Word::None) {
                *word = Word::Look;
            }
        });
    }

    fn say(&self, set: impl FnOnce(&mut Word<V>)) {
        let mut word = self.word.lock();
        set(&mut word);
        self.has_word.store(true, Ordering::Release);
        self.told.notify_one();
    }

    /// Whether there is a word: waiting may end at once.
    pub(crate) fn has_word(&self) -> bool {
        self.has_word.load(Ordering::Acquire)
    }

    fn has_verdict(&self) -> bool {
        matches!(*self.word.lock(), Word::Verdict(_))
    }

    /// Sleeps until there is a word, and takes it.
    fn wait(&self) -> Word<V> {
        let mut word = self.word.lock();
        while matches!(*word, Word::None) {
            self.told.wait(&mut word);
        }
        self.take_word(&mut word)
    }

    fn take_word(&self, word: &mut Word<V>) -> Word<V> {
        self.has_word.store(false, Ordering::Relaxed);
        mem::replace(word, Word::None)
    }
}

/// The queue, and whether somebody leads.
///
/// # Locking
/// `state` is held for a push or a drain alone, and never together with a ticket's locks.
pub(crate) struct Turns<O, V> {
    state: Mutex<State<O, V>>,
}

struct State<O, V> {
    queue: Vec<Arc<Ticket<O, V>>>,
    is_led: bool,
}

impl<O, V> Turns<O, V> {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { queue: Vec::new(), is_led: false }) }
    }

    /// Queues the ticket; gives the turn to its owner if nobody has it.
    pub(crate) fn enter(&self, ticket: &Arc<Ticket<O, V>>) -> Option<Turn<'_, O, V>> {
        let mut state = self.state.lock();
        state.queue.push(Arc::clone(ticket));
        self.take_turn(&mut state)
    }

    /// The verdict, or the turn, if waiting would end at once.
    pub(crate) fn poll(&self, ticket: &Ticket<O, V>) -> Option<Next<'_, O, V>> {
        if !ticket.has_word() {
            return None;
        }
        let word = ticket.take_word(&mut ticket.word.lock());
        self.next(word)
    }

    /// Waits until there is a verdict, or nobody leads.
    pub(crate) fn wait(&self, ticket: &Ticket<O, V>) -> Next<'_, O, V> {
        loop {
            if let Some(next) = self.next(ticket.wait()) {
                return next;
            }
        }
    }

    fn next(&self, word: Word<V>) -> Option<Next<'_, O, V>> {
        match word {
            Word::Verdict(verdict) => Some(Next::Verdict(verdict)),
            Word::Look => self.take_turn(&mut self.state.lock()).map(Next::Lead),
            Word::None => None,
        }
    }

    fn take_turn(&self, state: &mut State<O, V>) -> Option<Turn<'_, O, V>> {
        let is_mine = !mem::replace(&mut state.is_led, true);
        is_mine.then(|| Turn { turns: self })
    }
}

/// The thread that has it leads. Dropping it lets the next one lead, also when the leader panics.
#[must_use = "nobody else leads as long as it lives"]
pub(crate) struct Turn<'t, O, V> {
    turns: &'t Turns<O, V>,
}

impl<O, V> Turn<'_, O, V> {
    /// All that are in the queue.
    pub(crate) fn take(&self) -> Vec<Arc<Ticket<O, V>>> {
        mem::take(&mut self.turns.state.lock().queue)
    }
}

impl<O, V> Drop for Turn<'_, O, V> {
    fn drop(&mut self) {
        let first = {
            let mut state = self.turns.state.lock();
            state.is_led = false;
            state.queue.first().cloned()
        };
        if let Some(first) = first {
            first.nudge();
        }
    }
}

/// Tickets that were taken. Whoever of them is without a verdict when this is dropped gets `last_word`'s: nobody stays
/// without one because the leader has panicked.
pub(crate) struct Taken<O, V, F: Fn() -> V> {
    tickets: Vec<Arc<Ticket<O, V>>>,
    last_word: F,
}

impl<O, V, F: Fn() -> V> Taken<O, V, F> {
    pub(crate) fn new(tickets: Vec<Arc<Ticket<O, V>>>, last_word: F) -> Self {
        Self { tickets, last_word }
    }

    pub(crate) fn tickets(&self) -> &[Arc<Ticket<O, V>>] {
        &self.tickets
    }

    /// Everybody has been told.
    pub(crate) fn disarm(mut self) {
        self.tickets.clear();
    }
}

impl<O, V, F: Fn() -> V> Drop for Taken<O, V, F> {
    fn drop(&mut self) {
        for ticket in self.tickets.iter().filter(|ticket| !ticket.has_verdict()) {
            ticket.give((self.last_word)());
        }
    }
}
