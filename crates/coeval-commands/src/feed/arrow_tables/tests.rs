// SPDX-License-Identifier: Apache-2.0
//! Tests of a feed as Arrow streams: a database's own log is fed, and what comes out is read as any reader of Arrow reads it.

use super::ArrowTables;
use crate::feed::output::Output;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::util::display::array_value_to_string;
use coeval::{ChangeSink, ChangeToken, Database};
use tempfile::TempDir;

/// A database in which something has been done before the feed begins.
struct Fed {
    database: Database,
    begun: ChangeToken,
    _dir: TempDir,
}

impl Fed {
    fn after(statements: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path().join("data")).unwrap();
        run(&database, statements);
        let batches = database.session().query("SELECT coeval_snapshot_token()").unwrap();
        let text = cast(batches[0].column(0), &DataType::Utf8).unwrap();
        let begun = text.as_string::<i32>().value(0).parse().unwrap();
        Self { database, begun, _dir: dir }
    }

    /// What the feed writes of all that is behind a token.
    fn behind(&self, token: ChangeToken, tables: &[&str]) -> Vec<Read> {
        let mut bytes = Vec::new();
        let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
        let mut output = Output::new(Box::new(ArrowTables::new(&mut bytes)), &tables, Some(token));
        self.feed(token, &mut output);
        output.finish().unwrap();
        read(&bytes)
    }

    fn feed(&self, token: ChangeToken, output: &mut Output<'_>) {
        let newest = self.database.world().version();
        self.database.store().changes(token, None, newest, output).unwrap();
    }
}

fn run(database: &Database, statements: &[&str]) {
    let mut session = database.session();
    for statement in statements {
        session.execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// A stream of Arrow.
struct Read {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

/// All streams, which stand one behind the other with nothing in between.
fn read(mut bytes: &[u8]) -> Vec<Read> {
    let mut streams = Vec::new();
    while !bytes.is_empty() {
        let reader = StreamReader::try_new(&mut bytes, None).unwrap();
        let schema = reader.schema();
        streams.push(Read { schema, batches: reader.map(Result::unwrap).collect() });
    }
    streams
}

impl Read {
    fn mark(&self, key: &str) -> Option<&str> {
        self.schema.metadata().get(&format!("coeval.{key}")).map(String::as_str)
    }

    fn fields(&self, column: &str) -> Vec<&str> {
        let DataType::Struct(fields) = self.schema.field_with_name(column).unwrap().data_type() else {
            panic!("{column} is no struct");
        };
        fields.iter().map(|field| field.name().as_str()).collect()
    }

    /// The rows as texts; those with a token end with an exclamation mark.
    fn rows(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for batch in &self.batches {
            for row in 0..batch.num_rows() {
                let shown = ["operation", "key", "before", "after"].map(|name| {
                    let column = batch.column_by_name(name)?;
                    column.is_valid(row).then(|| array_value_to_string(column, row).unwrap())
                });
                let token = batch.column_by_name("token").unwrap().is_valid(row).then(|| "!".to_owned());
                rows.push(shown.into_iter().chain([token]).flatten().collect::<Vec<_>>().join(" "));
            }
        }
        rows
    }

    fn tokens(&self) -> Vec<ChangeToken> {
        let of_batch = |batch: &RecordBatch| -> Vec<ChangeToken> {
            let tokens = batch.column_by_name("token").unwrap().as_string::<i32>();
            tokens.iter().flatten().map(|token| token.parse().unwrap()).collect()
        };
        self.batches.iter().flat_map(of_batch).collect()
    }
}

/// The rows of all streams, with their tables.
fn all_rows(streams: &[Read]) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for stream in streams {
        let table = stream.mark("table").unwrap_or_default();
        rows.extend(stream.rows().into_iter().map(|row| (table.to_owned(), row)));
    }
    rows
}

#[test]
fn a_definition_begins_a_stream_whose_schema_has_the_columns() {
    let fed = Fed::after(&[
        "CREATE TABLE accounts (id int PRIMARY KEY, amount int)",
        "INSERT INTO accounts VALUES (7, 100)",
    ]);
    run(
        &fed.database,
        &[
            "BEGIN",
            "UPDATE accounts SET amount = 93 WHERE id = 7",
            "INSERT INTO accounts VALUES (8, 7)",
            "COMMIT",
            "ALTER TABLE accounts ADD COLUMN note text DEFAULT 'none'",
            "DELETE FROM accounts WHERE id = 7",
            "ALTER TABLE accounts DROP COLUMN amount",
            "UPDATE accounts SET note = NULL",
            "TRUNCATE accounts",
            "DROP TABLE accounts",
        ],
    );
    let streams = fed.behind(fed.begun, &[]);
    let rows: Vec<Vec<String>> = streams.iter().map(Read::rows).collect();
    assert_eq!(
        rows,
        [
            &[
                "update {id: 7} {id: 7, amount: 100} {id: 7, amount: 93}",
                "insert {id: 8} {id: 8, amount: 7} !",
            ][..],
            &["definition !", "delete {id: 7} {id: 7, amount: 93, note: none} !"],
            &["definition !", "update {id: 8} {id: 8, note: none} {id: 8, note: } !", "truncate !", "drop !"],
        ]
    );
    let columns: [&[&str]; 3] = [&["id", "amount"], &["id", "amount", "note"], &["id", "note"]];
    for (stream, columns) in streams.iter().zip(columns) {
        assert_eq!((stream.fields("before"), stream.fields("after")), (columns.to_vec(), columns.to_vec()));
        assert_eq!(stream.fields("key"), ["id"]);
        assert_eq!(stream.mark("table"), Some("public.accounts"));
        assert_eq!(defined(stream.mark("definition").unwrap()), columns);
    }
    let before: Vec<Option<Vec<String>>> =
        streams.iter().map(|stream| stream.mark("definition_before").map(defined)).collect();
    let texts = |columns: &[&str]| Some(columns.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(before, [None, texts(columns[0]), texts(columns[1])], "what it was, where it has changed");
}

/// The names of a definition's columns.
fn defined(definition: &str) -> Vec<String> {
    let definition: serde_json::Value = serde_json::from_str(definition).unwrap();
    let columns = definition["columns"].as_array().unwrap();
    columns.iter().map(|column| column["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_table_has_streams_of_its_own_and_the_last_row_of_a_transaction_its_token() {
    let fed = Fed::after(&[
        "CREATE TABLE one (id int PRIMARY KEY)",
        "CREATE TABLE other (text text)",
        "CREATE TABLE events (day int, amount bigint) USING brick PARTITION BY (day CARDINALITY 64 RANGE SIZE 8)",
    ]);
    run(
        &fed.database,
        &[
            "BEGIN",
            "INSERT INTO one VALUES (1)",
            "INSERT INTO other VALUES ('a')",
            "INSERT INTO events VALUES (1, 5)",
            "COMMIT",
            "INSERT INTO one VALUES (2)",
            "INSERT INTO one VALUES (3)",
            "DELETE FROM events WHERE day < 8",
        ],
    );
    let wanted = [
        ("public.one", "insert {id: 1} {id: 1}"),
        ("public.other", "insert {text: a}"),
        ("public.events", "insert {day: 1, amount: 5} !"),
        ("public.one", "insert {id: 2} {id: 2} !"),
        ("public.one", "insert {id: 3} {id: 3} !"),
        ("public.events", "delete {day: 1, amount: 5} !"),
    ];
    let wanted = wanted.map(|(table, row)| (table.to_owned(), row.to_owned()));
    let streams = fed.behind(fed.begun, &[]);
    assert_eq!(streams.len(), 5, "two rows of one table behind each other are of one stream");
    assert_eq!(all_rows(&streams), wanted);
    assert!(streams[1].schema.field_with_name("key").is_err(), "no key is declared");
    let only = fed.behind(fed.begun, &["one"]);
    assert_eq!(only.len(), 1, "one table is one stream");
    // The last transaction changes another table: its token alone is behind them.
    let only_rows = ["insert {id: 1} {id: 1} !", wanted[3].1.as_str(), wanted[4].1.as_str(), "!"];
    assert_eq!(only[0].rows(), only_rows);
    // From each token on comes what was behind it.
    let tokens: Vec<ChangeToken> = streams.iter().flat_map(Read::tokens).collect();
    assert_eq!(tokens.len(), 4);
    for (token, rest) in tokens.into_iter().zip([3, 4, 5, 6]) {
        assert_eq!(all_rows(&fed.behind(token, &[])), wanted[rest..]);
    }
}

#[test]
fn where_nothing_is_fed_there_is_a_stream_and_tokens_alone_have_no_table() {
    let fed = Fed::after(&["CREATE TABLE one (id int PRIMARY KEY)"]);
    let nothing = fed.behind(fed.begun, &[]);
    assert_eq!((nothing.len(), nothing[0].rows().len(), nothing[0].mark("table")), (1, 0, None));
    let names: Vec<&str> = nothing[0].schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["token", "version", "position", "committed_at", "operation"]);

    run(&fed.database, &["INSERT INTO one VALUES (1)", "CREATE TABLE other (id int)"]);
    let mut bytes = Vec::new();
    let mut output = Output::new(Box::new(ArrowTables::new(&mut bytes)), &["one".to_owned()], None);
    output.idle(&fed.begun).unwrap();
    fed.feed(fed.begun, &mut output);
    output.finish().unwrap();
    let streams = read(&bytes);
    assert_eq!(streams.len(), 2);
    assert_eq!((streams[0].mark("table"), streams[0].tokens()), (None, vec![fed.begun]));
    // Behind the last transaction with a row was another one.
    assert_eq!(streams[1].rows(), ["insert {id: 1} {id: 1} !", "!"]);
}

#[test]
fn batches_end_by_their_rows_and_by_their_bytes() {
    let fed = Fed::after(&[
        "CREATE TABLE many (id int PRIMARY KEY)",
        "CREATE TABLE large (id int PRIMARY KEY, text text)",
    ]);
    run(
        &fed.database,
        &[
            "INSERT INTO many SELECT g FROM generate_series(1, 10000) g",
            "INSERT INTO large SELECT g, repeat('x', 200000) FROM generate_series(1, 40) g",
        ],
    );
    let streams = fed.behind(fed.begun, &[]);
    for (stream, rows, rows_max) in [(&streams[0], 10_000, 4_096), (&streams[1], 40, 21)] {
        let found: Vec<usize> = stream.batches.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(found.iter().sum::<usize>(), rows);
        assert!(found.len() > 1 && found.iter().all(|rows| *rows <= rows_max), "{found:?}");
        assert_eq!(stream.tokens().len(), 1, "a transaction has one token, however many batches");
        assert!(stream.rows().last().unwrap().ends_with('!'));
    }
}

#[test]
fn enums_have_the_labels_that_they_have_in_the_stream() {
    let fed = Fed::after(&[
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE TABLE people (id int PRIMARY KEY, mood mood, moods mood[])",
    ]);
    run(
        &fed.database,
        &[
            "INSERT INTO people VALUES (1, 'happy', '{sad,NULL}')",
            "ALTER TYPE mood ADD VALUE 'fine' AFTER 'sad'",
            "INSERT INTO people VALUES (2, 'fine', '{happy,fine}')",
            "INSERT INTO people VALUES (3, NULL, NULL)",
        ],
    );
    let streams = fed.behind(fed.begun, &[]);
    let rows: Vec<String> = streams.iter().flat_map(Read::rows).collect();
    let inserted: Vec<&String> = rows.iter().filter(|row| row.starts_with("insert")).collect();
    assert_eq!(
        inserted,
        [
            "insert {id: 1} {id: 1, mood: happy, moods: [sad, ]} !",
            "insert {id: 2} {id: 2, mood: fine, moods: [happy, fine]} !",
            "insert {id: 3} {id: 3, mood: , moods: } !",
        ]
    );
}
