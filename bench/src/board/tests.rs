// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::progress::Silent;

/// Commits everything at once, with a conflict each time.
struct Instantly;

impl Worker for Instantly {
    fn step(&mut self) -> Result<Step, BenchError> {
        std::thread::sleep(Duration::from_micros(100));
        Ok(Step { kind: 1, outcome: Outcome::Committed, conflicts: 1 })
    }
}

/// Fails at once.
struct Failing;

impl Worker for Failing {
    fn step(&mut self) -> Result<Step, BenchError> {
        Err(BenchError::Answer("no".to_owned()))
    }
}

fn options(seconds: f64) -> Options {
    Options { seconds, ..Options::default() }
}

#[test]
fn what_is_committed_while_the_board_measures_is_counted() {
    let board = Board::new(2, 3);
    let measured =
        board.run(vec![Box::new(Instantly), Box::new(Instantly)], &options(0.05), &Silent).unwrap();
    assert!(measured >= Duration::from_millis(50));
    let figures = board.figures();
    let total = figures.total();
    assert!(total.committed > 0);
    assert_eq!(total.committed, total.conflicts);
    assert_eq!(total.committed, total.latency.count());
    assert_eq!(total.committed, figures.kinds[1].committed);
}

/// Moves the board on while it runs a transaction: the third ends when it measures, the fifth when it is stopped.
struct Moving<'b> {
    board: &'b Board,
    steps: u64,
}

impl Worker for Moving<'_> {
    fn step(&mut self) -> Result<Step, BenchError> {
        self.steps += 1;
        match self.steps {
            3 => self.board.phase.store(MEASURING, Ordering::Relaxed),
            5 => self.board.stop(),
            _ => {}
        }
        Ok(Step { kind: 0, outcome: Outcome::Committed, conflicts: self.steps })
    }
}

#[test]
fn what_ends_while_the_board_warms_up_or_behind_its_stop_is_not_counted() {
    let board = Board::new(2, 1);
    let noted = Step { kind: 0, outcome: Outcome::RolledBack, conflicts: 0 };
    board.record(1, noted, Duration::ZERO);
    assert_eq!(board.figures().total().rolled_back, 0, "of others, while it warms up");
    board.work(&board.workers[0], Box::new(Moving { board: &board, steps: 0 })).unwrap();
    board.record(1, noted, Duration::ZERO);
    let total = board.figures().total();
    assert_eq!((total.committed, total.conflicts, total.latency.count()), (2, 3 + 4, 2));
    assert_eq!(total.rolled_back, 0, "of others, behind the stop");
}

/// Looks whether the board measures whenever it is asked whether to cancel.
struct Looking<'b> {
    board: &'b Board,
    begun: Instant,
    seen: Mutex<Vec<(Duration, bool)>>,
}

impl Progress for Looking<'_> {
    fn begin(&self, _phase: &str, _total: Option<u64>) {}
    fn advance(&self, _count: u64) {}
    fn end(&self) {}
    fn sample(&self, _sample: &Sample) {}
    fn is_cancelled(&self) -> bool {
        self.seen.lock().push((self.begun.elapsed(), self.board.is_measuring()));
        false
    }
}

#[test]
fn the_board_warms_up_for_a_tenth_of_the_time_before_it_measures() {
    let board = Board::new(0, 1);
    let looking = Looking { board: &board, begun: Instant::now(), seen: Mutex::default() };
    let measured = board.conduct(&options(0.5), &looking, &|_| {});
    assert!(measured >= Duration::from_millis(500));
    let seen = looking.seen.into_inner();
    assert!(!seen[0].1, "it measures from the beginning");
    let (first, _) = seen.iter().find(|(_, is_measuring)| *is_measuring).unwrap();
    assert!(*first >= Duration::from_millis(50), "it warms up for {first:?}");
}

#[test]
fn a_failing_worker_stops_everybody() {
    let board = Board::new(2, 3);
    let ended = board.run(vec![Box::new(Instantly), Box::new(Failing)], &options(3_600.0), &Silent);
    assert!(ended.is_err());
}

/// Cancels at once.
struct Cancelling;

impl Progress for Cancelling {
    fn begin(&self, _phase: &str, _total: Option<u64>) {}
    fn advance(&self, _count: u64) {}
    fn end(&self) {}
    fn sample(&self, _sample: &Sample) {}
    fn is_cancelled(&self) -> bool {
        true
    }
}

#[test]
fn a_cancelled_run_ends_without_an_error() {
    let board = Board::new(1, 3);
    let measured = board.run(vec![Box::new(Instantly)], &options(3_600.0), &Cancelling).unwrap();
    assert!(measured < Duration::from_secs(60));
}
