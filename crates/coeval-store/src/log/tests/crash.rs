// SPDX-License-Identifier: Apache-2.0
//! Random appends, syncs, checkpoints, faults and crashes: after each crash the log holds a prefix of what was
//! appended that contains all that was acknowledged, and nothing half. The same test with a disk that ignores
//! syncs, or with the checksums left out, must fail.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::files::{Fault, FileSystem, Lie, SimulatedFiles};
use crate::log::tests::{log_dir, open};
use crate::log::{ChecksumPolicy, Log, LogError, LogOptions, Lsn, OpenError, Tail, verify};

const SEEDS: u64 = 1500;

/// What is left out on purpose.
#[derive(Clone, Copy)]
struct Rig {
    lie: Option<Lie>,
    checksums: ChecksumPolicy,
}

const HONEST: Rig = Rig { lie: None, checksums: ChecksumPolicy::Verified };

/// What the seeds met, to see that the test tests something.
#[derive(Default, Debug)]
struct Met {
    crashes: u64,
    torn_tails: u64,
    failed_calls: u64,
    failed_opens: u64,
    segments: u64,
    removed: u64,
    lost_unacknowledged: u64,
    kept_unacknowledged: u64,
    refused: u64,
}

/// What the log may hold: all that was attempted, of which so many are acknowledged.
struct Model {
    /// Payload and, if the append succeeded, the LSN behind it.
    attempted: Vec<(Vec<u8>, Option<Lsn>)>,
    acknowledged: usize,
    /// The checkpoint: its LSN, and how many records it contains.
    from: Lsn,
    from_count: usize,
}

impl Model {
    fn take_recovered(&mut self, records: &[(Lsn, Vec<u8>)], met: &mut Met) -> Result<(), String> {
        let count = self.from_count + records.len();
        if count < self.acknowledged {
            return Err(format!("{} records acknowledged, {count} found", self.acknowledged));
        }
        for (index, (lsn, payload)) in (self.from_count..).zip(records) {
            match self.attempted.get(index) {
                None => return Err(format!("record {index} was never appended")),
                Some((expected, _)) if expected != payload => {
                    return Err(format!("record {index} is not what was appended"));
                }
                Some((_, Some(expected))) if expected != lsn => {
                    return Err(format!("record {index} is at {lsn}, not at {expected}"));
                }
                Some(_) => self.attempted[index].1 = Some(*lsn),
            }
        }
        met.kept_unacknowledged += (count - self.acknowledged) as u64;
        met.lost_unacknowledged += (self.attempted.len() - count) as u64;
        self.attempted.truncate(count);
        self.acknowledged = count;
        Ok(())
    }
}

fn random_options(dice: &mut StdRng, rig: Rig) -> LogOptions {
    LogOptions {
        segment_bytes: [300, 2_000, 20_000][dice.random_range(0..3)],
        extend_bytes: [1, 128, 4096][dice.random_range(0..3)],
        checksums: rig.checksums,
    }
}

/// Opens until it works: a failed open is followed by a crash or a restart, as long as calls fail.
fn recover(
    simulation: &mut SimulatedFiles,
    model: &mut Model,
    options: LogOptions,
    dice: &mut StdRng,
    met: &mut Met,
) -> Result<Log, String> {
    loop {
        let files: Arc<dyn FileSystem> = Arc::new(simulation.clone());
        files.create_dir_all(&log_dir()).map_err(|error| error.to_string())?;
        let verified = if options.checksums == ChecksumPolicy::Verified {
            let verified = verify(&*files, &log_dir(), model.from).map_err(|error| error.to_string())?;
            met.torn_tails += u64::from(matches!(verified.tail, Tail::Torn { .. }));
            met.segments += verified.segments;
            Some(verified.records)
        } else {
            None
        };
        if dice.random_ratio(1, 4) {
            simulation.fail_after(dice.random_range(0..12), Fault::Io);
        }
        match open(&files, model.from, options) {
            Ok((log, records)) => {
                simulation.heal();
                if verified.is_some_and(|count| count != records.len() as u64) {
                    return Err(format!("verify saw {verified:?}, open {}", records.len()));
                }
                model.take_recovered(&records, met)?;
                return Ok(log);
            }
            Err(OpenError::Log(LogError::File(_))) => {
                met.failed_opens += 1;
                *simulation = if dice.random() { simulation.crash() } else { simulation.restart() };
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Appends, syncs and checkpoints at random. Returns when the log has stopped, or after a while.
fn work(log: &mut Log, model: &mut Model, dice: &mut StdRng, met: &mut Met) -> Result<(), String> {
    let handle = log.handle();
    for _ in 0..dice.random_range(0..60) {
        match dice.random_range(0..10) {
            0..=5 => {
                let size = if dice.random_ratio(1, 10) { 6000 } else { 120 };
                let mut payload = vec![0; dice.random_range(1..size)];
                dice.fill(payload.as_mut_slice());
                let outcome = log.append(&payload);
                if let Err(LogError::NoRoom(_)) = outcome {
                    // Nothing was written: it must never be found.
                    met.refused += 1;
                    continue;
                }
                model.attempted.push((payload, outcome.as_ref().ok().copied()));
                if let Err(first) = outcome {
                    met.failed_calls += 1;
                    return check_stopped(log, &first);
                }
            }
            6..=8 => match handle.sync(log.end_lsn()) {
                Ok(lsn) if lsn == log.end_lsn() => model.acknowledged = model.attempted.len(),
                Ok(lsn) => return Err(format!("synced to {lsn}, not to the end")),
                Err(first) => {
                    met.failed_calls += 1;
                    return check_stopped(log, &first);
                }
            },
            _ => {
                if model.acknowledged > model.from_count {
                    model.from_count = dice.random_range(model.from_count..model.acknowledged) + 1;
                    model.from = model.attempted[model.from_count - 1].1.ok_or("an LSN is missing")?;
                }
                // A removal that fails is no harm, and the log goes on.
                met.removed += handle.remove_before(model.from).unwrap_or(0) as u64;
            }
        }
    }
    Ok(())
}

fn check_stopped(log: &mut Log, first: &LogError) -> Result<(), String> {
    let append = log.append(b"never");
    let target = log.end_lsn();
    let sync = log.handle().sync(target);
    let stopped = |outcome: Result<Lsn, LogError>| match outcome {
        Err(LogError::Stopped { first: reason }) => reason.to_string() == first.to_string(),
        // Durable already: no sync was needed.
        Ok(lsn) => lsn == target,
        Err(_) => false,
    };
    let refused = matches!(append, Err(LogError::Stopped { .. }));
    if refused && stopped(append) && stopped(sync) { Ok(()) } else { Err("the log did not stop".to_string()) }
}

fn run_seed(seed: u64, rig: Rig, met: &mut Met) -> Result<(), String> {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut simulation = SimulatedFiles::new(seed);
    if let Some(lie) = rig.lie {
        simulation.tell(lie);
    }
    let options = random_options(&mut dice, rig);
    let mut model = Model { attempted: Vec::new(), acknowledged: 0, from: Lsn::START, from_count: 0 };
    for _ in 0..dice.random_range(1..5) {
        let mut log = recover(&mut simulation, &mut model, options, &mut dice, met)?;
        let fault = if dice.random() { Fault::Io } else { Fault::DiskFull };
        match dice.random_range(0..3) {
            0 => simulation.fail_after(dice.random_range(0..60), fault),
            1 => simulation.fail_randomly(50, fault),
            _ => {}
        }
        work(&mut log, &mut model, &mut dice, met)?;
        if dice.random_ratio(2, 3) {
            simulation = simulation.crash();
            met.crashes += 1;
        } else {
            simulation = simulation.restart();
        }
        if log.append(b"from the dead").is_ok() {
            return Err("a dead process wrote".to_string());
        }
    }
    recover(&mut simulation, &mut model, options, &mut dice, met).map(drop)
}

#[test]
fn after_any_crash_the_log_holds_a_prefix_with_all_that_was_acknowledged() {
    let mut met = Met::default();
    for seed in 0..SEEDS {
        run_seed(seed, HONEST, &mut met).unwrap_or_else(|reason| panic!("seed {seed}: {reason}"));
    }
    println!("{met:?}");
    let Met { crashes, torn_tails, failed_calls, failed_opens, segments, removed, .. } = met;
    for (what, count) in [
        ("crashes", crashes),
        ("torn tails", torn_tails),
        ("failed calls", failed_calls),
        ("failed opens", failed_opens),
        ("segments", segments),
        ("removed segments", removed),
        ("lost unacknowledged records", met.lost_unacknowledged),
        ("kept unacknowledged records", met.kept_unacknowledged),
        ("records without room", met.refused),
    ] {
        assert!(count > SEEDS / 20, "too few {what} to prove anything: {count}");
    }
}

/// The number of seeds that see the rig.
fn seeds_that_fail(rig: Rig) -> u64 {
    let mut met = Met::default();
    (0..200).filter(|seed| run_seed(*seed, rig, &mut met).is_err()).count() as u64
}

#[test]
fn a_disk_that_ignores_syncs_is_seen() {
    let failed = seeds_that_fail(Rig { lie: Some(Lie::IgnoreSync), ..HONEST });
    assert!(failed > 50, "only {failed} of 200 seeds saw it");
}

#[test]
fn a_disk_that_ignores_directory_syncs_is_seen() {
    let failed = seeds_that_fail(Rig { lie: Some(Lie::IgnoreDirectorySync), ..HONEST });
    assert!(failed > 50, "only {failed} of 200 seeds saw it");
}

#[test]
fn a_log_without_checksums_is_seen() {
    let failed = seeds_that_fail(Rig { checksums: ChecksumPolicy::IgnoredOnPurpose, ..HONEST });
    assert!(failed > 20, "only {failed} of 200 seeds saw it");
}
