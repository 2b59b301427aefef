// SPDX-License-Identifier: Apache-2.0
//! Feeds of changes, from servers and archives: killed, gone on from their tokens, and applied to a model.

use super::{PATIENCE, PROGRAM, Server, Sql, bounded, directories, replica_of};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A feed that runs.
struct Feed {
    process: Child,
    lines: BufReader<ChildStdout>,
    /// Whoever waits for a line that does not come finds the end.
    alarm: Option<bounded::Alarm>,
}

impl Feed {
    fn start(source: &str, options: &[&str]) -> Self {
        let mut process =
            command(source, options).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        let alarm = Some(bounded::Alarm::set(&process, bounded::END_PATIENCE));
        Self { process, lines, alarm }
    }

    /// The next line; none if it has ended, or died within it.
    fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.ends_with('\n').then(|| serde_json::from_str(&line).unwrap())
    }

    /// The lines up to the next token.
    fn transaction(&mut self) -> Option<Vec<Value>> {
        let mut lines = Vec::new();
        loop {
            let line = self.line()?;
            let is_last = line.get("token").is_some();
            lines.push(line);
            if is_last {
                return Some(lines);
            }
        }
    }
}

impl Feed {
    fn kill(&mut self) {
        self.alarm = None;
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(super) fn command(source: &str, options: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["feed", source, "--poll", "0.1"]).args(options).stdin(Stdio::null());
    command
}

pub(super) fn feed(source: &str, options: &[&str]) -> Output {
    bounded::output(&mut command(source, options))
}

fn refusal(source: &str, options: &[&str]) -> String {
    let output = feed(source, options);
    assert!(!output.status.success(), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn lines_of(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{output:?}");
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Rows of tables with keys, by table and key; of others, how often there is each.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    keyed: BTreeMap<(String, String), Value>,
    counted: BTreeMap<(String, String), i64>,
    token: String,
}

impl Model {
    fn apply(&mut self, lines: &[Value]) {
        lines.iter().for_each(|line| self.change(line));
        self.token = lines.last().unwrap()["token"].as_str().unwrap().to_owned();
    }

    fn change(&mut self, line: &Value) {
        let Some(table) = line.get("table") else { return };
        let table = table.as_str().unwrap().to_owned();
        let [key, before, after] = ["key", "before", "after"].map(|field| &line[field]);
        let operation = line["operation"].as_str().unwrap();
        match (operation, key) {
            ("truncate" | "drop", _) => {
                self.keyed.retain(|(of, _), _| *of != table);
                self.counted.retain(|(of, _), _| *of != table);
            }
            ("definition", _) => self.define(&table, &after["columns"]),
            (_, Value::Null) => {
                for (row, by) in [(before, -1), (after, 1)] {
                    if !row.is_null() {
                        let count = self.counted.entry((table.clone(), row.to_string())).or_default();
                        *count += by;
                        assert!(*count >= 0, "{line}");
                    }
                }
                self.counted.retain(|_, count| *count > 0);
            }
            ("delete", key) => {
                let old = self.keyed.remove(&(table, key.to_string()));
                assert_eq!(old.as_ref(), Some(before), "{line}");
            }
            (_, key) => {
                let old = self.keyed.insert((table, key.to_string()), after.clone());
                assert_eq!(old.unwrap_or(Value::Null), *before, "{line}");
            }
        }
    }

    /// Rows that are there have in a new column what is said to be missing in them.
    fn define(&mut self, table: &str, columns: &Value) {
        for (_, row) in self.keyed.iter_mut().filter(|((of, _), _)| of == table) {
            for column in columns.as_array().unwrap() {
                let row = row.as_object_mut().unwrap();
                let missing = column.get("missing").cloned().unwrap_or_default();
                row.entry(column["name"].as_str().unwrap()).or_insert(missing);
            }
        }
    }

    fn sum(&self) -> i64 {
        let accounts = self.keyed.iter().filter(|((table, _), _)| table == "public.accounts");
        accounts.map(|(_, row)| row["amount"].as_i64().unwrap()).sum()
    }

    /// Compares with what the server has.
    fn check(&self, sql: &Sql) {
        let found = sql
            .value("SELECT count(*) || ' ' || coalesce(sum(id * amount), 0) || ' ' || coalesce(max(word), '') FROM accounts")
            .unwrap();
        let rows = self.keyed.iter().filter(|((table, _), _)| table == "public.accounts");
        let (mut count, mut sum, mut word) = (0, 0, String::new());
        for (_, row) in rows {
            count += 1;
            sum += row["id"].as_i64().unwrap() * row["amount"].as_i64().unwrap();
            word = word.max(row["word"].as_str().unwrap_or_default().to_owned());
        }
        assert_eq!(found, Some(format!("{count} {sum} {word}")));
        let events = self.counted.iter().filter(|((table, _), _)| table == "public.events");
        let events: Vec<(i64, i64)> = events
            .map(|((_, row), count)| {
                (*count, serde_json::from_str::<Value>(row).unwrap()["amount"].as_i64().unwrap())
            })
            .collect();
        let count: i64 = events.iter().map(|(count, _)| count).sum();
        let sum: i64 = events.iter().map(|(count, amount)| count * amount).sum();
        let found = sql.value("SELECT count(*) || ' ' || coalesce(sum(amount), 0) FROM events").unwrap();
        assert_eq!(found, Some(format!("{count} {sum}")));
    }
}

const ACCOUNTS: i64 = 200;

fn fill(sql: &Sql) {
    sql.run(
        "CREATE TABLE accounts (id bigint PRIMARY KEY, amount bigint NOT NULL, word text);
         CREATE INDEX accounts_amount ON accounts (amount);
         CREATE TABLE events (day int, amount bigint, kind text) USING brick PARTITION BY (day CARDINALITY 64 RANGE SIZE 8);",
    )
    .unwrap();
    sql.run(&format!(
        "INSERT INTO accounts SELECT g, 100, 'word ' || g FROM generate_series(1, {ACCOUNTS}) g;
         INSERT INTO events SELECT g % 64, g, 'kind ' || g % 5 FROM generate_series(1, 500) g"
    ))
    .unwrap();
}

/// Moves amounts between accounts until it is told to end; loads, deletes of bricks and definitions now and then.
fn work(port: u16, ends: &AtomicBool) {
    let sql = Sql::open(port);
    let mut number = 1;
    while !ends.load(Ordering::Relaxed) {
        let (from, to) = (number * 7 % ACCOUNTS + 1, number * 13 % ACCOUNTS + 1);
        sql.run(&format!(
            "BEGIN; UPDATE accounts SET amount = amount - 1 WHERE id = {from};
             UPDATE accounts SET amount = amount + 1, word = 'moved {number}' WHERE id = {to}; COMMIT"
        ))
        .unwrap();
        match number % 40 {
            0 => sql
                .run(&format!(
                    "INSERT INTO events SELECT g % 64, g + {number}, 'late' FROM generate_series(1, 50) g"
                ))
                .unwrap(),
            10 => sql.run("DELETE FROM events WHERE day < 8").unwrap(),
            20 => sql
                .run(
                    "INSERT INTO accounts SELECT g, 0, NULL FROM generate_series(10000, 15000) g; CHECKPOINT",
                )
                .unwrap(),
            30 => sql.run("DELETE FROM accounts WHERE id >= 10000").unwrap(),
            _ => {}
        }
        number += 1;
    }
}

#[test]
fn a_feed_that_is_killed_goes_on_from_its_token_with_nothing_lost_or_twice() {
    let (parent, primary_dir, _) = directories();
    let state = parent.path().join("state");
    let state = state.to_str().unwrap();
    let primary = Server::start(&primary_dir, 0, &[]);
    let source = replica_of(&primary);
    let sql = Sql::open(primary.port);
    let mut model = Model::default();
    let mut running = Feed::start(&source, &["--state", state]);
    let first = running.transaction().unwrap();
    assert!(first.len() == 1 && first[0].get("table").is_none(), "a token alone: {first:?}");
    model.apply(&first);
    fill(&sql);
    let (ends, mut kills) = (AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| work(primary.port, &ends));
        let begun = Instant::now();
        let mut given = 0;
        while kills < 6 {
            assert!(begun.elapsed() < PATIENCE * 3, "{kills} kills, {given} transactions");
            let transaction = running.transaction().unwrap_or_else(|| panic!("it has ended by itself"));
            model.apply(&transaction);
            given += 1;
            if model.keyed.len() as i64 >= ACCOUNTS {
                assert_eq!(model.sum(), ACCOUNTS * 100, "half a transaction at {}", model.token);
            }
            if given % 50 == 49 {
                // Some that it has given are lost with who takes them: what counts is the last token.
                let kept = model.clone();
                for _ in 0..kills {
                    model.apply(&running.transaction().unwrap());
                }
                model = kept;
                running.kill();
                kills += 1;
                running = Feed::start(&source, &["--state", state, "--from", &model.token]);
            }
        }
        ends.store(true, Ordering::Relaxed);
        worker.join().unwrap();
    });
    drop(running);
    // The rest, and no more than that.
    let rest = feed(&source, &["--state", state, "--from", &model.token, "--to", "now"]);
    let rest = lines_of(&rest);
    model.apply(&rest);
    model.check(&sql);
    let nothing = feed(&source, &["--state", state, "--from", &model.token, "--to", "now"]);
    assert_eq!(lines_of(&nothing), Vec::<Value>::new(), "there was nothing more");
    let begin = first[0]["token"].as_str().unwrap();
    what_is_wrong_is_said(&source, &sql, state, begin);
}

fn what_is_wrong_is_said(source: &str, sql: &Sql, state: &str, old: &str) {
    for (options, what) in [
        (&["--from", "yesterday"][..], "is no token of a feed"),
        (&["--to", "1-2-3"], "is no token of a feed"),
        (&["--from", old], "is older than what this feed can reach"),
        (&["--from", old], "name the server's archive too (archive=PLACE), or keep a state (--state DIR)"),
        (&["--format", "xml"], "invalid value 'xml'"),
        (&["--state", "/proc"], "is not the state of a feed and not empty"),
    ] {
        let message = refusal(source, options);
        assert!(message.contains(what), "{options:?}: {message}");
    }
    let nowhere = format!("{state}-of-nothing");
    assert!(refusal(&format!("archive={nowhere}"), &["--to", "now"]).contains("there is no archive"));
    assert!(!Path::new(&nowhere).exists(), "who only reads made a directory");
    assert!(refusal("host=127.0.0.1,port=1,user=coeval", &["--to", "now"]).contains("the connection to"));
    sql.run("CHECKPOINT").unwrap();
    assert_eq!(sql.refused(&format!("SELECT * FROM coeval_changes('{old}')")), "55000");
    sql.run("CREATE ROLE plain LOGIN").unwrap();
    let plain = source.replace("user=coeval", "user=plain");
    let message = refusal(&plain, &["--to", "now"]);
    assert!(message.contains("42501") || message.contains("REPLICATION"), "{message}");
    // A token of a snapshot is one of a feed; another database's is not.
    let token = sql.value("SELECT coeval_snapshot_token()").unwrap().unwrap();
    sql.run("INSERT INTO accounts VALUES (-1, 0, 'behind the token')").unwrap();
    let (number, rest) = token.split_once('-').unwrap();
    let (_, rest) = rest.split_once('-').unwrap();
    let foreign = format!("{number}-0123456789abcdef-{rest}");
    let message = refusal(source, &["--from", &foreign, "--state", state, "--to", "now"]);
    assert!(message.contains("is of a history that was left"), "{message}");
    let lines = lines_of(&feed(source, &["--from", &token, "--state", state, "--to", "now"]));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(
        (lines[0]["operation"].as_str(), lines[0]["key"].to_string(), lines[0]["after"].to_string()),
        (
            Some("insert"),
            r#"{"id":-1}"#.to_owned(),
            r#"{"id":-1,"amount":0,"word":"behind the token"}"#.to_owned()
        )
    );
    assert!(lines[0]["committed_at"].as_str().unwrap().ends_with('Z'), "{lines:?}");
}

/// The version of the last commit before a token's place.
fn version_of(line: &Value) -> &str {
    line["token"].as_str().unwrap().rsplit_once('-').unwrap().1
}

#[test]
fn an_archive_is_fed_from_its_start_from_a_token_and_to_a_token() {
    let (parent, primary_dir, _) = directories();
    let archive = parent.path().join("archive");
    let archive = archive.to_str().unwrap();
    let primary = Server::start(&primary_dir, 0, &["--archive", archive, "--archive-timeout", "0.2"]);
    let sql = Sql::open(primary.port);
    // The oldest backup is that of the empty database.
    primary.until_said("a backup was made");
    fill(&sql);
    // Each a transaction of its own.
    for statement in [
        "ALTER TABLE accounts ADD COLUMN note text DEFAULT 'none'",
        "UPDATE accounts SET amount = 7 WHERE id = 7",
        "CREATE TABLE log (text text, at timestamptz, mood numeric(6, 2), tags int[], more jsonb)",
        "INSERT INTO log VALUES ('a \"b\"', '2026-11-26 10:00:00.5+01', 1.25, '{1,NULL,3}', '\"deep\"')",
        "DELETE FROM log",
        "TRUNCATE events",
        "DROP TABLE log",
        "CREATE TEMPORARY TABLE hidden (id int)",
        "INSERT INTO hidden VALUES (1)",
    ] {
        sql.run(statement).unwrap();
    }
    let from = format!("archive={archive}");
    let both = format!("{},archive={archive}", replica_of(&primary));
    let by_server = lines_of(&feed(&both, &["--from", "start", "--to", "now"]));
    let mut model = Model::default();
    model.apply(&by_server);
    model.check(&sql);
    the_function_gives_the_same(&sql, primary.port, &by_server);
    drop(sql);
    primary.stop();
    let lines = lines_of(&feed(&from, &["--from", "start", "--to", "now"]));
    let tokens: Vec<&str> = lines.iter().filter_map(|line| line.get("token")?.as_str()).collect();
    // A token alone is written when some time has passed, so here and there on a busy machine.
    let of_transactions = |lines: &[Value]| -> Vec<String> {
        let has_more = |line: &&Value| line.as_object().is_some_and(|line| line.len() > 1);
        lines.iter().filter(has_more).filter_map(|line| Some(line.get("token")?.to_string())).collect()
    };
    assert_eq!(of_transactions(&lines), of_transactions(&by_server), "the same tokens from everywhere");
    the_lines_are_what_was_done(&lines);

    // Between each two tokens there are the lines between them.
    for (first, last) in [(0, tokens.len() - 1), (2, 4), (3, 4)] {
        let range = ["--from", tokens[first], "--to", tokens[last]];
        let place = |token: &str| {
            lines.iter().position(|line| line.get("token").and_then(Value::as_str) == Some(token))
        };
        let wanted = &lines[place(tokens[first]).unwrap() + 1..=place(tokens[last]).unwrap()];
        let found = lines_of(&feed(&from, &range));
        let ((found_end, found), (end, wanted)) = (found.split_last().unwrap(), wanted.split_last().unwrap());
        assert_eq!(found, wanted, "{range:?}");
        // Behind the same commit; between the two may be records in which nothing was committed.
        assert_eq!(version_of(found_end), version_of(end), "{range:?}");
    }
    let only = lines_of(&feed(&from, &["--from", "start", "--to", "now", "--table", "log"]));
    let of_log = lines.iter().filter(|line| line["table"] == "public.log").count();
    assert_eq!(only.iter().filter(|line| line.get("table").is_some()).count(), of_log);
    assert!(only.iter().all(|line| line.get("table").is_none_or(|table| table == "public.log")));
    as_json_in_arrow_it_is_the_same(&from, &lines);
    super::feed_arrow::in_columns_it_is_the_same(&from, &lines);
}

fn the_lines_are_what_was_done(lines: &[Value]) {
    let of = |table: &str, operation: &str| -> Vec<&Value> {
        lines.iter().filter(|line| line["table"] == table && line["operation"] == operation).collect()
    };
    let updated = of("public.accounts", "update");
    assert_eq!(updated.len(), 1);
    assert_eq!(
        (updated[0]["before"].to_string(), updated[0]["after"].to_string()),
        (
            r#"{"id":7,"amount":100,"word":"word 7","note":"none"}"#.to_owned(),
            r#"{"id":7,"amount":7,"word":"word 7","note":"none"}"#.to_owned()
        )
    );
    let (inserted, deleted) = (of("public.log", "insert"), of("public.log", "delete"));
    let row = r#"{"text":"a \"b\"","at":"2026-11-26T09:00:00.5+00:00","mood":1.25,"tags":[1,null,3],"more":"deep"}"#;
    let row: Value = serde_json::from_str(row).unwrap();
    assert_eq!((&inserted[0]["after"], &deleted[0]["before"]), (&row, &row));
    assert!(inserted[0]["key"].is_null(), "no primary key is declared");
    assert_eq!(of("public.events", "insert").len(), 500);
    assert_eq!(of("public.events", "truncate").len(), 1);
    assert_eq!(of("public.log", "drop").len(), 1);
    let defined = of("public.accounts", "definition");
    assert_eq!(defined.len(), 2, "an index is no other definition");
    let note = r#"{"name":"note","type":"text","not_null":false,"missing":"none"}"#;
    assert_eq!(defined[1]["after"]["columns"][3].to_string(), note);
    assert!(lines.iter().all(|line| !line.to_string().contains("hidden")), "temporary tables are not fed");
}

/// `coeval_changes()`, of the log and, once a checkpoint has taken that, of the archive.
fn the_function_gives_the_same(sql: &Sql, port: u16, lines: &[Value]) {
    let place =
        |token: &str| lines.iter().position(|line| line.get("token").and_then(Value::as_str) == Some(token));
    let tokens: Vec<&str> = lines.iter().filter_map(|line| line.get("token")?.as_str()).collect();
    let text = "SELECT version::text, position::text, table_schema || '.' || table_name, operation, key::text, \
                before::text, after::text, token, CASE WHEN committed_at IS NOT NULL THEN 't' END FROM";
    let rows = |query: String| -> Vec<String> {
        let messages = sql.runtime.block_on(sql.client.simple_query(&query)).unwrap();
        let text = |message: &tokio_postgres::SimpleQueryMessage| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).filter_map(|place| row.get(place)).collect::<Vec<_>>().join(" "))
            }
            _ => None,
        };
        messages.iter().filter_map(text).collect()
    };
    let wanted = |first: usize, last: usize| {
        let lines = &lines[place(tokens[first]).unwrap() + 1..=place(tokens[last]).unwrap()];
        let line = |line: &Value| {
            let fields = ["version", "position", "table", "operation", "key", "before", "after", "token"];
            let field = |name: &&str| match line.get(*name) {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) => Some(text.clone()),
                Some(other) => Some(other.to_string()),
            };
            let fields: Vec<String> = fields.iter().filter_map(field).collect();
            fields.join(" ") + " t"
        };
        let lines = lines.iter().filter(|line| line.get("table").is_some()).map(line);
        lines.collect::<Vec<String>>()
    };
    for round in ["the log", "the archive"] {
        for (first, last) in [(0, tokens.len() - 2), (2, 4)] {
            let (from, to) = (tokens[first], tokens[last]);
            let found = rows(format!("{text} coeval_changes('{from}', '{to}')"));
            assert_eq!(found, wanted(first, last), "{round}");
        }
        let all = sql.value(&format!(
            "SELECT count(*) FROM coeval_changes('{}') c WHERE c.key IS NOT NULL",
            tokens[0]
        ));
        let rest = &lines[place(tokens[0]).unwrap() + 1..];
        let keyed = rest.iter().filter(|line| line.get("key").is_some_and(|key| !key.is_null())).count();
        assert_eq!(all.unwrap(), Some(keyed.to_string()), "{round}");
        // Of one table they are its own columns.
        let of_accounts = format!(
            "SELECT operation, old_id::text, old_amount - new_amount, new_note FROM coeval_table_changes('accounts', '{}')
             WHERE old_amount <> new_amount",
            tokens[0]
        );
        assert_eq!(rows(of_accounts), ["update 7 93 none"], "{round}");
        let of_log =
            format!("SELECT old_text, old_mood, old_tags FROM coeval_table_changes('log', '{}')", tokens[0]);
        assert_eq!(sql.refused(&of_log), "42P01", "{round}: it is not there any more");
        sql.run("CHECKPOINT").unwrap();
    }
    // Documents become columns of their table, as any others.
    let typed = format!(
        "SELECT a.word || ' ' || (a.amount + 1) FROM coeval_changes('{}') c, json_populate_record(NULL::accounts, c.after) a
         WHERE c.table_name = 'accounts' AND c.operation = 'update'",
        tokens[0]
    );
    assert_eq!(sql.value(&typed).unwrap().as_deref(), Some("word 7 8"));
    sql.run("CREATE ROLE nosy LOGIN; CREATE ROLE copier LOGIN REPLICATION").unwrap();
    let query = format!("SELECT count(*) FROM coeval_changes('{}')", tokens[2]);
    assert_eq!(Sql::open_as(port, "nosy", None).unwrap().refused(&query), "42501");
    Sql::open_as(port, "copier", None).unwrap().run(&query).unwrap();
    assert_eq!(sql.refused("SELECT * FROM coeval_changes('yesterday')"), "22023");
    let foreign = tokens[2].replacen(tokens[2].split('-').nth(1).unwrap(), "0123456789abcdef", 1);
    assert_eq!(sql.refused(&format!("SELECT * FROM coeval_changes('{foreign}')")), "55000");
}

fn as_json_in_arrow_it_is_the_same(from: &str, lines: &[Value]) {
    use arrow::array::AsArray;
    let output = feed(from, &["--from", "start", "--to", "now", "--format", "arrow-json"]);
    assert!(output.status.success(), "{output:?}");
    let reader = arrow::ipc::reader::StreamReader::try_new(output.stdout.as_slice(), None).unwrap();
    let mut found = Vec::new();
    for batch in reader {
        let batch = batch.unwrap();
        let text = |name: &str, row: usize| {
            let column = batch.column_by_name(name).unwrap().as_string::<i32>();
            arrow::array::Array::is_valid(column, row).then(|| column.value(row).to_owned())
        };
        for row in 0..batch.num_rows() {
            found.push(["token", "operation", "key", "before", "after"].map(|name| text(name, row)));
        }
    }
    let json = |value: Option<&Value>| value.filter(|value| !value.is_null()).map(Value::to_string);
    assert_eq!(found.len(), lines.len());
    for (row, line) in found.iter().zip(lines) {
        assert_eq!(row[0].as_deref(), line.get("token").and_then(Value::as_str));
        assert_eq!(row[1].as_deref(), line.get("operation").and_then(Value::as_str));
        let parsed = |text: &Option<String>| {
            text.as_ref().map(|text| serde_json::from_str::<Value>(text).unwrap().to_string())
        };
        let (found, wanted) = ([2, 3, 4].map(|place| parsed(&row[place])), ["key", "before", "after"]);
        assert_eq!(found, wanted.map(|name| json(line.get(name))), "{line}");
    }
}

#[test]
fn what_replicas_do_not_have_yet_is_not_fed_and_a_feed_is_no_replica() {
    let (_parent, primary_dir, _) = directories();
    let primary = Server::start(&primary_dir, 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE items (id int PRIMARY KEY)").unwrap();
    let mut running = Feed::start(&replica_of(&primary), &[]);
    assert!(running.transaction().unwrap()[0].get("table").is_none());
    sql.run("INSERT INTO items VALUES (1)").unwrap();
    assert_eq!(running.transaction().unwrap()[0]["after"]["id"], 1);
    sql.run("SET synchronous_standby_names = 'ANY 1 (*)'; SET statement_timeout = '1s'").unwrap();
    assert_eq!(sql.refused("INSERT INTO items VALUES (2)"), "08007", "a feed is nobody to fail over to");
    // It is committed, and waits.
    let now = lines_of(&feed(&replica_of(&primary), &["--to", "now"]));
    assert!(now.iter().all(|line| line.get("table").is_none()), "{now:?}");
    let other = Sql::open(primary.port);
    other.run("SET synchronous_standby_names = ''").unwrap();
    assert_eq!(running.transaction().unwrap()[0]["after"]["id"], 2);
}

/// Fails if what is held for who follows without a slot has no bound: log stayed for a feed that nobody read until the disk was full.
#[test]
fn a_feed_that_nobody_reads_is_not_kept_log_for_without_an_end() {
    let (_parent, primary_dir, _) = directories();
    let primary = Server::start(&primary_dir, 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE t (id int PRIMARY KEY, filling text)").unwrap();
    sql.run("SET max_slot_wal_keep_size = '1MB'; SET wal_sender_timeout = '3s'").unwrap();
    // Its lines fill the pipe, and then all buffers on the way.
    let _feed = Feed::start(&replica_of(&primary), &["--from", "start"]);
    let followers = || sql.value("SELECT count(*) FROM pg_stat_replication").unwrap().unwrap();
    let begun = Instant::now();
    while followers() == "0" {
        assert!(begun.elapsed() < PATIENCE, "the feed does not follow");
        std::thread::sleep(Duration::from_millis(20));
    }
    for first in (0..).step_by(100) {
        let rows = format!("generate_series({first}, {first} + 99) AS g");
        sql.run(&format!("INSERT INTO t SELECT g, repeat(md5(g::text), 100) FROM {rows}")).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        if primary.said.lock().unwrap().contains("more log is held for a follower than for a slot") {
            break;
        }
        assert!(begun.elapsed() < 2 * PATIENCE, "it is held for still: {}", primary.said.lock().unwrap());
    }
    while followers() != "0" {
        assert!(begun.elapsed() < 3 * PATIENCE, "it is not given up");
        std::thread::sleep(Duration::from_millis(20));
    }
}
