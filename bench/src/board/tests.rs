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
