// SPDX-License-Identifier: Apache-2.0
//! Who waits for the log, and how often it is asked, on a log whose syncs last as long as a test wants.

use super::super::{Position, RANGE_MIN, SequenceLog, Sequences};
use super::numbers;
use crate::error::StoreError;
use crate::files::{FileError, Operation};
use crate::ids::SequenceId;
use crate::log::{LogError, Lsn};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// A log in memory: each record is one byte long, so an LSN counts records.
#[derive(Default)]
struct GatedLog {
    state: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Default)]
struct Gate {
    records: Vec<(SequenceId, Option<i64>)>,
    durable: u64,
    sync_count: u64,
    is_shut: bool,
    /// Who waits for the gate.
    syncing: u64,
    leader_is_busy: bool,
    is_full: bool,
}

impl GatedLog {
    fn shut(&self) {
        self.state.lock().is_shut = true;
    }

    fn open(&self) {
        self.state.lock().is_shut = false;
        self.changed.notify_all();
    }

    fn wait_for_a_sync(&self) {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| state.syncing == 0);
    }

    fn sync_everything(&self) {
        let mut state = self.state.lock();
        state.durable = state.records.len() as u64;
    }
}

impl SequenceLog for GatedLog {
    fn append(&self, id: SequenceId, resume: Option<i64>) -> Result<Option<Lsn>, StoreError> {
        let mut state = self.state.lock();
        if state.is_full {
            let source = io::Error::from(io::ErrorKind::StorageFull);
            let error = FileError::new(Operation::Write, Path::new("log"), source);
            return Err(StoreError::Log(LogError::NoRoom(error)));
        }
        state.records.push((id, resume));
        Ok(Some(Lsn::new(state.records.len() as u64)))
    }

    fn try_append(&self, id: SequenceId, resume: Option<i64>) -> Option<Result<Option<Lsn>, StoreError>> {
        let is_busy = self.state.lock().leader_is_busy;
        (!is_busy).then(|| self.append(id, resume))
    }

    fn is_durable(&self, lsn: Lsn) -> bool {
        self.state.lock().durable >= lsn.get()
    }

    fn sync(&self, lsn: Lsn) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        state.sync_count += 1;
        state.syncing += 1;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| state.is_shut);
        state.syncing -= 1;
        state.durable = state.durable.max(lsn.get());
        Ok(())
    }

    fn aside(&self, wait: &mut dyn FnMut()) {
        wait();
    }
}

/// What `run` returns, unless it waits for ever.
fn without_waiting<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || sender.send(run()));
        let outcome = receiver.recv_timeout(Duration::from_secs(60));
        outcome.unwrap_or_else(|_| {
            // A thread that waits for ever keeps the scope from ending.
            eprintln!("it waits for a sync of somebody else");
            std::process::abort()
        })
    })
}

#[test]
fn while_one_sequence_syncs_others_go_on_and_so_does_what_was_logged_ahead() {
    let (log, sequences) = (GatedLog::default(), Sequences::default());
    let (one, other) = (numbers(1), numbers(2));
    assert_eq!(sequences.next_value(&other, &log).unwrap(), 1);
    log.shut();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| sequences.next_value(&one, &log).unwrap());
        log.wait_for_a_sync();
        let taken = without_waiting(|| {
            // The second range of this one is appended meanwhile, and synced by nobody.
            (1..RANGE_MIN).map(|_| sequences.next_value(&other, &log).unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(taken.last(), Some(&(RANGE_MIN as i64)));
        assert_eq!(log.state.lock().sync_count, 2, "one for the first number of each");
        // Everybody who wants a number of the one waits for the same sync.
        let waits_too = scope.spawn(|| sequences.next_value(&one, &log).unwrap());
        log.open();
        let mut both = [waiting.join().unwrap(), waits_too.join().unwrap()];
        both.sort_unstable();
        assert_eq!(both, [1, 2]);
        assert_eq!(log.state.lock().sync_count, 2);
    });
}

#[test]
fn a_range_that_others_have_synced_takes_no_sync() {
    let (log, sequences, def) = (GatedLog::default(), Sequences::default(), numbers(1));
    for expected in 1..=100_000 {
        assert_eq!(sequences.next_value(&def, &log).unwrap(), expected);
        // As commits do.
        log.sync_everything();
    }
    assert_eq!(log.state.lock().sync_count, 1, "the first number waits for its own record");
}

#[test]
fn a_busy_leader_puts_the_next_range_off_and_makes_it_no_longer() {
    let (log, sequences, def) = (GatedLog::default(), Sequences::default(), numbers(1));
    log.state.lock().leader_is_busy = true;
    for expected in 1..=RANGE_MIN as i64 {
        assert_eq!(sequences.next_value(&def, &log).unwrap(), expected);
    }
    let resume = RANGE_MIN as i64 + 1;
    assert_eq!(log.state.lock().records, [(def.id, Some(resume))]);
    assert_eq!(sequences.resume_points(), [(def.id, Some(resume))]);
    assert_eq!(sequences.next_value(&def, &log).unwrap(), resume);
    assert!(log.state.lock().records[1].1 <= Some(resume + 2 * RANGE_MIN as i64));
}

#[test]
fn ten_million_numbers_in_a_row_take_less_than_a_hundred_syncs() {
    let (log, sequences, def) = (GatedLog::default(), Sequences::default(), numbers(1));
    for expected in 1..=10_000_000 {
        assert_eq!(sequences.next_value(&def, &log).unwrap(), expected);
    }
    let state = log.state.lock();
    assert!(state.sync_count < 100, "{} syncs", state.sync_count);
    assert!(state.records.len() < 100, "{} records", state.records.len());
}

#[test]
fn a_manifest_that_is_written_while_a_record_is_on_its_way_says_what_the_record_says() {
    let (log, sequences, def) = (GatedLog::default(), Sequences::default(), numbers(1));
    log.shut();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| sequences.next_value(&def, &log).unwrap());
        log.wait_for_a_sync();
        let said = log.state.lock().records.clone();
        assert_eq!(without_waiting(|| sequences.resume_points()), said);
        log.open();
        assert_eq!(waiting.join().unwrap(), 1);
    });
    sequences.set(&def, Position::Next(500), &log).unwrap();
    assert_eq!(sequences.resume_points(), [(def.id, Some(500))]);
    assert_eq!(sequences.next_value(&def, &log).unwrap(), 500);
}

#[test]
fn a_sequence_that_begins_again_logs_that_before_it_gives_its_first_number_again() {
    let (log, sequences) = (GatedLog::default(), Sequences::default());
    let def = crate::catalog::SequenceDef { max: 3, cycle: true, ..numbers(1) };
    for expected in [1, 2, 3, 1, 2, 3, 1] {
        assert_eq!(sequences.next_value(&def, &log).unwrap(), expected);
        let newest = log.state.lock().records.last().copied();
        assert_eq!(newest, Some((def.id, Some(expected + 1))), "after a crash it goes on behind {expected}");
    }
}

/// A manifest that said where a refused setval was to go on would let numbers be given twice: those that were given since
/// the record before.
#[test]
fn a_sequence_that_finds_no_room_in_the_log_goes_on_where_the_log_says() {
    let (log, sequences, def) = (GatedLog::default(), Sequences::default(), numbers(1));
    for number in 1..=40 {
        assert_eq!(sequences.next_value(&def, &log).unwrap(), number);
    }
    let logged = log.state.lock().records.last().copied().unwrap();
    log.state.lock().is_full = true;
    let error = sequences.set(&def, Position::Next(1), &log).unwrap_err();
    assert!(matches!(error, StoreError::Log(LogError::NoRoom(_))), "{error}");
    assert_eq!(sequences.resume_points(), [logged]);
    let mut number = 40;
    while let Ok(next) = sequences.next_value(&def, &log) {
        assert_eq!(next, number + 1);
        number = next;
    }
    assert_eq!(sequences.resume_points(), [logged]);
    assert_eq!(logged.1, Some(number + 1), "what was logged was given");
    log.state.lock().is_full = false;
    assert_eq!(sequences.next_value(&def, &log).unwrap(), number + 1);
}
