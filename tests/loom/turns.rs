// SPDX-License-Identifier: Apache-2.0
//! The queue of those who commit, the store's own file compiled with loom's locks, in every order of three threads: one
//! leads at a time, everybody gets the verdict of its own, nobody sleeps for ever, also if a leader gives up.

#[path = "../../crates/coeval-store/src/turns.rs"]
mod turns;

use loom::cell::UnsafeCell;
use loom::sync::Arc as LoomArc;
use loom::thread;
use std::sync::Arc;
use turns::{Next, Taken, Ticket, Turn, Turns};

/// What a test breaks. (A turn that never ends, and a verdict that is not given, are deadlocks that loom names; it ends the
/// process with them, so that no test can expect them.)
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Who leads ends without verdicts, as in a panic.
    GivesUp,
}

/// The number of the ticket, or that its leader gave up.
type Verdict = Result<usize, ()>;

struct Pipeline {
    fault: Fault,
    turns: Turns<usize, Verdict>,
    /// What only the leader touches: how many it has led for.
    led: UnsafeCell<usize>,
}

impl Pipeline {
    fn lead(&self, turn: Turn<'_, usize, Verdict>) {
        let taken = Taken::new(turn.take(), || Err(()));
        // SAFETY: loom checks that nobody else is here: one leads at a time.
        self.led.with_mut(|led| unsafe { *led += taken.tickets().len() });
        if self.fault == Fault::GivesUp {
            return;
        }
        let verdicts: Vec<_> =
            taken.tickets().iter().map(|ticket| (ticket.clone(), ticket.take_order())).collect();
        drop(turn);
        for (ticket, order) in verdicts {
            assert!(ticket.look(|_| ()).is_none(), "an order is taken once");
            ticket.give(Ok(order.expect("a ticket is taken once")));
        }
        taken.disarm();
    }

    fn commit(&self, number: usize) -> Verdict {
        let ticket = Arc::new(Ticket::new(number));
        let mut turn = self.turns.enter(&ticket);
        loop {
            if let Some(turn) = turn.take() {
                self.lead(turn);
            }
            let next = self.turns.poll(&ticket).unwrap_or_else(|| self.turns.wait(&ticket));
            match next {
                Next::Verdict(verdict) => return verdict,
                Next::Lead(next) => turn = Some(next),
            }
        }
    }
}

fn three_commit(fault: Fault) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let pipeline = Pipeline { fault, turns: Turns::new(), led: UnsafeCell::new(0) };
        let pipeline = LoomArc::new(pipeline);
        let others = [1, 2].map(|number| {
            let pipeline = LoomArc::clone(&pipeline);
            thread::spawn(move || (number, pipeline.commit(number)))
        });
        let expected = |number| if fault == Fault::GivesUp { Err(()) } else { Ok(number) };
        assert_eq!(pipeline.commit(0), expected(0));
        for other in others {
            let (number, verdict) = other.join().unwrap();
            assert_eq!(verdict, expected(number), "the verdict is that of the own ticket");
        }
        // SAFETY: all have ended.
        assert_eq!(pipeline.led.with(|led| unsafe { *led }), 3);
    });
}

#[test]
fn everybody_is_told_and_one_leads_at_a_time() {
    three_commit(Fault::None);
}

#[test]
fn everybody_is_told_if_leaders_give_up() {
    three_commit(Fault::GivesUp);
}
