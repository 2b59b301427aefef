// SPDX-License-Identifier: Apache-2.0
//! Threads, statements and their tasks as a simulation, in which time passes as it is told: whatever the pieces are like, no thread
//! sleeps while a task waits, statements that always want all threads have about the same time by their weights, and all come to
//! their end.

use crate::turns::{Account, FULL_WEIGHT, Turns};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// What a statement may use in a round.
const PART: u64 = 100;

/// No piece is longer.
const LENGTH_MAX: u64 = 60;

/// Tasks that can go on, in the order in which threads take them.
type Ready = Arc<Mutex<VecDeque<usize>>>;

struct Wakes {
    task: usize,
    ready: Ready,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.ready.lock().push_back(self.task);
    }
}

/// How much of the threads a statement wants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Demand {
    /// Its tasks are always ready, and more than there are threads.
    All,
    /// It has few tasks, which wait for something else now and then.
    Some,
}

struct Statement {
    account: Arc<Account>,
    demand: Demand,
    weight: u32,
    /// Its longest piece.
    length_max: u64,
    /// The time that it has had, by its weight.
    served: u64,
}

struct Task {
    statement: usize,
    place: Option<u64>,
    pieces_left: u32,
}

/// What a thread works on.
struct Piece {
    end: u64,
    task: usize,
    length: u64,
}

struct Simulation {
    random: StdRng,
    turns: Turns,
    now: u64,
    threads: Vec<Option<Piece>>,
    statements: Vec<Statement>,
    tasks: Vec<Task>,
    ready: Ready,
    /// Tasks that wait for something else, and until when.
    elsewhere: Vec<(u64, usize)>,
}

impl Simulation {
    /// Two statements at least that want all threads, and some that do not.
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let (threads, others) = (random.random_range(1..=4_usize), random.random_range(0..=4_usize));
        let mut simulation = Self {
            random,
            turns: Turns::with_clock(PART, LENGTH_MAX, || 0),
            now: 0,
            threads: (0..threads).map(|_| None).collect(),
            statements: Vec::new(),
            tasks: Vec::new(),
            ready: Ready::default(),
            elsewhere: Vec::new(),
        };
        for demand in [Demand::All; 2].into_iter().chain(std::iter::repeat_n(Demand::Some, others)) {
            simulation.begin_statement(demand);
        }
        simulation
    }

    fn begin_statement(&mut self, demand: Demand) {
        let random = &mut self.random;
        let weight = [FULL_WEIGHT, 50, 10][random.random_range(0..3_usize)];
        let (tasks, pieces_left) = match demand {
            Demand::All => (self.threads.len() + random.random_range(1..=4_usize), 300),
            Demand::Some => (random.random_range(1..=3_usize), random.random_range(1..=50_u32)),
        };
        let length_max = random.random_range(1..=LENGTH_MAX);
        let account = Arc::new(Account::default());
        account.set_weight(weight);
        let statement = self.statements.len();
        for _ in 0..tasks {
            account.enter(&self.turns);
            self.ready.lock().push_back(self.tasks.len());
            self.tasks.push(Task { statement, place: None, pieces_left });
        }
        self.statements.push(Statement { account, demand, weight, length_max, served: 0 });
    }

    /// Threads that are free take tasks.
    fn take_tasks(&mut self) {
        while let Some(thread) = self.threads.iter().position(Option::is_none) {
            let next = self.ready.lock().pop_front();
            if let Some(task) = next {
                self.threads[thread] = self.begin_piece(task);
                continue;
            }
            self.turns.begin_round();
            if self.ready.lock().is_empty() {
                assert!(self.turns.queue.lock().waiting.is_empty(), "a thread sleeps while a task waits");
                return;
            }
        }
    }

    fn begin_piece(&mut self, task: usize) -> Option<Piece> {
        let waker = Waker::from(Arc::new(Wakes { task, ready: Arc::clone(&self.ready) }));
        let Task { statement, place, .. } = &mut self.tasks[task];
        let statement = &self.statements[*statement];
        if !self.turns.admit(&statement.account, place, &waker) {
            return None;
        }
        let length = self.random.random_range(1..=statement.length_max);
        Some(Piece { end: self.now + length, task, length })
    }

    /// Time goes on to the next thing that happens; whether there is one.
    fn go_on(&mut self) -> bool {
        let ends = self.threads.iter().flatten().map(|piece| piece.end);
        let Some(next) = ends.chain(self.elsewhere.iter().map(|(until, _)| *until)).min() else {
            return false;
        };
        self.now = next;
        let elsewhere = std::mem::take(&mut self.elsewhere).into_iter();
        let (back, left): (Vec<_>, Vec<_>) = elsewhere.partition(|(until, _)| *until <= next);
        self.elsewhere = left;
        self.ready.lock().extend(back.into_iter().map(|(_, task)| task));
        for thread in 0..self.threads.len() {
            let ended = self.threads[thread].take_if(|piece| piece.end <= next);
            if let Some(piece) = ended {
                self.end_piece(&piece);
            }
        }
        true
    }

    fn end_piece(&mut self, piece: &Piece) {
        let task = &mut self.tasks[piece.task];
        let statement = &mut self.statements[task.statement];
        statement.account.add(piece.length);
        statement.served += piece.length * u64::from(FULL_WEIGHT) / u64::from(statement.weight);
        task.pieces_left -= 1;
        if task.pieces_left == 0 {
            statement.account.leave(&self.turns);
        } else if statement.demand == Demand::Some && self.random.random_bool(0.3) {
            let until = self.now + self.random.random_range(1..=500_u64);
            self.elsewhere.push((until, piece.task));
        } else {
            self.ready.lock().push_back(piece.task);
        }
    }

    /// As long as those that want all threads have all their tasks, none of them is ahead of another one by more than a part, and a
    /// piece of each thread.
    fn check_shares(&self) {
        let of_greedy = |task: &Task| self.statements[task.statement].demand == Demand::All;
        if self.tasks.iter().any(|task| task.pieces_left == 0 && of_greedy(task)) {
            return;
        }
        let greedy: Vec<_> =
            self.statements.iter().filter(|statement| statement.demand == Demand::All).collect();
        let most = greedy.iter().map(|statement| statement.served).max().unwrap();
        let least = greedy.iter().map(|statement| statement.served).min().unwrap();
        let weight = greedy.iter().map(|statement| statement.weight).min().unwrap();
        let piece = LENGTH_MAX * u64::from(FULL_WEIGHT) / u64::from(weight);
        let ahead = most - least;
        assert!(ahead <= PART + self.threads.len() as u64 * piece, "{ahead} ahead at {}", self.now);
    }
}

#[test]
fn threads_are_shared_by_time_and_no_thread_sleeps_while_a_task_waits() {
    for seed in 0..100 {
        let mut simulation = Simulation::new(seed);
        loop {
            simulation.take_tasks();
            if !simulation.go_on() {
                break;
            }
            simulation.check_shares();
        }
        assert!(simulation.tasks.iter().all(|task| task.pieces_left == 0), "seed {seed}");
        assert_eq!(simulation.turns.figures().statements, 0, "seed {seed}");
    }
}
