// SPDX-License-Identifier: Apache-2.0
//! `coeval sql` as a process: what it prints where, and the code it ends with.
// Helper functions of a test are a test too.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/bounded.rs"]
mod bounded;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn coeval(arguments: &[&str]) -> Output {
    bounded::output(Command::new(env!("CARGO_BIN_EXE_coeval")).args(arguments))
}

fn coeval_with_input(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_coeval"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    bounded::end_of(child, &format!("coeval {arguments:?}"), bounded::END_PATIENCE)
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn assert_ends_well(output: &Output) {
    assert!(output.status.success(), "{:?}\n{}", output.status, stderr(output));
    assert_eq!(stderr(output), "");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_command_prints_its_rows_and_nothing_else() {
    let output = coeval(&["sql", "--in-memory", "-c", "SELECT 1 AS one, 'ann' AS name, NULL AS nothing"]);
    assert_ends_well(&output);
    assert_eq!(
        stdout(&output),
        " one | name | nothing \n-----+------+---------\n   1 | ann  | NULL\n(1 row)\n"
    );
}

/// It was a directory of that name, beside what the user was working on.
#[test]
fn a_database_in_memory_leaves_no_directory_of_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coeval"));
        bounded::output(command.current_dir(directory.path()).args(arguments))
    };
    let output = run(&["sql", ":memory:", "-c", "CREATE TABLE t (id int PRIMARY KEY)"]);
    assert_ends_well(&output);
    assert_eq!(stdout(&output), "CREATE TABLE\n");
    let refused = run(&["sql", ":memory:", "--salvage", "-c", "SELECT 1"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--salvage needs a directory"), "{}", stderr(&refused));
    let refused = run(&["init", ":memory:"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("`coeval sql :memory:`"), "{}", stderr(&refused));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn statements_come_through_a_pipe_with_and_without_a_last_semicolon() {
    let output = coeval_with_input(
        &["sql"],
        "CREATE TABLE t (id int PRIMARY KEY, note text);\n-- two rows; both at once\n\
         INSERT INTO t VALUES (1, 'a;b'), (2, NULL);\nSELECT *\nFROM t ORDER BY id",
    );
    assert_ends_well(&output);
    assert_eq!(
        stdout(&output),
        "CREATE TABLE\nINSERT 0 2\n id | note \n----+------\n  1 | a;b\n  2 | NULL\n(2 rows)\n"
    );
}

#[test]
fn the_first_failure_ends_a_script_and_is_explained() {
    let output = coeval_with_input(&["sql"], "SELECT 1;\n\nSELECT *\nFROM missing;\nSELECT 2;\n");
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("ERROR 42P01") && said.contains("missing"), "{said}");
    assert!(said.starts_with("stdin:"), "{said}");
    assert_eq!(stdout(&output).matches("(1 row)").count(), 1, "the second SELECT is not run");
}

#[test]
fn several_statements_of_one_command_are_one_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let dir = text(directory.path());
    assert_ends_well(&coeval(&["sql", dir, "-c", "CREATE TABLE t (id int PRIMARY KEY)"]));
    let output = coeval(&["sql", dir, "-c", "INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("23505"), "{}", stderr(&output));
    let output = coeval(&["sql", dir, "-c", "SELECT count(*) AS n FROM t"]);
    assert!(stdout(&output).contains(" 0\n"), "{}", stdout(&output));
}

#[test]
fn what_one_process_commits_the_next_one_finds() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("new");
    let script = directory.path().join("rows.sql");
    std::fs::write(&script, "INSERT INTO t VALUES (1, 'ann');\nINSERT INTO t VALUES (2, 'bob');\n").unwrap();
    let create = "CREATE TABLE t (id int PRIMARY KEY, name text)";
    assert_ends_well(&coeval(&["sql", text(&dir), "-c", create, "-f", text(&script)]));
    let output = coeval(&["sql", text(&dir), "-c", "SELECT name FROM t ORDER BY id DESC"]);
    assert_ends_well(&output);
    assert_eq!(stdout(&output), " name \n------\n bob\n ann\n(2 rows)\n");
}

#[test]
fn definitions_are_described() {
    let output = coeval_with_input(
        &["sql"],
        "CREATE TABLE parent (id bigint PRIMARY KEY, name text UNIQUE);\n\
         CREATE TABLE child (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent bigint NOT NULL REFERENCES parent \
         ON DELETE CASCADE, weight numeric(10,2) DEFAULT 1 CHECK (weight > 0));\n\
         CREATE INDEX child_parent ON child (parent);\n\
         CREATE VIEW heavy AS SELECT id, weight FROM child WHERE weight > 10;\n\
         \\d child\n\\d parent\n\\d heavy\n\\dt\n\\di child*\n\\dn\n",
    );
    assert_ends_well(&output);
    let shown = stdout(&output);
    for part in [
        "Table \"public.child\"",
        "generated always as identity",
        "numeric(10,2)",
        "\"child_parent\" index (parent)",
        "ON DELETE CASCADE",
        "Referenced by:\n    child: ",
        "unique constraint (name)",
        "View \"public.heavy\"",
        "WHERE weight > 10",
        " public | child  | table\n",
        "child_pkey",
        " public\n",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
}

/// A table without a primary key numbers its rows by a sequence that nobody has made, and that was listed.
#[test]
fn what_nobody_has_made_is_not_listed() {
    let shown = printed("CREATE TABLE t (a int);\n\\d\n\\ds\n\\d t*\n");
    assert!(shown.contains(" public | t    | table\n") && !shown.contains("row_id"), "{shown}");
}

/// Those of primary keys stood in front of all others.
#[test]
fn indexes_are_listed_by_their_names() {
    let shown = printed(
        "CREATE TABLE b (id int PRIMARY KEY, n int UNIQUE);\nCREATE TABLE a (id int PRIMARY KEY);\n\\di\n",
    );
    let places = ["a_pkey", "b_n_key", "b_pkey"].map(|name| shown.find(name));
    assert!(places.is_sorted() && places[0].is_some(), "{shown}");
}

/// Expressions and conditions stand in columns that nobody is to see, and those were shown.
#[test]
fn what_indexes_are_on_and_how_bricks_are_cut_is_described() {
    let output = coeval_with_input(
        &["sql"],
        "CREATE TABLE people (id int PRIMARY KEY, email text, active boolean, seen timestamp(3), \
         twice int GENERATED ALWAYS AS (id * 2) STORED);\n\
         CREATE INDEX people_email ON people (lower(email), id DESC) WHERE active;\n\
         COMMENT ON TABLE people IS 'who\u{1b}[31m';\nCOMMENT ON COLUMN people.seen IS 'when';\n\
         CREATE TABLE clicks (day date, shop text) USING brick \
         PARTITION BY (day RANGE SIZE '1 day' FROM '2026-01-01', shop CARDINALITY 16);\n\
         \\d people\n\\d people_email\n\\di people*\n\\d clicks\n",
    );
    assert_ends_well(&output);
    let shown = stdout(&output);
    for part in [
        "\"people_email\" index (lower(email), id DESC) WHERE active\n",
        "index on table \"people\" (lower(email), id DESC) WHERE active\n",
        " lower(email), id DESC ",
        " timestamp(3) without time zone ",
        " generated always as (id * 2) stored\n",
        "Comments on columns:\n    seen: when\n",
        "Comment: who\\x1B[31m\n",
        "Brick table \"public.clicks\"\n",
        " FROM 2026-01-01\n",
        "    shop CARDINALITY 16 ",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
    assert!(!shown.contains('\u{1}') && !shown.contains("\\x01"), "{shown}");
}

#[test]
fn sizes_rights_and_databases_are_listed() {
    let output = coeval_with_input(
        &["sql"],
        "CREATE TABLE orders (id int PRIMARY KEY);\nINSERT INTO orders VALUES (1), (2);\n\
         COMMENT ON TABLE orders IS 'what was ordered';\nCREATE VIEW opened AS SELECT id FROM orders;\n\
         CREATE TABLE order_lines (id int);\nCREATE ROLE clerk;\nGRANT SELECT, UPDATE (id) ON orders TO clerk;\n\
         \\echo sizes\n\\dt+ orders\n\\echo all\n\\d+\n\\echo rights\n\\dp ord?rs\n\\echo databases\n\\l\n",
    );
    assert_ends_well(&output);
    let shown = stdout(&output);
    let (_, shown) = shown.split_once("sizes\n").unwrap();
    let (sizes, shown) = shown.split_once("all\n").unwrap();
    let (all, shown) = shown.split_once("rights\n").unwrap();
    let (rights, databases) = shown.split_once("databases\n").unwrap();
    assert!(sizes.contains("(1 row)") && sizes.contains("|    2 |"), "{sizes}");
    assert!(sizes.contains("| what was ordered\n"), "{sizes}");
    assert!(all.contains(" opened ") && all.contains("| view ") && all.contains(" order_lines "), "{all}");
    assert!(rights.contains("clerk=r/") && !rights.contains("order_lines"), "{rights}");
    assert!(rights.contains("id: clerk=w/"), "{rights}");
    assert!(databases.contains("UTF8"), "{databases}");
}

#[test]
fn the_last_statement_goes_through_the_editor_and_is_run() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_coeval"))
        .arg("sql")
        .env("EDITOR", "sed -i s/41/42/")
        .env_remove("VISUAL")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT 41 AS answer;\n\\e\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_ends_well(&output);
    let shown = stdout(&output);
    assert!(shown.contains("     41\n") && shown.contains("     42\n"), "{shown}");
}

#[test]
fn commands_of_the_shell_work_in_scripts() {
    let output = coeval_with_input(
        &["sql"],
        "\\x\nSELECT 1 AS a, 2 AS b;\n\\timing on\nSELECT 1;\n\\q\nSELECT 'never';\n",
    );
    assert_ends_well(&output);
    let shown = stdout(&output);
    assert!(
        shown.contains("-[ RECORD 1 ]") && shown.contains("Time: ") && !shown.contains("never"),
        "{shown}"
    );
    let output = coeval(&["sql", "-c", "\\nonsense"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("\\nonsense"));
}

#[test]
fn a_command_that_fails_says_where_it_stands() {
    for (script, said) in [
        ("SELECT 1;\n\n\\d missing\n", "stdin:3: there is no table, view, index or sequence named missing\n"),
        ("SELECT\n1 \\nonsense\n", "stdin:2: \\nonsense is no command"),
        ("-- a comment\n.nonsense\n", "stdin:2: .nonsense is no command"),
        ("\n.import missing.csv\n", "stdin:2: ERROR "),
        ("\n\n\\copy missing TO STDOUT\n", "stdin:3: ERROR 42P01"),
        ("\\else\n", "stdin:1: "),
    ] {
        let output = coeval_with_input(&["sql"], script);
        assert_eq!(output.status.code(), Some(1), "{script}");
        assert!(stderr(&output).starts_with(said), "{}", stderr(&output));
    }
}

/// What a script prints in memory.
#[track_caller]
fn printed(script: &str) -> String {
    let output = coeval_with_input(&["sql", "--in-memory"], script);
    assert_ends_well(&output);
    stdout(&output)
}

#[test]
fn variables_stand_in_statements_and_commands() {
    let shown = printed(
        "\\set word 'it''s'\n\\set list 1 ', ' 2\n\\echo :word :list `echo printed` :none\n\
         SELECT :'word' AS \":word\", 1::text AS one;\n",
    );
    assert_eq!(shown, "it's 1, 2 printed :none\n :word | one \n-------+-----\n it's  | 1\n(1 row)\n");
}

#[test]
fn values_of_a_row_become_variables() {
    let shown = printed(
        "SELECT 7 AS n, 'a b' AS word, NULL AS nothing \\gset got_\n\
         SELECT :got_n + 1 AS sum, :'got_word' AS word;\n\\echo :{?got_nothing} :ROW_COUNT :ERROR\n",
    );
    assert_eq!(shown, " sum | word \n-----+------\n   8 | a b\n(1 row)\nFALSE 1 false\n");
    for refused in
        ["SELECT 1 AS a WHERE false \\gset", "SELECT 1 AS a UNION SELECT 2 \\gset", "SELECT 1 \\gset a-"]
    {
        let output = coeval_with_input(&["sql", "--in-memory"], refused);
        assert_eq!(output.status.code(), Some(1), "{refused}");
    }
}

#[test]
fn only_the_branch_that_is_true_is_run() {
    let shown = printed(
        "\\set x 5\n\\if :{?y}\nSELECT nonsense;\n\\if yes\n\\echo inner\n\\endif\n\\elif :{?x}\n\\echo elif\n\\else\n\
         \\echo else\n\\endif\nSELECT 1\n\\if off\n+ nonsense\n\\else\n+ 100\n\\endif\nAS a;\n",
    );
    assert_eq!(shown, "elif\n  a  \n-----\n 101\n(1 row)\n");
    for refused in ["\\else\n", "\\endif\n", "\\if true\n", "\\if 1\n\\else\n\\elif 1\n\\endif\n"] {
        assert_eq!(coeval_with_input(&["sql"], refused).status.code(), Some(1), "{refused}");
    }
}

#[test]
fn results_go_into_files_and_to_programs() {
    let dir = tempfile::tempdir().unwrap();
    let (all, one) = (dir.path().join("all"), dir.path().join("one"));
    let shown = printed(&format!(
        "\\o {}\nSELECT 1 AS a;\n\\qecho noted\n\\echo seen\n\\o\nSELECT 2 AS b \\g '{}'\nSELECT 3 AS c \\g |tr 3 4\n\
         SELECT 5 AS d \\gx\n\\g\nSELECT 6 AS e, now() AS f, 1.50::numeric(5,2) AS g \\gdesc\n\
         SELECT 'SELECT 7 AS h' \\gexec\n",
        text(&all),
        text(&one)
    ));
    assert_eq!(std::fs::read_to_string(all).unwrap(), " a \n---\n 1\n(1 row)\nnoted\n");
    assert_eq!(std::fs::read_to_string(one).unwrap(), " b \n---\n 2\n(1 row)\n");
    for part in [
        "seen\n",
        " c \n---\n 4\n",
        "-[ RECORD 1 ]",
        " d \n---\n 5\n",
        " f      | timestamp with time zone\n",
        " h \n---\n 7\n",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
}

#[test]
fn rows_are_copied_from_lines_files_and_programs_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let (csv, parquet) = (dir.path().join("t.csv"), dir.path().join("t.parquet"));
    let (csv, parquet) = (text(&csv), text(&parquet));
    let shown = printed(&format!(
        "CREATE TABLE t (a int, b text);\nCOPY t FROM STDIN; SELECT 'x' AS behind;\n1\tone\n2\ttwo\n\\.\n\
         \\copy t from stdin csv\n3,\"a;b\"\n\\.\n\\copy (SELECT * FROM t ORDER BY a) to '{csv}' (format csv, header)\n\
         \\copy t to '{parquet}' (format parquet)\nTRUNCATE t;\n\\copy t from {csv} csv header\n\
         \\copy t from '{parquet}' (format parquet)\n\\copy t(a) from program 'echo 9'\n\
         \\copy t to program 'wc -l > {csv}.count'\nCOPY (SELECT count(*) FROM t) TO STDOUT;\n"
    ));
    assert_eq!(std::fs::read_to_string(csv).unwrap(), "a,b\n1,one\n2,two\n3,a;b\n");
    assert_eq!(std::fs::read_to_string(format!("{csv}.count")).unwrap().trim(), "7");
    assert_eq!(
        shown,
        "CREATE TABLE\nCOPY 2\n behind \n--------\n x\n(1 row)\nCOPY 1\nCOPY 3\nCOPY 3\nTRUNCATE TABLE\n\
         COPY 3\nCOPY 3\nCOPY 1\nCOPY 7\n7\n"
    );
    let given = coeval_with_input(
        &["sql", "-c", "CREATE TABLE t (a int)", "-c", "COPY t FROM STDIN", "-c", "\\copy t to stdout"],
        "4\n5\n",
    );
    assert_eq!(stdout(&given), "CREATE TABLE\nCOPY 2\n4\n5\n");
    let refused =
        coeval_with_input(&["sql"], "CREATE TABLE t (a int);\nCOPY t FROM STDIN;\nx\n\\.\nSELECT 1;\n");
    assert!(refused.status.code() == Some(1) && stderr(&refused).contains("22P02"), "{}", stderr(&refused));
    assert!(!stdout(&refused).contains("(1 row)"));
}

#[test]
fn files_name_files_beside_them_and_failures_may_end_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let outer = dir.path().join("outer.sql");
    std::fs::write(
        &outer,
        "\\set ON_ERROR_STOP off\nSELECT nonsense;\n\\echo :ERROR :SQLSTATE\n\\ir inner.sql\n",
    )
    .unwrap();
    std::fs::write(dir.path().join("inner.sql"), "\\echo inner\n").unwrap();
    let output = coeval(&["sql", "--in-memory", "-f", text(&outer)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "true 42703\ninner\n");
    assert!(stderr(&output).contains("outer.sql:2: ERROR 42703"), "{}", stderr(&output));
}

#[test]
fn files_become_tables_and_rows_of_tables() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("Trips.csv");
    std::fs::write(&file, "id,zone\n1,north\n2,south\n").unwrap();
    let file = text(&file);
    let script = format!(
        ".import {file}\nALTER TABLE trips ADD COLUMN noted text DEFAULT 'no';\n.import '{file}' trips\n\
         SELECT id, zone, noted FROM trips ORDER BY id, noted;\n.import {file}.gone\n"
    );
    let output = coeval_with_input(&["sql", "--in-memory"], &script);
    let printed = stdout(&output);
    assert!(printed.contains("INSERT 0 2"), "{printed}");
    let rows: Vec<_> = printed.lines().filter(|line| line.contains("north")).collect();
    assert_eq!(rows.len(), 2, "{printed}");
    assert!(!output.status.success());
    assert!(stderr(&output).contains("Trips.csv.gone"), "{}", stderr(&output));
}

#[test]
fn a_place_that_is_no_database_is_refused_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let letter = directory.path().join("letter.txt");
    std::fs::write(&letter, "dear reader").unwrap();
    for place in [directory.path(), &letter] {
        let output = coeval(&["sql", text(place), "-c", "SELECT 1"]);
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(said.contains(text(place)) && said.lines().count() == 1, "{said}");
    }
    assert_eq!(std::fs::read(&letter).unwrap(), b"dear reader");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was made there");
    let said = stderr(&coeval(&["sql", text(&letter), "-c", "SELECT 1"]));
    assert!(
        said.contains("is a file, and a database is a directory: name a new or an empty directory"),
        "{said}"
    );
    let trips = directory.path().join("trips.csv");
    std::fs::write(&trips, "id\n1\n").unwrap();
    let said = stderr(&coeval(&["sql", text(&trips), "-c", "SELECT 1"]));
    let advice =
        format!("is a file, and a database is a directory: SELECT * FROM '{}' reads it", text(&trips));
    assert!(said.contains(&advice) && said.lines().count() == 1, "{said}");
}

#[test]
fn a_directory_in_use_names_who_uses_it() {
    let directory = tempfile::tempdir().unwrap();
    let dir = text(directory.path());
    let mut holder = Command::new(env!("CARGO_BIN_EXE_coeval"))
        .args(["sql", dir])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut typed = holder.stdin.take().unwrap();
    let mut shown = std::io::BufReader::new(holder.stdout.take().unwrap());
    // Once it has answered it holds the directory.
    typed.write_all(b"SELECT 1;\n").unwrap();
    std::io::BufRead::read_line(&mut shown, &mut String::new()).unwrap();
    let output = coeval(&["sql", dir, "-c", "SELECT 1"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains(&holder.id().to_string()) && said.contains("in use"), "{said}");
    drop(typed);
    assert!(bounded::status(&mut holder, "the shell that has the directory").success());
    assert_ends_well(&coeval(&["sql", dir, "-c", "SELECT 1"]));
}

/// A command whose reader has gone.
fn unread(arguments: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_coeval"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    bounded::end_of(child, &format!("{arguments:?}, whose reader has gone"), bounded::END_PATIENCE)
}

/// Fails, with a panic, where a command prints and does not look what becomes of it.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    assert_ends_well(&unread(&["sql", "-c", "SELECT * FROM generate_series(1, 200000)"]));
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| text(&dir.path().join(name)).to_owned();
    let (database, archive, restored) = (place("db"), place("archive"), place("restored"));
    assert_ends_well(&coeval(&["sql", &database, "-c", "CREATE TABLE t (a int PRIMARY KEY)"]));
    assert_ends_well(&unread(&["backup", &database, &archive]));
    assert_ends_well(&unread(&["check", "--archive", &archive]));
    assert_ends_well(&unread(&["restore", &archive, &restored]));
    assert_ends_well(&unread(&["check", &restored]));
}

#[test]
fn a_command_line_that_makes_no_sense_ends_with_two() {
    for arguments in [&["sqll"][..], &["bench", "tpcz"], &["check"], &["sql", "d", "--in-memory"]] {
        assert_eq!(coeval(arguments).status.code(), Some(2), "{arguments:?}");
    }
    for command in ["demo", "sql", "bench", "check"] {
        let help = stdout(&coeval(&[command, "--help"]));
        assert!(help.contains("Example") && help.contains("Usage"), "{help}");
    }
}

/// A server gives its clients what is there, and refuses the rest.
fn what_is_kept_is_served(path: &str) {
    let mut server = Command::new(env!("CARGO_BIN_EXE_coeval"))
        .args(["serve", "--salvage", path, "--listen", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines().map(Result::unwrap);
    let alarm = bounded::Alarm::set(&server, bounded::END_PATIENCE);
    let port = lines.find_map(|line| line.strip_prefix("Listening on 127.0.0.1:")?.parse().ok());
    std::thread::spawn(move || lines.count());
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(port.unwrap()).user("tester").dbname("coeval");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let kept: i64 = client.query_one("SELECT count(*) FROM kept", &[]).await.unwrap().get(0);
        assert_eq!(kept, 2);
        // Clients that look for one that takes writes do not stay here.
        let is_standby: bool = client.query_one("SELECT pg_is_in_recovery()", &[]).await.unwrap().get(0);
        let in_standby: String = client.query_one("SHOW in_hot_standby", &[]).await.unwrap().get(0);
        assert!(is_standby && in_standby == "on", "{in_standby}");
        for (statement, state) in [
            ("SELECT count(*) FROM lost", "XX001"),
            ("INSERT INTO kept VALUES (3)", "25006"),
            ("CREATE TABLE other (a int)", "25006"),
            ("CHECKPOINT", "25006"),
        ] {
            let refused = client.batch_execute(statement).await.unwrap_err();
            assert_eq!(refused.code().map(tokio_postgres::error::SqlState::code), Some(state), "{statement}");
        }
    });
    drop(alarm);
    server.kill().unwrap();
    server.wait().unwrap();
}

/// One damaged segment used to keep the whole database closed.
#[test]
fn what_damage_has_left_is_read_with_salvage_and_kept_by_repair() {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("db");
    let path = text(&database);
    let rows = "CREATE TABLE lost (id int PRIMARY KEY, word text); CREATE TABLE kept (id int PRIMARY KEY); \
                INSERT INTO lost SELECT i, repeat('x', 50) FROM generate_series(1, 20000) AS s(i); CHECKPOINT; \
                INSERT INTO kept VALUES (1), (2); CHECKPOINT;";
    assert_ends_well(&coeval_with_input(&["sql", path], rows));
    let files = std::fs::read_dir(database.join("segments")).unwrap().map(|file| file.unwrap().path());
    let largest = files.max_by_key(|file| file.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    let place = bytes.len() - 30;
    bytes[place] ^= 0xff;
    std::fs::write(&largest, bytes).unwrap();

    let refused = coeval_with_input(&["sql", path], "SELECT 1;");
    assert!(!refused.status.success() && stderr(&refused).contains(text(&largest)), "{}", stderr(&refused));
    let salvage = |sql: &str| coeval_with_input(&["sql", "--salvage", path], sql);
    let read = salvage("SELECT count(*) FROM kept;");
    assert!(
        stdout(&read).contains('2') && stderr(&read).contains("table lost cannot be read"),
        "{}",
        stderr(&read)
    );
    assert!(stderr(&salvage("SELECT count(*) FROM lost;")).contains("XX001"));
    assert!(stderr(&salvage("INSERT INTO kept VALUES (3);")).contains("25006"));
    what_is_kept_is_served(path);

    assert_eq!(unread(&["check", path]).status.code(), Some(1), "whether or not somebody has read it");
    let repaired = coeval(&["check", "--repair", path]);
    assert!(stdout(&repaired).contains("lost: table lost"), "{}", stdout(&repaired));
    assert!(stdout(&repaired).contains("history: what is left is a database of its own"));
    assert_eq!(repaired.status.code(), Some(3));
    let again = coeval(&["check", "--repair", path]);
    assert!(stdout(&again).contains("nothing to repair"), "{}", stdout(&again));
    assert_eq!(again.status.code(), Some(0));
    let left = coeval_with_input(&["sql", path], "INSERT INTO kept VALUES (3); SELECT count(*) FROM kept;");
    assert_ends_well(&left);
    assert!(stdout(&left).contains('3'), "{}", stdout(&left));
}
