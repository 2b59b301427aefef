// SPDX-License-Identifier: Apache-2.0
//! Bytes of a closed directory are changed; then it is opened and everything is read, by every path.
//!
//! # Legal outcomes
//! | what was hit | open | reads |
//! |---|---|---|
//! | bytes that nothing depends on (padding, the lock's note) | opens | the right rows |
//! | manifest, footer of a segment, log up to where it ended at the close, the note of that end | XX001 with file and offset | |
//! | what lies behind that end in the log | opens | the right rows |
//! | a chunk | opens, or XX001 if the replay of the log needs it | XX001 with file and offset for reads of that chunk; the right rows for all others |
//!
//! Never a panic, never other rows, and after an error the session goes on.

use crate::places::{Change, Image};
use coeval::{CheckpointPolicy, Database, Direction, Error, Isolation, KeyRange, Session, SqlState, Value};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// How many places of each file are changed; `COEVAL_DAMAGE_PLACES` says otherwise.
const PLACES_PER_FILE: usize = 12;

/// Rows of the table that takes two chunks.
const LONG_ROWS: i64 = 66_000;

/// The tables with what of them is compared.
const QUERIES: [(&str, &str); 7] = [
    ("long", "SELECT count(*), sum(id), sum(value), min(label), max(label) FROM long"),
    ("long", "SELECT id, value, label FROM long WHERE id = 65990"),
    ("long", "SELECT id FROM long WHERE value = 7 ORDER BY id"),
    ("parents", "SELECT id, name, amount, born FROM parents ORDER BY id"),
    (
        "children",
        "SELECT p.name, c.line, c.note FROM children c JOIN parents p ON p.id = c.parent ORDER BY 1, 2",
    ),
    ("loaded", "SELECT count(*), sum(id), max(note) FROM loaded"),
    ("tail", "SELECT id, note FROM tail ORDER BY id"),
];

fn open(dir: &Path) -> Result<Database, Error> {
    Database::options().checkpoint(CheckpointPolicy::Manual).open(dir)
}

/// Makes a directory with chunks, indexes, a bulk load that only the log knows, and single commits behind it.
/// Returns what is read at the checkpoint and after each commit since.
fn build(dir: &Path) -> Vec<State> {
    let db = open(dir).unwrap();
    let mut session = db.session();
    session
        .execute(
            "CREATE TABLE long (id bigint PRIMARY KEY, value bigint NOT NULL, label text);
             CREATE TABLE parents (id int PRIMARY KEY, name text UNIQUE, amount numeric(12,2), born date);
             CREATE TABLE children (parent int REFERENCES parents ON DELETE CASCADE, line int, note varchar(40), PRIMARY KEY (parent, line));
             CREATE TABLE loaded (id bigint PRIMARY KEY, note text);
             CREATE TABLE tail (id int PRIMARY KEY, note text)",
        )
        .unwrap();
    let long = format!(
        "INSERT INTO long SELECT i, i % 1000, 'label ' || i FROM generate_series(1, {LONG_ROWS}) AS t(i)"
    );
    session.execute(&long).unwrap();
    session.execute("CREATE INDEX long_value ON long (value)").unwrap();
    for id in 1..=60 {
        let parent = format!("INSERT INTO parents VALUES ({id}, 'name {id}', {id}.25, '2024-01-01')");
        session.execute(&parent).unwrap();
        for line in 1..=3 {
            session
                .execute(&format!("INSERT INTO children VALUES ({id}, {line}, 'note {id}/{line}')"))
                .unwrap();
        }
    }
    db.checkpoint().unwrap();
    let mut states = vec![read_everything(&db)];
    for commit in [
        "INSERT INTO loaded SELECT i, 'loaded ' || i FROM generate_series(1, 5000) AS t(i)",
        "UPDATE long SET value = 7 WHERE id IN (3, 40000, 65999)",
        "DELETE FROM parents WHERE id = 13",
        "INSERT INTO tail VALUES (1, 'one')",
        "INSERT INTO tail VALUES (2, 'two')",
    ] {
        session.execute(commit).unwrap();
        states.push(read_everything(&db));
    }
    assert!(states.iter().flatten().all(|(_, answer)| answer.is_ok()));
    states
}

/// What one way of reading gave.
type Answer = Result<Vec<String>, Error>;

/// What each way of reading gave, with the table.
type State = Vec<(&'static str, Answer)>;

fn query(session: &mut Session, sql: &str) -> Answer {
    let batches = session.query(sql)?;
    let mut rows = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| coeval::value_at(column.as_ref(), row));
            rows.push(values.map(|value| value.to_string()).collect::<Vec<_>>().join("|"));
        }
    }
    Ok(rows)
}

/// Every row of a table by key, forwards and backwards and some one by one, through the key-level interface.
fn walk(db: &Database, name: &str) -> Answer {
    let table = db.table(name)?;
    db.read(|tx| {
        let mut rows = Vec::new();
        for found in tx.scan(&table, &KeyRange::all(), Direction::Forward)? {
            let (key, row) = found?;
            let row = row.to_row();
            if rows.len() % 97 == 0 {
                let again = tx.get(&table, &key)?.expect("what a scan finds is found by key").to_row();
                assert_eq!(again.as_bytes(), row.as_bytes(), "two reads of a row agree");
            }
            rows.push(row.as_bytes().escape_ascii().to_string());
        }
        let backwards = tx.scan(&table, &KeyRange::all(), Direction::Backward)?;
        let count = backwards.map(|row| row.map(drop)).collect::<Result<Vec<()>, Error>>()?.len();
        assert_eq!(count, rows.len(), "both directions give as many rows");
        for index in &table.def().indexes {
            let entries = tx.scan_index(&table, index.id, &KeyRange::all(), Direction::Forward)?;
            let count = entries.map(|entry| entry.map(drop)).collect::<Result<Vec<()>, Error>>()?.len();
            assert_eq!(count, rows.len(), "each row has its entry");
        }
        Ok(rows)
    })
}

fn read_everything(db: &Database) -> State {
    let mut session = db.session();
    let mut answers: State = QUERIES.iter().map(|(table, sql)| (*table, query(&mut session, sql))).collect();
    for table in ["long", "parents", "children", "loaded", "tail"] {
        answers.push((table, walk(db, table)));
    }
    let alive = query(&mut session, "SELECT 1 + 1").expect("the session goes on after an error");
    assert_eq!(alive, ["2"]);
    answers
}

/// That the error is of damage and says where.
fn assert_names_the_place(error: &Error, dir: &Path) {
    assert_eq!(error.state(), SqlState::DataCorrupted, "{error}");
    let text = error.to_string();
    assert!(text.contains(&*dir.to_string_lossy()), "the message names the file: {text}");
    assert!(text.contains("offset "), "the message names the offset: {text}");
}

/// Whether every answer that is not an error is that of `state`.
fn agrees(answers: &State, state: &State) -> bool {
    answers.iter().zip(state).all(|((_, answer), (_, right))| match (answer, right) {
        (Ok(rows), Ok(right)) => rows == right,
        (Err(_), _) => true,
        (Ok(_), Err(_)) => false,
    })
}

/// What a changed directory does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It opens and everything is read.
    Readable,
    /// It does not open, or something is not read.
    Refused,
}

/// Opens and reads a changed directory, whose contents may be those of each of `states`.
fn judge(dir: &Path, states: &[State]) -> Outcome {
    let db = match open(dir) {
        Ok(db) => db,
        Err(error) => {
            assert_names_the_place(&error, dir);
            return Outcome::Refused;
        }
    };
    let answers = read_everything(&db);
    let is_legal = states.iter().any(|state| agrees(&answers, state));
    assert!(is_legal, "other rows than ever committed: {answers:.500?}");
    let mut damaged = BTreeSet::new();
    for (table, answer) in &answers {
        if let Err(error) = answer {
            assert_names_the_place(error, dir);
            // Children are read together with their parents.
            damaged.insert(if *table == "children" { "parents" } else { table });
        }
    }
    assert!(damaged.len() <= 1, "one damage is met in one table: {damaged:?}");
    let Some(table) = damaged.first() else { return Outcome::Readable };
    let other = if *table == "tail" { "loaded" } else { "tail" };
    let insert = format!("INSERT INTO {other} VALUES (1000000, 'later')");
    db.session().execute(&insert).expect("other tables take commits");
    Outcome::Refused
}

#[test]
fn a_changed_byte_gives_the_right_rows_or_an_error_that_names_the_place() {
    let dir = tempfile::tempdir().unwrap();
    let states = build(dir.path());
    let image = Image::of(dir.path());
    let places = std::env::var("COEVAL_DAMAGE_PLACES").ok().and_then(|text| text.parse().ok());
    let mut dice = SmallRng::seed_from_u64(20_260_801);
    let (mut readable, mut refused) = (0, 0);
    for file in image.files() {
        for _ in 0..places.unwrap_or(PLACES_PER_FILE) {
            let change = Change::random(image.used(file), &mut dice);
            // The database was closed: nothing of the log is taken for a torn tail.
            let legal = &states[states.len() - 1..];
            image.restore(dir.path());
            image.change(dir.path(), file, change);
            match catch_unwind(AssertUnwindSafe(|| judge(dir.path(), legal))) {
                Ok(Outcome::Readable) => readable += 1,
                Ok(Outcome::Refused) => refused += 1,
                Err(_) => panic!("{} after {change:?}; see above", file.display()),
            }
        }
    }
    assert!(refused > 2 * readable, "most places matter: {refused} against {readable}");
}

#[test]
fn a_missing_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path());
    let image = Image::of(dir.path());
    for file in image.files().filter(|file| !file.ends_with("LOCK")) {
        image.restore(dir.path());
        std::fs::remove_file(dir.path().join(file)).unwrap();
        if file.ends_with("log/end") {
            // A note that an older database does not have: without it damage of the log's end goes unseen, and nothing else.
            drop(open(dir.path()).expect("all that counts is there"));
            continue;
        }
        let error = open(dir.path()).err().expect("the file is needed");
        assert_eq!(error.state(), SqlState::DataCorrupted, "{} is missing: {error}", file.display());
        // A log segment has the name of its first record, of which the others know nothing.
        let name = if file.starts_with("log") { file.parent() } else { Some(file) };
        let name = dir.path().join(name.expect("a segment lies in a directory"));
        assert!(
            error.to_string().contains(&*name.to_string_lossy()),
            "{} is missing: {error}",
            name.display()
        );
    }
}

#[test]
fn a_transaction_of_the_key_level_interface_meets_damage_as_an_error() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path());
    let image = Image::of(dir.path());
    let is_segment = |file: &&Path| file.extension().is_some_and(|extension| extension == "arrow");
    let met = image.files().filter(is_segment).filter(|segment| {
        image.restore(dir.path());
        image.change(dir.path(), segment, Change::Flip { offset: image.len(segment) / 2, mask: 1 });
        meets_damage(dir.path())
    });
    assert!(met.count() > 0, "none of the segments has what the transaction reads");
}

/// Whether a transaction that writes rows of a long table meets the damage of one segment.
fn meets_damage(dir: &Path) -> bool {
    let db = match open(dir) {
        Ok(db) => db,
        Err(error) => {
            assert_names_the_place(&error, dir);
            return false;
        }
    };
    let long = db.table("long").unwrap();
    let outcome = db.transaction(Isolation::Snapshot, |tx| {
        for id in [1, LONG_ROWS] {
            tx.put(&long, long.row(&[Value::Int64(id), Value::Int64(0), Value::Null])?)?;
        }
        Ok::<_, Error>(())
    });
    if let Err(error) = &outcome {
        assert_names_the_place(error, dir);
    }
    let checkpoint = db.checkpoint();
    let tail = db.table("tail").unwrap();
    let written =
        db.transaction(Isolation::Snapshot, |tx| tx.put(&tail, tail.row(&[Value::Int32(9), Value::Null])?));
    if outcome.is_err() {
        written.expect("other tables take commits, whatever became of the checkpoint");
    }
    if let Err(error) = checkpoint {
        assert_names_the_place(&error, dir);
    }
    outcome.is_err()
}
