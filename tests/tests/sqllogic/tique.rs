// SPDX-License-Identifier: Apache-2.0
//! The files of `tests/sql/` once more, with tables that TiQuE keeps on an engine.
//!
//! On DataFusion always; on DuckDB, MonetDB, SQLite and PostgreSQL if `COEVAL_TIQUE_DUCKDB`, `COEVAL_TIQUE_MONETDB`,
//! `COEVAL_TIQUE_SQLITE` and `COEVAL_TIQUE_POSTGRESQL` name their libraries; PostgreSQL is a server of the test's own.
//! `tests/sql/unsupported/` lists what is not supported, by all engines and by each,
//! a line for each reason:
//!
//! ```text
//! a part of the statement or of the answer => the reason
//! ```
//! What fails and is not listed is a bug, and so is a line that nothing fails by. A statement that is listed leaves its tables
//! different from what the file says, so what names them later is not judged. All files run but those of `files.txt`, which are
//! about what no engine sees.

#[path = "../../../crates/coeval-tique/tests/sessions/cluster.rs"]
mod cluster;

use crate::skipping::needed;
use crate::{Connection, Paths};
use cluster::Cluster;
use coeval_sql::{Engine, SqlError};
use coeval_store::{Store, StoreOptions};
use coeval_tique::{AdbcEngine, Engine as _};
use sqllogictest::parser::{ExpectedError, QueryExpect, StatementExpect};
use sqllogictest::{DefaultColumnType, Record, Runner};
use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A line of a list: a part of a statement or answer, and whether anything has failed by it.
struct Line {
    part: String,
    is_used: bool,
}

fn lines(folder: &Path, name: &str) -> Vec<Line> {
    let file = folder.join("unsupported").join(format!("{name}.txt"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let line = |line: &str| {
        let (part, reason) =
            line.split_once(" => ").unwrap_or_else(|| panic!("{name}: {line} has no reason"));
        assert!(!reason.trim().is_empty(), "{name}: {line} has no reason");
        Line { part: part.to_owned(), is_used: false }
    };
    lines.map(line).collect()
}

/// What a file is called in the lists.
fn name(path: &Path) -> Cow<'_, str> {
    path.file_stem().expect("a file has a name").to_string_lossy()
}

/// The files that an engine runs.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (own, all) = (lines(folder, "files"), crate::files(folder));
    for line in own.iter().map(|line| &line.part) {
        assert!(all.iter().any(|path| name(path) == **line), "files: there is no file {line}.slt");
    }
    let reaches_an_engine = |path: &PathBuf| own.iter().all(|line| name(path) != line.part);
    all.into_iter().filter(reaches_an_engine).collect()
}

/// A session whose tables go to the server, as those of `coeval serve --engine` do.
fn connect(engine: &Arc<Engine>) -> Result<Connection, SqlError> {
    let mut connection = Connection::open(engine, Paths::Both)?;
    connection.0.configure("coeval.table_server", "wh")?;
    connection.0.configure("default_transaction_isolation", "repeatable read")?;
    Ok(connection)
}

fn database(server: &str) -> Arc<Engine> {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).expect("threads can be started");
    let sql = format!("CREATE SERVER wh ENGINE {server}; GRANT USAGE ON FOREIGN SERVER wh TO PUBLIC");
    let made = engine.session().execute(&sql);
    made.unwrap_or_else(|error| panic!("{server}: {error:?}"));
    engine
}

/// What a future gives that waits for nothing. Executors refuse what has one of its own inside, as engines may.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a statement waits for nothing but its thread"),
    }
}

/// Of an expected error the SQLSTATE alone: servers have words of their own.
fn by_state(expected: &mut ExpectedError) {
    let text = match expected {
        ExpectedError::Inline(text) => text.to_string(),
        ExpectedError::Multiline(text) => text.clone(),
        ExpectedError::Empty | ExpectedError::SqlState(_) => return,
    };
    let is_state = |part: &&str| {
        let of_state = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        part.len() > 5 && part.bytes().take(5).all(of_state) && matches!(part.as_bytes()[5], b')' | b'\\')
    };
    *expected = match text.split('(').find(is_state) {
        Some(part) => ExpectedError::SqlState(part[..5].to_owned()),
        None => ExpectedError::Empty,
    };
}

/// A statement of a file.
fn statement(record: &mut Record<DefaultColumnType>) -> Option<String> {
    let (sql, expected) = match record {
        Record::Statement { sql, expected: StatementExpect::Error(expected), .. }
        | Record::Query { sql, expected: QueryExpect::Error(expected), .. } => (sql, Some(expected)),
        Record::Statement { sql, .. } | Record::Query { sql, .. } => (sql, None),
        _ => return None,
    };
    if let Some(expected) = expected {
        by_state(expected);
    }
    Some(sql.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn words(sql: &str) -> Vec<String> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    sql.split(|character: char| !is_part(character)).map(str::to_lowercase).collect()
}

/// What is known of a file while it runs.
#[derive(Default)]
struct File {
    /// Names of things that were made, and of those that are not as the file says.
    made: HashSet<String>,
    different: HashSet<String>,
    /// What the open block has changed.
    changed: HashSet<String>,
    is_in_block: bool,
    has_failed: bool,
    /// Whether a statement of the block was left out.
    has_gap: bool,
    judged: usize,
    left_out: usize,
}

impl File {
    /// What a statement makes or changes.
    fn touched(&mut self, words: &[String]) -> HashSet<String> {
        const MAKERS: [&str; 4] = ["create", "prepare", "declare", "alter"];
        const READERS: [&str; 8] =
            ["select", "values", "table", "explain", "show", "execute", "fetch", "move"];
        let first = words.iter().find(|word| !word.is_empty()).map_or("", String::as_str);
        if MAKERS.contains(&first) {
            const KINDS: [&str; 24] = [
                "create",
                "prepare",
                "declare",
                "alter",
                "type",
                "role",
                "user",
                "or",
                "replace",
                "temp",
                "temporary",
                "unique",
                "table",
                "view",
                "index",
                "sequence",
                "schema",
                "if",
                "not",
                "exists",
                "on",
                "only",
                "public",
                "column",
            ];
            let name = words.iter().find(|word| !word.is_empty() && !KINDS.contains(&word.as_str()));
            let renamed = words.windows(3).find(|words| words[0] == "rename" && words[1] == "to");
            self.made.extend(name.cloned().into_iter().chain(renamed.map(|words| words[2].clone())));
        }
        let is_change = !READERS.contains(&first);
        words.iter().filter(|word| is_change && self.made.contains(*word)).cloned().collect()
    }

    /// Whether a word names what is not as the file says, or what goes with it: constraints, sequences and indexes are called
    /// after their table.
    fn is_different(&self, word: &str) -> bool {
        const PARTS: [&str; 5] = ["_seq", "_key", "_fkey", "_check", "_idx"];
        let goes_with = |table: &String| {
            word.strip_prefix(table.as_str())
                .is_some_and(|rest| rest.starts_with('_') && PARTS.iter().any(|part| rest.ends_with(part)))
        };
        self.different.contains(word) || self.different.iter().any(goes_with)
    }

    /// Notes what becomes of the block before a statement, or several at once, runs. Whether it ends one that did not do all
    /// that the file says.
    fn block(&mut self, sql: &str) -> bool {
        let was_whole = !self.has_failed && !self.has_gap;
        for part in sql.split(';') {
            let words = words(part.trim());
            match words.first().map(String::as_str) {
                Some("begin" | "start") => self.is_in_block = true,
                Some("rollback") if words.iter().any(|word| word == "to") => {
                    self.has_failed &= words.iter().any(|word| self.is_different(word));
                }
                // A savepoint that a failed block is to set is not there.
                Some("savepoint") if self.has_failed => self.different.extend(words.into_iter().nth(1)),
                Some("commit" | "end" | "rollback") => {
                    (self.is_in_block, self.has_failed, self.has_gap) = (false, false, false);
                    self.changed.clear();
                }
                _ => {}
            }
        }
        !was_whole && !self.is_in_block
    }

    /// A statement that was to work did not: what it touched is not as the file says, nor what the block did before.
    fn note_different(&mut self, touched: HashSet<String>) {
        self.different.extend(touched);
        if self.is_in_block {
            self.has_failed = true;
            self.different.extend(self.changed.drain());
        }
    }
}

/// Runs a file; what is not as it says and not listed.
fn failures(path: &Path, server: &str, listed: &mut [Line]) -> (File, Vec<String>) {
    let engine = database(server);
    let mut runner = Runner::new(|| {
        let connection = connect(&engine);
        async move { connection }
    });
    let (mut file, mut failed) = (File::default(), Vec::new());
    for mut record in sqllogictest::parse_file(path).expect("the files are well-formed") {
        let is_to_fail = matches!(
            record,
            Record::Statement { expected: StatementExpect::Error(_), .. }
                | Record::Query { expected: QueryExpect::Error(_), .. }
        );
        let Some(sql) = statement(&mut record) else {
            drop(at_once(runner.run_async(record)));
            continue;
        };
        let words = words(&sql);
        let ends_partial = file.block(&sql);
        let touched = file.touched(&words);
        if file.has_failed || words.iter().any(|word| file.is_different(word)) {
            file.different.extend(touched);
            file.left_out += 1;
            file.has_gap = file.is_in_block;
            continue;
        }
        if ends_partial {
            // Its COMMIT may find less to refuse.
            drop(at_once(runner.run_async(record)));
            file.left_out += 1;
            continue;
        }
        file.changed.extend(touched.iter().cloned());
        file.judged += 1;
        let Err(error) = at_once(runner.run_async(record)) else { continue };
        let error = error.display(false).to_string();
        // One that was to fail and did, with another SQLSTATE, has changed nothing either.
        if !is_to_fail || error.contains("but actually succeed") {
            file.note_different(touched);
        }
        let mut by = listed.iter_mut().filter(|line| sql.contains(&line.part) || error.contains(&line.part));
        match by.next() {
            Some(line) => line.is_used = true,
            None => failed.push(error),
        }
    }
    (file, failed)
}

/// Runs all files on an engine. `SQL_TEST` narrows the files by a part of their name.
fn check(engine: &str, mut server: impl FnMut() -> String) {
    let folder = Path::new("sql");
    let wanted = std::env::var("SQL_TEST").unwrap_or_default();
    let mut listed = lines(folder, "all");
    let common = listed.len();
    listed.extend(lines(folder, engine));
    let (mut failed, mut judged, mut left_out) = (Vec::new(), 0, 0);
    for path in files(folder).into_iter().filter(|path| name(path).contains(&wanted)) {
        let (file, failures) = failures(&path, &server(), &mut listed);
        judged += file.judged;
        left_out += file.left_out;
        failed.extend(failures);
        if !wanted.is_empty() {
            println!("{}: {} statements, {} left out", name(&path), file.judged, file.left_out);
        }
    }
    println!("{engine}: {judged} statements, {left_out} left out");
    assert!(failed.is_empty(), "{engine}: {}\n\n{} failed", failed.join("\n\n"), failed.len());
    // Lines for all engines are looked at where the test always runs.
    let own = if engine == "datafusion" { &listed[..] } else { &listed[common..] };
    let unused: Vec<_> = own.iter().filter(|line| !line.is_used).map(|line| &line.part).collect();
    assert!(!wanted.is_empty() || unused.is_empty(), "{engine} does by now what is listed: {unused:#?}");
}

#[test]
fn files_pass_on_datafusion_but_for_what_is_listed() {
    check("datafusion", || "datafusion".to_owned());
}

/// On an engine whose library the environment names.
#[track_caller]
fn check_library(engine: &str) {
    let library = std::env::var(format!("COEVAL_TIQUE_{}", engine.to_uppercase())).ok();
    if let Some(library) = needed(engine, library) {
        check(engine, || format!("{engine} OPTIONS (library '{library}')"));
    }
}

#[test]
fn files_pass_on_duckdb_but_for_what_is_listed() {
    check_library("duckdb");
}

#[test]
fn files_pass_on_monetdb_but_for_what_is_listed() {
    check_library("monetdb");
}

#[test]
fn files_pass_on_sqlite_but_for_what_is_listed() {
    check_library("sqlite");
}

/// Each file in a database of its own.
#[test]
fn files_pass_on_postgresql_but_for_what_is_listed() {
    let library = std::env::var("COEVAL_TIQUE_POSTGRESQL").ok();
    let found = library.and_then(|library| Some((library, Cluster::start()?)));
    let Some((library, cluster)) = needed("postgresql", found) else { return };
    let engine = AdbcEngine::postgresql(Path::new(&library), &cluster.address("postgres")).unwrap();
    let mut maker = engine.connect().unwrap();
    let mut count = 0;
    check("postgresql", || {
        count += 1;
        maker.execute(&format!("CREATE DATABASE file_{count}")).unwrap();
        let address = cluster.address(&format!("file_{count}"));
        format!("postgresql OPTIONS (library '{library}', address '{address}')")
    });
}
