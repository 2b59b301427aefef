// SPDX-License-Identifier: Apache-2.0
//! A cluster as an operator runs it: three servers on one machine, of which one is killed and comes back.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/bounded.rs"]
mod bounded;

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_postgres::{Config, NoTls, SimpleQueryMessage};

const PROGRAM: &str = env!("CARGO_BIN_EXE_coeval");
/// Longest wait for something that has to come.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long a server may take until it listens: some make a copy before.
const START_PATIENCE: Duration = Duration::from_secs(240);
/// How long a statement may take: none of them waits for what does not come.
const STATEMENT_PATIENCE: Duration = Duration::from_secs(240);

/// A server, and what it says.
struct Server {
    process: Child,
    said: Arc<Mutex<String>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Places for nodes, counted from 1; not all of them are served. Each gets the number of its place, since they join one after the other.
struct Nodes {
    parent: tempfile::TempDir,
    /// Of these nodes alone. No connection begins there, so a port that was found free stays free until a node listens at it.
    host: Ipv4Addr,
    /// Where clients come, and where the other nodes do.
    ports: [(u16, u16); 4],
    servers: [Option<Server>; 4],
}

impl Nodes {
    /// Three are served, and take part: the first is the primary.
    fn start() -> Self {
        Self::start_some(3)
    }

    /// So many are.
    fn start_some(count: usize) -> Self {
        static CLUSTERS: AtomicU8 = AtomicU8::new(64);
        let [.., third, fourth] = std::process::id().to_be_bytes();
        let host = Ipv4Addr::new(127, CLUSTERS.fetch_add(1, Ordering::Relaxed), third, fourth);
        let listeners: Vec<TcpListener> = (0..8).map(|_| TcpListener::bind((host, 0)).unwrap()).collect();
        let port = |place: usize| listeners[place].local_addr().unwrap().port();
        let ports = [0, 2, 4, 6].map(|place| (port(place), port(place + 1)));
        drop(listeners);
        let parent = tempfile::tempdir().unwrap();
        let mut nodes = Self { parent, host, ports, servers: [const { None }; 4] };
        (1..=count).for_each(|number| nodes.serve(number));
        nodes.all_live(count);
        nodes
    }

    fn address(&self, number: usize) -> String {
        format!("{}:{}", self.host, self.ports[number - 1].1)
    }

    /// How a replica is told where the primary is.
    fn replica_of(&self) -> String {
        format!("host={},port={},user=coeval", self.host, self.ports[0].0)
    }

    fn dir(&self, number: usize) -> PathBuf {
        self.parent.path().join(format!("n{number}"))
    }

    /// How a server is started at a place.
    fn command(&self, number: usize, options: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg(self.dir(number)).args(["--stop-seconds", "1"]);
        command.args(["--listen", &format!("{}:{}", self.host, self.ports[number - 1].0)]);
        command.args(["--cluster", &self.address(number)]).args(options).stdin(Stdio::null());
        command
    }

    /// How a node is started. The first time, all but the first one join through the one before; later their directories say all.
    fn node_command(&self, number: usize) -> Command {
        let mut command = self.command(number, &[]);
        if number > 1 {
            command.args(["--replica-of", &self.replica_of()]);
        }
        if number > 1 && !self.dir(number).join("cluster").exists() {
            command.args(["--join", &self.address(number - 1)]);
        }
        command
    }

    /// Starts a node; it listens when this returns.
    fn serve(&mut self, number: usize) {
        let mut process = self.node_command(number).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(String::new()));
        let alarm = bounded::Alarm::set(&process, START_PATIENCE);
        let listens = lines.by_ref().map(Result::unwrap).any(|line| {
            *said.lock().unwrap() += &format!("{line}\n");
            line.starts_with("Listening on ")
        });
        drop(alarm);
        let kept = Arc::clone(&said);
        // It must not wait for somebody to read what it says.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                *kept.lock().unwrap() += &format!("{line}\n");
            }
        });
        assert!(listens, "node {number} does not listen: {}", said.lock().unwrap());
        self.servers[number - 1] = Some(Server { process, said });
    }

    fn kill(&mut self, number: usize) {
        drop(self.servers[number - 1].take().unwrap());
    }

    /// Asks a node to end, and waits.
    fn stop(&mut self, number: usize) {
        let mut server = self.servers[number - 1].take().unwrap();
        let pid = server.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let status = bounded::status(&mut server.process, &format!("node {number}"));
        assert!(status.success(), "{status}: {}", server.said.lock().unwrap());
    }

    /// The first value of a statement on a node; else what the server says, with its SQLSTATE.
    fn ask(&self, number: usize, sql: &str) -> Result<Option<String>, String> {
        Ok(self.ask_all(number, sql)?.into_iter().next().flatten())
    }

    /// The first value of each row.
    fn ask_all(&self, number: usize, sql: &str) -> Result<Vec<Option<String>>, String> {
        let said = |error: tokio_postgres::Error| match error.as_db_error() {
            Some(said) => format!("{} {}", said.code().code(), said.message()),
            None => error.to_string(),
        };
        let mut config = Config::new();
        config.host(self.host.to_string()).port(self.ports[number - 1].0).user("coeval").dbname("coeval");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let asking = async {
            let (client, connection) = config.connect(NoTls).await.map_err(said)?;
            tokio::spawn(async move { drop(connection.await) });
            // As on replicas, which have no other for whoever loads.
            client
                .simple_query("SET default_transaction_isolation = 'repeatable read'")
                .await
                .map_err(said)?;
            let messages = client.simple_query(sql).await.map_err(said)?;
            let rows = messages.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row.get(0).map(str::to_owned)),
                _ => None,
            });
            Ok::<_, String>(rows.collect())
        };
        let answered = runtime.block_on(async { tokio::time::timeout(STATEMENT_PATIENCE, asking).await });
        answered.unwrap_or_else(|_| Err(format!("it has not ended within {STATEMENT_PATIENCE:?}")))
    }

    /// Waits until a statement gives this on a node.
    fn until(&self, number: usize, sql: &str, wanted: &str) {
        let begun = Instant::now();
        loop {
            let found = self.ask(number, sql);
            if matches!(&found, Ok(Some(found)) if found == wanted) {
                return;
            }
            let said = || self.servers[number - 1].as_ref().map(|server| server.said.lock().unwrap().clone());
            assert!(
                begun.elapsed() < PATIENCE,
                "{sql} gives {found:?} on node {number}, not {wanted}: {:?}",
                said()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until so many take part, with all their bricks, for each of the nodes that are served.
    fn all_live(&self, count: usize) {
        for number in self.served() {
            self.until(number, LIVE, &count.to_string());
        }
    }

    fn served(&self) -> Vec<usize> {
        (1..=4).filter(|number| self.servers[number - 1].is_some()).collect()
    }

    /// Waits until all nodes that are served count these rows of `hits`.
    fn all_count(&self, rows: &[u32]) {
        let sum: u64 = rows.iter().map(|row| u64::from(*row)).sum();
        let wanted = format!("{} {sum}", rows.len());
        for number in self.served() {
            self.until(number, COUNT, &wanted);
        }
    }

    /// Runs something on a node, which gives no rows.
    #[track_caller]
    fn run(&self, number: usize, sql: &str) {
        assert_eq!(self.ask(number, sql), Ok(None), "{sql}");
    }

    /// Loads through a node, by COPY.
    #[track_caller]
    fn copy(&self, number: usize, rows: &[u32]) {
        let file = self.parent.path().join("rows.csv");
        let lines: String = rows.iter().map(|row| format!("{},{row}\n", day(*row))).collect();
        std::fs::write(&file, lines).unwrap();
        self.run(number, &format!("COPY hits FROM '{}' (FORMAT csv)", file.display()));
    }

    /// Loads through a node, by INSERT.
    #[track_caller]
    fn insert(&self, number: usize, rows: &[u32]) {
        let values: Vec<String> = rows.iter().map(|row| format!("('{}', {row})", day(*row))).collect();
        self.run(number, &format!("INSERT INTO hits VALUES {}", values.join(", ")));
    }

    /// What `coeval cluster` says about a node's cluster.
    fn cluster(&self, words: &[&str], number: usize) -> Output {
        bounded::output(Command::new(PROGRAM).arg("cluster").args(words).arg(self.dir(number)))
    }
}

const LIVE: &str = "SELECT count(*) FROM coeval_cluster_nodes WHERE state = 'live'";
const HITS: &str = "CREATE TABLE hits (day date, n bigint) USING brick \
     PARTITION BY (day RANGE SIZE '10 days' FROM '2026-01-01') WITH (replicas = 2)";
const COUNT: &str = "SELECT count(*)::text || ' ' || coalesce(sum(n), 0)::text FROM hits";

/// Bricks that all nodes have, their rows, and how many bricks are on their way; NULL if a live one has not said.
const SHARES: &str = "SELECT CASE WHEN count(bricks_to_come) = count(*) THEN sum(bricks)::text || ' ' || sum(rows)::text || ' ' || \
     sum(bricks_to_come)::text END FROM coeval_cluster_nodes WHERE state <> 'removed' AND state <> 'away'";

fn state_of(number: usize) -> String {
    format!("SELECT state FROM coeval_cluster_nodes WHERE node = {number}")
}

/// The day of a row: some of four months.
fn day(row: u32) -> String {
    format!("2026-{:02}-{:02}", row % 4 + 1, row % 28 + 1)
}

/// The brick of a row, counted from the first of January 2026.
fn brick_of(row: u32) -> u32 {
    let before_month = [0, 31, 59, 90][(row % 4) as usize];
    (before_month + row % 28) / 10
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// To break it: have the keeper found the cluster at each start, or give a node that comes back another number.
#[test]
fn three_nodes_take_part_and_one_that_was_killed_comes_back() {
    let mut nodes = Nodes::start();
    let status = nodes.cluster(&["status"], 2);
    let shown = text_of(&status.stdout);
    assert!(status.status.success(), "{}", text_of(&status.stderr));
    assert_eq!(shown.matches("live").count(), 3, "{shown}");
    let is_own = |line: &&str| line.contains("this one") && line.starts_with("2 ");
    assert_eq!(shown.lines().filter(is_own).count(), 1, "{shown}");
    // What is said of a node goes for all.
    nodes.kill(3);
    for number in [1, 2] {
        nodes.until(number, &state_of(3), "away");
    }
    nodes.serve(3);
    nodes.all_live(3);
    // All end, and go on: that the cluster was founded is known.
    (1..=3).rev().for_each(|number| nodes.stop(number));
    (1..=3).for_each(|number| nodes.serve(number));
    nodes.all_live(3);
}

/// To break it: take what the command line says at each start, or let anybody make or join a cluster.
#[test]
fn what_a_node_cannot_be_is_refused_by_name() {
    let mut nodes = Nodes::start();
    nodes.stop(3);
    let (replica_of, first) = (nodes.replica_of(), nodes.address(1));
    let (replica_of, first) = (replica_of.as_str(), first.as_str());
    for (number, options, what) in [
        (3, vec!["--replica-of", replica_of, "--cluster-replicas", "3"], "--cluster-replicas says 3"),
        (4, vec!["--join", first], "--replica-of"),
        (4, vec!["--replica-of", replica_of], "--join"),
    ] {
        let refused = bounded::output(&mut nodes.command(number, &options));
        let said = text_of(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{options:?}: {said}");
        assert!(said.contains(what), "{options:?}: {said}");
        if number == 4 {
            // What one of them has begun is nothing to the next.
            std::fs::remove_dir_all(nodes.dir(4)).unwrap();
        }
    }
    let nobody = nodes.cluster(&["status"], 3);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text_of(&nobody.stderr).contains("is not served"));
    nodes.serve(3);
    nodes.all_live(3);
}

/// To break it: declare tables by statements alone. A load through one node waits for ever then for another one that nobody has
/// asked for the table.
#[test]
fn what_is_loaded_through_one_node_is_counted_on_all_whoever_is_away() {
    const JOINED: &str =
        "SELECT sum(h.n) FROM hits AS h JOIN days AS d ON d.day = h.day WHERE d.kind = 'even'";
    let rows: Vec<u32> = (0..4_000).collect();
    let mut nodes = Nodes::start();
    nodes.run(1, HITS);
    nodes.run(1, "CREATE TABLE days (day date PRIMARY KEY, kind text)");
    let days: Vec<String> = (0..28)
        .map(|row| format!("('{}', '{}')", day(row), if row % 2 == 0 { "even" } else { "odd" }))
        .collect();
    nodes.run(1, &format!("INSERT INTO days VALUES {}", days.join(", ")));
    nodes.all_count(&[]);
    nodes.copy(2, &rows[..1_000]);
    nodes.all_count(&rows[..1_000]);
    nodes.insert(3, &rows[1_000..2_000]);
    nodes.all_count(&rows[..2_000]);
    // All days of even rows are in `days`: the day of a row is that of its remainder by 28.
    let even: u32 = rows[..2_000].iter().filter(|row| *row % 2 == 0).sum();
    for number in 1..=3 {
        nodes.until(number, JOINED, &even.to_string());
        nodes.until(number, &declared(JOINED), &even.to_string());
    }
    what_is_made_of_rows_travels(&nodes);
    windows_are_done_on_all_nodes(&nodes);
    nodes.kill(3);
    nodes.all_count(&rows[..2_000]);
    // It waits until the keeper finds that the third one is gone.
    nodes.copy(2, &rows[2_000..3_000]);
    nodes.insert(1, &rows[3_000..]);
    nodes.all_count(&rows);
    nodes.serve(3);
    nodes.all_live(3);
    nodes.all_count(&rows);
    all_replicas_agree(&nodes, rows.len());
    deletes_are_for_the_node_with_the_keeper(&nodes, &rows);
    // A table that is gone is in nobody's way, also behind a restart of all.
    nodes.run(1, "DROP TABLE hits");
    (1..=3).rev().for_each(|number| nodes.stop(number));
    (1..=3).for_each(|number| nodes.serve(number));
    nodes.all_live(3);
    nodes.run(1, HITS);
    nodes.all_count(&[]);
    nodes.copy(3, &rows[..100]);
    nodes.all_count(&rows[..100]);
}

/// Whichever node is asked, it finds that all replicas of all bricks have the same rows, and so many.
fn all_replicas_agree(nodes: &Nodes, rows: usize) {
    for number in nodes.served() {
        let compared = nodes.cluster(&["check"], number);
        let said = text_of(&compared.stdout);
        assert!(compared.status.success(), "{said}{}", text_of(&compared.stderr));
        assert!(
            said.starts_with("1 tables, ") && said.ends_with(&format!(", {rows} rows compared\n")),
            "{said}"
        );
    }
}

/// The same as a declared reader at SERIALIZABLE.
fn declared(query: &str) -> String {
    format!("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY; {query}; COMMIT")
}

/// Each load is of a day of which there was a row before, on the primary; the others hear of rows and loads by different ways.
///
/// To break it: have `OwnNode` say that it has no ages.
#[test]
fn no_load_is_seen_without_the_rows_from_before_it() {
    let nodes = Nodes::start();
    nodes.run(1, HITS);
    nodes.run(1, "CREATE TABLE days (day date PRIMARY KEY)");
    nodes.all_count(&[]);
    let lacking =
        declared("SELECT count(*) FROM hits AS h LEFT JOIN days AS d ON d.day = h.day WHERE d.day IS NULL");
    (1..=3).for_each(|number| nodes.until(number, &lacking, "0"));
    let add = |row| {
        nodes.run(1, &format!("INSERT INTO days VALUES ('{}')", day(row)));
        nodes.insert(2, &[row]);
    };
    for row in 0..27 {
        add(row);
        for number in 1..=3 {
            assert_eq!(nodes.ask(number, &lacking), Ok(Some("0".to_owned())), "row {row}, node {number}");
        }
    }
    // Where rows stand still, the load behind them is not seen beside them, though the node has it.
    nodes.ask(3, "SELECT pg_wal_replay_pause()").unwrap();
    add(27);
    nodes.until(3, "SELECT count(*) FROM hits", "28");
    assert_eq!(nodes.ask(3, &lacking), Ok(Some("0".to_owned())), "its rows stand still");
    nodes.ask(3, "SELECT pg_wal_replay_resume()").unwrap();
    // What is loaded is seen beside rows, a moment later.
    let there = declared("SELECT count(*) FROM hits AS h JOIN days AS d ON d.day = h.day");
    (1..=3).for_each(|number| nodes.until(number, &there, "28"));
}

/// Each transaction of the primary writes a row and loads one of the same day.
///
/// To break it: have `Load::prepare` commit the load, or `SpreadPart::commit` decide it before its rows are published.
#[test]
fn rows_and_loads_of_one_transaction_are_seen_together() {
    const HALVES: &str = "SELECT count(*) FROM hits AS h FULL JOIN days AS d ON d.day = h.day \
         WHERE h.day IS NULL OR d.day IS NULL";
    let mut nodes = Nodes::start();
    nodes.run(1, HITS);
    nodes.run(1, "CREATE TABLE days (day date PRIMARY KEY)");
    nodes.all_count(&[]);
    let (halves, none) = (declared(HALVES), Ok(Some("0".to_owned())));
    (1..=3).for_each(|number| nodes.until(number, &halves, "0"));
    let add = |nodes: &Nodes, row: u32, end: &str| {
        let level = ["SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"][row as usize % 3];
        let (day, begin) = (day(row), format!("BEGIN ISOLATION LEVEL {level}"));
        let rows = format!("INSERT INTO days VALUES ('{day}'); INSERT INTO hits VALUES ('{day}', {row})");
        nodes.run(1, &format!("{begin}; {rows}; {end}"));
        assert_eq!(nodes.ask(1, HALVES), none, "row {row}, below SERIALIZABLE");
        for number in 1..=3 {
            assert_eq!(nodes.ask(number, &halves), none, "row {row}, node {number}");
        }
    };
    for row in 0..24 {
        add(&nodes, row, if row % 4 == 3 { "ROLLBACK" } else { "COMMIT" });
    }
    let both = declared("SELECT count(*) FROM hits AS h JOIN days AS d ON d.day = h.day");
    (1..=3).for_each(|number| nodes.until(number, &both, "18"));
    // Elsewhere there are no rows to be written.
    let rows = "INSERT INTO hits VALUES ('2026-01-01', 1); INSERT INTO days VALUES ('2026-01-01')";
    let refused = nodes.ask(2, &format!("BEGIN; {rows}; COMMIT"));
    assert!(refused.is_err(), "{refused:?}");
    nodes.kill(1);
    nodes.serve(1);
    nodes.all_live(3);
    (1..=3).for_each(|number| nodes.until(number, &both, "18"));
    add(&nodes, 24, "COMMIT");
    (1..=3).for_each(|number| nodes.until(number, &both, "19"));
}

/// Rows of two thousand in a row are twenty-eight apart on each day. To break it: have the pieces of a node ask nobody, in `Here`.
fn windows_are_done_on_all_nodes(nodes: &Nodes) {
    const STEPS: &str =
        "SELECT sum(step) FROM (SELECT n - lag(n) OVER (PARTITION BY day ORDER BY n) AS step FROM hits) s";
    // Rows are divided among nodes as among threads, of which there have to be several.
    let divides = std::thread::available_parallelism().is_ok_and(|threads| threads.get() > 1);
    for number in 1..=3 {
        assert_eq!(nodes.ask(number, STEPS), Ok(Some(((2_000 - 28) * 28).to_string())), "node {number}");
        let plan = nodes.ask_all(number, &format!("EXPLAIN ANALYZE {STEPS}")).unwrap();
        let lines: Vec<&str> = plan.iter().flatten().map(String::as_str).collect();
        let shares = lines.iter().find(|line| line.contains("SpreadShares"));
        assert_eq!(shares.is_some(), divides, "{lines:?}");
        if let Some(shares) = shares {
            assert!(shares.contains("_bytes=") && !shares.contains("bricks_read_here"), "{shares}");
        }
    }
}

/// Each node lacks a third of the bricks. To break it: give nodes no runner of pieces.
fn what_is_made_of_rows_travels(nodes: &Nodes) {
    for number in 1..=3 {
        let plan = nodes.ask_all(number, "EXPLAIN ANALYZE SELECT count(*), sum(n) FROM hits").unwrap();
        let lines: Vec<&str> = plan.iter().flatten().map(String::as_str).collect();
        let pieces = lines.iter().find(|line| line.contains("SpreadPieces"));
        let pieces = pieces.unwrap_or_else(|| panic!("no pieces on node {number}: {lines:?}"));
        assert!(pieces.contains("_bytes=") && !pieces.contains("bricks_read_here"), "{pieces}");
    }
}

fn deletes_are_for_the_node_with_the_keeper(nodes: &Nodes, rows: &[u32]) {
    let delete = "DELETE FROM hits WHERE day < '2026-01-11'";
    for sql in [delete, "TRUNCATE hits"] {
        let refused = nodes.ask(2, sql).unwrap_err();
        assert!(refused.starts_with("0A000"), "{refused}");
    }
    nodes.run(1, delete);
    let left: Vec<u32> = rows.iter().copied().filter(|row| day(*row).as_str() >= "2026-01-11").collect();
    assert!(left.len() < rows.len());
    nodes.all_count(&left);
    nodes.run(1, "TRUNCATE hits");
    nodes.all_count(&[]);
}

/// To break it: leave out that a drained node's bricks go elsewhere, or that a removed one is told.
#[test]
fn a_fourth_node_joins_and_another_one_goes() {
    let rows: Vec<u32> = (0..3_000).collect();
    let mut nodes = Nodes::start();
    nodes.run(1, HITS);
    nodes.copy(1, &rows[..1_000]);
    nodes.serve(4);
    nodes.all_live(4);
    nodes.all_count(&rows[..1_000]);
    let elsewhere = nodes.cluster(&["drain", "n2"], 3);
    assert_eq!(elsewhere.status.code(), Some(1));
    assert!(text_of(&elsewhere.stderr).contains(&nodes.address(1)), "{}", text_of(&elsewhere.stderr));
    let drained = nodes.cluster(&["drain", "n2"], 1);
    assert!(drained.status.success(), "{}", text_of(&drained.stderr));
    nodes.copy(3, &rows[1_000..2_000]);
    for number in 1..=4 {
        nodes.until(number, &state_of(2), "drained");
    }
    nodes.all_count(&rows[..2_000]);
    // Each row and brick is on two nodes, and none on the drained one.
    let bricks: std::collections::BTreeSet<u32> = rows[..2_000].iter().map(|row| brick_of(*row)).collect();
    for number in 1..=4 {
        nodes.until(number, SHARES, &format!("{} 4000 0", 2 * bricks.len()));
        nodes.until(
            number,
            "SELECT bricks::text || ' ' || rows::text FROM coeval_cluster_nodes WHERE node = 2",
            "0 0",
        );
    }
    let shown = text_of(&nodes.cluster(&["status"], 3).stdout);
    assert!(
        shown.starts_with("node ") && shown.lines().next().unwrap().ends_with("bricks  rows   to come"),
        "{shown}"
    );
    nodes.stop(2);
    nodes.copy(4, &rows[2_000..]);
    nodes.all_count(&rows);
    let removed = nodes.cluster(&["remove", "n2"], 1);
    assert!(removed.status.success(), "{}", text_of(&removed.stderr));
    for number in [1, 3, 4] {
        nodes.until(number, &state_of(2), "removed");
    }
    let refused = bounded::output(&mut nodes.node_command(2));
    assert_eq!(refused.status.code(), Some(1));
    assert!(text_of(&refused.stderr).contains("was removed"), "{}", text_of(&refused.stderr));
    nodes.all_count(&rows);
}

/// Two nodes with two replicas, of which the primary is lost for good. To break it: have `NextKeeper::begin_without` do as `begin` does. Nobody
/// is live any more then.
#[test]
fn one_of_two_nodes_goes_on_when_the_other_one_is_lost() {
    let rows: Vec<u32> = (0..600).collect();
    let mut nodes = Nodes::start_some(2);
    nodes.run(1, HITS);
    nodes.copy(1, &rows[..300]);
    nodes.all_count(&rows[..300]);
    nodes.kill(1);
    let too_soon = nodes.cluster(&["recover", "n1", "--accept-loss"], 2);
    assert!(!too_soon.status.success());
    assert!(text_of(&too_soon.stderr).contains("promote"), "{}", text_of(&too_soon.stderr));
    nodes.until(2, "SELECT pg_promote()", "t");
    let by_chance = nodes.cluster(&["recover", "n1"], 2);
    assert!(!by_chance.status.success());
    assert!(text_of(&by_chance.stderr).contains("--accept-loss"), "{}", text_of(&by_chance.stderr));
    let begun = Instant::now();
    loop {
        let recovered = nodes.cluster(&["recover", "n1", "--accept-loss"], 2);
        if recovered.status.success() {
            assert!(text_of(&recovered.stdout).contains("without node 1"), "{}", text_of(&recovered.stdout));
            break;
        }
        // The keeper has just begun to ask.
        assert!(begun.elapsed() < PATIENCE, "{}", text_of(&recovered.stderr));
        std::thread::sleep(Duration::from_millis(100));
    }
    nodes.all_live(1);
    nodes.until(2, &state_of(1), "removed");
    nodes.copy(2, &rows[300..]);
    nodes.all_count(&rows);
    // Its node ends as soon as it has heard the other one; its server goes on without.
    nodes.serve(1);
    let begun = Instant::now();
    loop {
        let asked = nodes.ask(1, "SELECT count(*) FROM hits");
        if asked.as_ref().is_err_and(|said| said.starts_with("57P03") && said.contains("was removed")) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{asked:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    nodes.kill(1);
    nodes.all_count(&rows);
}

/// What the program prints, which does what it is told.
#[track_caller]
fn printed(words: &[&str]) -> String {
    let output = bounded::output(Command::new(PROGRAM).args(words));
    assert!(output.status.success(), "{words:?}: {}", text_of(&output.stderr));
    text_of(&output.stdout)
}

/// Why the program does not do what it is told.
#[track_caller]
fn refused(words: &[&str]) -> String {
    let output = bounded::output(Command::new(PROGRAM).args(words));
    assert_eq!(output.status.code(), Some(1), "{words:?}: {}", text_of(&output.stdout));
    text_of(&output.stderr)
}

/// To break it: leave the rows of spread tables out of backups, take what one node has for all, or load what was restored at each start.
#[test]
fn a_cluster_whose_machines_are_all_lost_comes_back_from_a_backup() {
    let rows: Vec<u32> = (0..3_000).collect();
    let mut nodes = Nodes::start();
    let [first, second, third] = [1, 2, 3].map(|number| nodes.dir(number).to_str().unwrap().to_owned());
    let archive = nodes.parent.path().join("archive").to_str().unwrap().to_owned();
    let archive = archive.as_str();
    nodes.run(1, HITS);
    nodes.run(1, "CREATE TABLE words (word text)");
    // The other nodes hear of the table a moment later.
    nodes.all_count(&[]);
    nodes.copy(2, &rows[..2_000]);
    nodes.all_count(&rows[..2_000]);
    // Any node has them, or gets them from the others.
    let said = printed(&["backup", &third, archive]);
    assert!(said.contains("; 2,000 rows of spread tables, of which there are 1"), "{said}");
    nodes.insert(3, &rows[2_000..]);
    nodes.run(1, "INSERT INTO words VALUES ('kept')");
    nodes.all_count(&rows);
    let said = printed(&["backup", &first, archive]);
    assert!(said.contains("; 3,000 rows of spread tables"), "{said}");
    nodes.until(2, "SELECT word FROM words", "kept");
    let said = printed(&["backup", &second, archive]);
    assert!(said.contains("; 3,000 rows of spread tables"), "{said}");
    // Nobody has some of the rows now.
    nodes.kill(2);
    nodes.kill(3);
    let said = refused(&["backup", &first, archive]);
    assert!(said.contains("are not to be had"), "{said}");
    let said = printed(&["check", "--archive", archive]);
    assert_eq!(said.matches("rows of 1 spread tables").count(), 3, "{said}");
    nodes.kill(1);
    for dir in [&first, &second, &third] {
        std::fs::remove_dir_all(dir).unwrap();
    }
    let said = printed(&["restore", archive, &first]);
    for part in ["Rows of spread tables are as of", "hits (3,000)", "--cluster HOST:PORT"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    without_a_cluster(&first, archive);
    // Killed at any moment: before the rows are loaded, meanwhile, or behind that.
    for millis in [40, 120, 250, 450, 800] {
        let mut process = nodes.node_command(1).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        process.kill().unwrap();
        process.wait().unwrap();
    }
    nodes.serve(1);
    let said = |nodes: &Nodes| nodes.servers[0].as_ref().unwrap().said.lock().unwrap().clone();
    nodes.all_count(&rows);
    assert!(!nodes.dir(1).join("cluster").join("restored").join("rows").exists(), "{}", said(&nodes));
    nodes.until(1, "SELECT word FROM words", "kept");
    nodes.kill(1);
    nodes.serve(1);
    assert!(!said(&nodes).contains("Loading"), "{}", said(&nodes));
    nodes.all_count(&rows);
    // It is a cluster as any other.
    nodes.serve(2);
    nodes.serve(3);
    nodes.all_live(3);
    nodes.all_count(&rows);
    nodes.insert(2, &[3_000]);
    nodes.kill(3);
    nodes.all_count(&(0..=3_000).collect::<Vec<_>>());
    let said = printed(&["backup", &second, archive]);
    assert!(said.contains("; 3,001 rows of spread tables"), "{said}");
}

/// A directory whose rows of spread tables wait for a cluster: who does without one is told.
fn without_a_cluster(dir: &str, archive: &str) {
    let output = bounded::output(Command::new(PROGRAM).args(["sql", dir, "-c", "SELECT count(*) FROM hits"]));
    let said = text_of(&output.stderr);
    assert!(!output.status.success() && said.contains("--cluster"), "{said}");
    let said = refused(&["backup", dir, archive]);
    assert!(said.contains("the rows of hits are spread") && said.contains("--row-tables-alone"), "{said}");
    let said = printed(&["backup", dir, archive, "--row-tables-alone"]);
    assert!(said.contains("; without the rows of spread tables: hits"), "{said}");
}
