// SPDX-License-Identifier: Apache-2.0
//! Every kind of file that a directory of a database has: what an open does when a byte of it is damaged, when it is cut off, and
//! when it is gone.
//!
//! The kinds are those of the table in `docs/formats.md`, which the test reads: a file of no kind, a kind that no directory here
//! has, and a kind of which nobody has said what an open does, fail it.

mod machines;
mod small_files;

use crate::error::StoreError;
use crate::files::{FileSystem, OpenMode, SimulatedFiles};
use crate::model_workload::Model;
use crate::verify::verify;
use machines::{Machines, PRIMARY, REPLICA, SLOT, TIMELINE, machines, open_primary, open_replica};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What becomes of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// It is an error that says so.
    Named,
    /// All is there, in that file's place nothing or what was there.
    Harmless,
    /// Neither.
    Wrong,
}
use Outcome::{Harmless, Named};

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Harm {
    Byte,
    Cut,
    Loss,
}

/// What may become of a file of a kind when a byte is damaged, when it is cut off, when it is gone.
struct Kind {
    /// As the table names it.
    path: &'static str,
    byte: &'static [Outcome],
    cut: &'static [Outcome],
    loss: &'static [Outcome],
}

const NEEDED: &[Outcome] = &[Named];
const OF_NO_VALUE: &[Outcome] = &[Harmless];
/// Some of them, or some of their bytes.
const PARTLY_NEEDED: &[Outcome] = &[Named, Harmless];

const fn kind(
    path: &'static str,
    byte: &'static [Outcome],
    cut: &'static [Outcome],
    loss: &'static [Outcome],
) -> Kind {
    Kind { path, byte, cut, loss }
}

const fn of_no_value(path: &'static str) -> Kind {
    kind(path, OF_NO_VALUE, OF_NO_VALUE, OF_NO_VALUE)
}

const KINDS: [Kind; 27] = [
    kind("MANIFEST", NEEDED, NEEDED, NEEDED),
    of_no_value("MANIFEST.tmp"),
    of_no_value("LOCK"),
    of_no_value("mock-secret"),
    of_no_value("pg_hba.conf"),
    of_no_value("served"),
    // It says nothing then: what the slot has kept goes, and the slot is gone.
    of_no_value("kept-log"),
    of_no_value("kept-log.tmp"),
    // A loss from outside is seen by nobody: `docs/durability.md`, What is not covered.
    kind("promise", NEEDED, NEEDED, OF_NO_VALUE),
    of_no_value("promise.tmp"),
    // Its being there counts; what is in it may be forgotten.
    kind("follower", OF_NO_VALUE, OF_NO_VALUE, NEEDED),
    of_no_value("follower.tmp"),
    kind("unfinished-copy", NEEDED, NEEDED, NEEDED),
    kind("rewinding", NEEDED, NEEDED, NEEDED),
    of_no_value("rewinding.tmp"),
    // Of great value to people; nothing is read of it.
    of_no_value("rewound/"),
    // Segments that are kept for others are not read.
    kind("log/<LSN>.log", PARTLY_NEEDED, PARTLY_NEEDED, PARTLY_NEEDED),
    of_no_value("log/<LSN>.log.tmp"),
    kind("log/end", NEEDED, NEEDED, OF_NO_VALUE),
    of_no_value("log/end.tmp"),
    of_no_value("spill/"),
    kind("segments/<number>.arrow", PARTLY_NEEDED, PARTLY_NEEDED, PARTLY_NEEDED),
    of_no_value("segments/<number>.arrow.tmp"),
    kind("segments/<number>.bricks", NEEDED, NEEDED, NEEDED),
    of_no_value("segments/<number>.bricks.tmp"),
    // Made by a repair: `repair/tests.rs`.
    of_no_value("segments/<name>.damaged"),
    of_no_value("segments/<name>.damaged-<n>"),
];

/// Whether a path is of a kind: `<LSN>` and `<number>` are 20 digits, a directory has files of any name.
fn is_of_kind(path: &str, kind: &str) -> bool {
    if kind.ends_with('/') {
        return path.starts_with(kind);
    }
    let Some((before, rest)) = kind.split_once('<') else { return path == kind };
    let Some((what, after)) = rest.split_once('>') else { return false };
    let Some(rest) = path.strip_prefix(before) else { return false };
    if what == "name" {
        return match after.split_once('<') {
            Some((infix, _)) => rest.contains(infix),
            None => rest.ends_with(after),
        };
    }
    let is_number = |text: &str| text.len() == 20 && text.bytes().all(|byte| byte.is_ascii_digit());
    rest.strip_suffix(after).is_some_and(is_number)
}

fn kind_of(path: &str) -> &'static Kind {
    let kinds: Vec<&Kind> = KINDS.iter().filter(|kind| is_of_kind(path, kind.path)).collect();
    assert_eq!(
        kinds.len(),
        1,
        "{path} is of {} kinds: say what an open does when it is damaged",
        kinds.len()
    );
    kinds[0]
}

/// All files of a directory, by their paths in it.
fn paths_in(files: &SimulatedFiles, dir: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for part in ["", "log/", "rewound/", "segments/", "spill/"] {
        let part_dir = Path::new(dir).join(part);
        if files.exists(&part_dir).unwrap() {
            paths.extend(files.list(&part_dir).unwrap().iter().map(|name| format!("{part}{name}")));
        }
    }
    paths
}

/// Opens a directory as what it is, and compares.
fn look(files: &SimulatedFiles, dir: &str, model: &Model, harmed: &str) -> (Outcome, String) {
    let looked = catch_unwind(AssertUnwindSafe(|| match dir {
        REPLICA => look_at_replica(files, model),
        _ => look_at_primary(files, model, harmed),
    }));
    match looked {
        Ok(Ok(())) => (Harmless, String::new()),
        Ok(Err(what)) if what.starts_with(REFUSED) || what.contains(" is damaged at offset ") => {
            (Named, what)
        }
        Ok(Err(what)) => (Outcome::Wrong, what),
        Err(_) => (Outcome::Wrong, "a panic".to_owned()),
    }
}

const REFUSED: &str = "refused: ";

fn refused(error: StoreError) -> String {
    format!("{REFUSED}{error}")
}

fn look_at_primary(files: &SimulatedFiles, model: &Model, harmed: &str) -> Result<(), String> {
    let store = open_primary(files, PRIMARY).map_err(refused)?;
    model.check(&store.world())?;
    let slots: Vec<String> = store.slots().into_iter().map(|slot| slot.name).collect();
    let has_kept = store.shared.retention.kept().is_some();
    if harmed == "kept-log" && slots.is_empty() && !has_kept {
        // It says so in the log, and whoever comes for the slot is told that there is none.
    } else if slots != [SLOT] || !has_kept {
        return Err(format!("of what is kept of the log, {slots:?} and {has_kept} is left"));
    }
    if store.timeline().get() != TIMELINE.get() || store.superseded_by().is_some() {
        return Err(format!("it is in timeline {}", store.timeline()));
    }
    // It goes on: the next checkpoint finds everything that it needs.
    let made = store.checkpoint().map_err(|error| error.to_string());
    made.map(drop)
}

fn look_at_replica(files: &SimulatedFiles, model: &Model) -> Result<(), String> {
    // What it is opened as by whoever does not know that it is a replica.
    let as_primary = open_primary(&files.copy(), REPLICA);
    if as_primary.is_ok_and(|store| store.superseded_by().is_none()) {
        return Err("two machines write the log of one timeline".to_owned());
    }
    let (store, follower) = open_replica(files, REPLICA).map_err(refused)?;
    model.check(&store.world())?;
    if follower.terms().timeline().get() != TIMELINE.get() {
        return Err(format!("it follows timeline {}", follower.terms().timeline()));
    }
    Ok(())
}

fn cut(files: &SimulatedFiles, path: &Path, length: u64) {
    let file = files.open(path, OpenMode::Existing).unwrap();
    file.set_len(length).unwrap();
    file.sync_all().unwrap();
}

/// Places of a file: all of a small one, else some in each part of it.
fn places(length: u64) -> Vec<u64> {
    const PLACES: u64 = 24;
    let step = if length <= 64 { 1 } else { length.div_ceil(PLACES) };
    let spread = (0..length).step_by(usize::try_from(step).unwrap());
    // Not always the same place of what has a regular form.
    spread.enumerate().map(|(nth, place)| (place + nth as u64 % step).min(length - 1)).collect()
}

type Met = BTreeMap<(&'static str, Harm), BTreeSet<Outcome>>;

/// Harms one file in all ways.
fn harm(files: &SimulatedFiles, dir: &str, path: &str, model: &Model, met: &mut Met) {
    let kind = kind_of(path);
    let whole = Path::new(dir).join(path);
    let mut expect = |harm: Harm, harmed: &SimulatedFiles, at: u64| {
        let allowed = match harm {
            Harm::Byte => kind.byte,
            Harm::Cut => kind.cut,
            Harm::Loss => kind.loss,
        };
        let (outcome, what) = look(&harmed.copy(), dir, model, path);
        assert!(allowed.contains(&outcome), "{harm:?} at {at} of {dir}/{path}: {outcome:?}: {what}");
        let file = path.rsplit('/').next().unwrap();
        let is_said = outcome != Named || harm != Harm::Byte || what.contains(file);
        assert!(is_said, "{harm:?} at {at} of {dir}/{path}: whoever reads this looks elsewhere: {what}");
        let is_clean = verify(Arc::new(harmed.copy()), Path::new(dir), None).unwrap().is_clean();
        // What is forgotten at once is damage as well, though an open goes on.
        let is_overlooked = is_clean && (outcome == Named || (path == "kept-log" && harm != Harm::Loss));
        assert!(!is_overlooked, "{harm:?} at {at} of {dir}/{path}: a check overlooks it: {what}");
        met.entry((kind.path, harm)).or_default().insert(outcome);
    };
    let length = files.len(&whole).unwrap();
    for at in places(length) {
        let harmed = files.copy();
        harmed.damage(&whole, at, 1 << (at % 8));
        expect(Harm::Byte, &harmed, at);
    }
    for at in places(length).into_iter().step_by(3) {
        let harmed = files.copy();
        cut(&harmed, &whole, at);
        expect(Harm::Cut, &harmed, at);
    }
    let harmed = files.copy();
    harmed.remove(&whole).unwrap();
    harmed.sync_dir(whole.parent().unwrap()).unwrap();
    expect(Harm::Loss, &harmed, 0);
}

#[test]
fn whatever_file_is_damaged_or_gone_it_is_named_or_nothing_needed_is_lost() {
    let mut met = Met::new();
    let Machines { files, primary, replica } = machines(1);
    for (dir, model) in [(PRIMARY, &primary), (REPLICA, &replica)] {
        let (outcome, what) = look(&files.copy(), dir, model, "");
        assert_eq!(outcome, Harmless, "{dir}, untouched: {what}");
        for path in paths_in(&files, dir) {
            harm(&files, dir, &path, model, &mut met);
        }
    }
    for kind in KINDS.iter().filter(|kind| !NOT_HERE.contains(&kind.path)) {
        for (harm, allowed) in [(Harm::Byte, kind.byte), (Harm::Cut, kind.cut), (Harm::Loss, kind.loss)] {
            let found = met.get(&(kind.path, harm)).cloned().unwrap_or_default();
            let allowed = allowed.iter().copied().collect();
            assert_eq!(found, allowed, "{harm:?} of {}; of all: {met:?}", kind.path);
        }
    }
}

/// Kinds that directories here do not have; what is made of them is seen elsewhere.
const NOT_HERE: [&str; 5] = [
    "unfinished-copy",
    "rewinding",
    "follower.tmp",
    "segments/<name>.damaged",
    "segments/<name>.damaged-<n>",
];

/// The kinds that `docs/formats.md` names.
fn documented_kinds() -> BTreeSet<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, directory) = text.split_once("\n## The directory\n").unwrap();
    let (directory, _) = directory.split_once("\n## ").unwrap();
    let first_column = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    directory.lines().filter_map(first_column).collect()
}

#[test]
fn the_kinds_of_files_are_those_that_are_documented() {
    let known: BTreeSet<String> = KINDS.iter().map(|kind| kind.path.to_owned()).collect();
    assert_eq!(known, documented_kinds());
}
