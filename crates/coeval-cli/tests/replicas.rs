// SPDX-License-Identifier: Apache-2.0
//! Replicas and archives as an operator runs them: copies that follow over the wire, kills, promotion; backups, restores.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/bounded.rs"]
mod bounded;
#[path = "replicas/chain.rs"]
mod chain;
#[path = "../../../tests/cloud_server.rs"]
mod cloud_server;
#[path = "replicas/clouds.rs"]
mod clouds;
#[path = "replicas/disk_full.rs"]
mod disk_full;
#[path = "replicas/encrypted.rs"]
mod encrypted;
#[path = "replicas/failover.rs"]
mod failover;
#[path = "replicas/feed.rs"]
mod feed;
#[path = "replicas/feed_arrow.rs"]
mod feed_arrow;
#[path = "replicas/from_archive.rs"]
mod from_archive;
#[path = "replicas/hanging.rs"]
mod hanging;
#[path = "replicas/kills.rs"]
mod kills;
#[path = "replicas/machines.rs"]
mod machines;
#[path = "replicas/network.rs"]
mod network;
#[path = "replicas/readers.rs"]
mod readers;
#[path = "replicas/rewinding.rs"]
mod rewinding;
#[path = "replicas/rewound_replica.rs"]
mod rewound_replica;
#[path = "replicas/rounds.rs"]
mod rounds;
#[path = "replicas/served_backup.rs"]
mod served_backup;
#[path = "../../../tests/skipping.rs"]
mod skipping;
#[path = "replicas/slots.rs"]
mod slots;
#[path = "replicas/waiting_commits.rs"]
mod waiting_commits;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, NoTls};

const PROGRAM: &str = env!("CARGO_BIN_EXE_coeval");
/// Longest wait for something that has to come.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a server may take until it listens: some make a copy before.
const START_PATIENCE: Duration = Duration::from_secs(240);
/// How long a statement may take: none of them waits for what does not come.
const STATEMENT_PATIENCE: Duration = Duration::from_secs(240);

/// A server, and what it says.
struct Server {
    process: Child,
    port: u16,
    said: Arc<Mutex<String>>,
}

impl Server {
    /// Starts one on a directory; it listens when this returns.
    fn start(dir: &Path, port: u16, options: &[&str]) -> Self {
        Self::start_in(&[], dir, port, options)
    }

    /// The same, with more variables of the environment.
    fn start_in(environment: &[(&str, String)], dir: &Path, port: u16, options: &[&str]) -> Self {
        let mut process = Command::new(PROGRAM)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .arg("serve")
            .arg(dir)
            .args(["--listen", &format!("127.0.0.1:{port}"), "--stop-seconds", "1"])
            .args(options)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(String::new()));
        let alarm = bounded::Alarm::set(&process, START_PATIENCE);
        let listens = lines.by_ref().map(Result::unwrap).find_map(|line| {
            *said.lock().unwrap() += &format!("{line}\n");
            line.strip_prefix("Listening on ").and_then(|address| address.rsplit_once(':')?.1.parse().ok())
        });
        drop(alarm);
        let kept = Arc::clone(&said);
        // It must not wait for somebody to read what it says.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                *kept.lock().unwrap() += &format!("{line}\n");
            }
        });
        let port = listens.unwrap_or_else(|| panic!("it does not listen: {}", said.lock().unwrap()));
        Self { process, port, said }
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Asks it to end, and waits.
    fn stop(mut self) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let status = bounded::status(&mut self.process, &format!("the server at {}", self.port));
        assert!(status.success(), "{status}: {}", self.said.lock().unwrap());
    }

    fn until_said(&self, what: &str) {
        let begun = Instant::now();
        while !self.said.lock().unwrap().contains(what) {
            assert!(begun.elapsed() < PATIENCE, "{what:?} is not said: {}", self.said.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection that statements are run over, one after the other.
struct Sql {
    runtime: Runtime,
    client: Client,
}

impl Sql {
    fn open(port: u16) -> Self {
        Self::open_as(port, "coeval", None).unwrap()
    }

    fn open_as(port: u16, user: &str, password: Option<&str>) -> Result<Self, tokio_postgres::Error> {
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).user(user).dbname("coeval");
        password.map(|password| config.password(password));
        Self::open_with(&config)
    }

    /// The SQLSTATE that a connection with these options ends with before its first statement.
    fn refused_at_opening(port: u16, options: &str) -> String {
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).user("coeval").dbname("coeval").options(options);
        Self::open_with(&config).err().expect("it was let in").code().unwrap().code().to_owned()
    }

    fn open_with(config: &Config) -> Result<Self, tokio_postgres::Error> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (client, connection) = runtime.block_on(config.connect(NoTls))?;
        // How it ends is told by the statements.
        runtime.spawn(async move { drop(connection.await) });
        Ok(Self { runtime, client })
    }

    #[track_caller]
    fn run(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.outcome(sql, self.client.batch_execute(sql))
    }

    /// What a statement comes to, which has to end.
    #[track_caller]
    fn outcome<T>(&self, sql: &str, running: impl Future<Output = T>) -> T {
        let ended = self.runtime.block_on(async { tokio::time::timeout(STATEMENT_PATIENCE, running).await });
        ended.unwrap_or_else(|_| panic!("it has not ended within {STATEMENT_PATIENCE:?}: {sql}"))
    }

    /// The first column of the first row, as text.
    fn value(&self, sql: &str) -> Result<Option<String>, tokio_postgres::Error> {
        let messages = self.outcome(sql, self.client.simple_query(sql))?;
        Ok(messages
            .iter()
            .find_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => Some(row.get(0).map(str::to_owned)),
                _ => None,
            })
            .flatten())
    }

    fn refused(&self, sql: &str) -> String {
        self.run(sql).unwrap_err().code().unwrap().code().to_owned()
    }
}

/// Waits until a replica has everything that is durable on its primary, and shows it as safe.
fn wait_for(replica: &Sql, primary: &Sql) {
    let wanted = primary.value("SELECT pg_current_wal_flush_lsn()").unwrap().unwrap();
    let begun = Instant::now();
    loop {
        // Without a safe snapshot yet, it refuses what is to be serializable.
        let has = match replica.value("SELECT pg_last_wal_replay_lsn()") {
            Ok(place) => place.unwrap(),
            Err(error) => error.code().unwrap().code().to_owned(),
        };
        if has.contains('/') && place(&has) >= place(&wanted) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "the replica is at {has}, the primary at {wanted}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn place(text: &str) -> u64 {
    coeval::Lsn::from_wal_text(text).unwrap().get()
}

fn replica_of(primary: &Server) -> String {
    format!("host=127.0.0.1,port={},user=coeval", primary.port)
}

/// Waits until a query gives this on a replica, in a safe snapshot.
fn until_it_reads(replica: &Sql, sql: &str, wanted: &str) {
    let begun = Instant::now();
    loop {
        let found = replica.value(sql);
        if matches!(&found, Ok(Some(found)) if found == wanted) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{sql} gives {found:?}, not {wanted}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn check(dir: &Path) {
    let checked = bounded::output(Command::new(PROGRAM).arg("check").arg(dir));
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

fn directories() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let (primary, copy) = (parent.path().join("primary"), parent.path().join("copy"));
    (parent, primary, copy)
}

const SUM: &str =
    "SELECT count(*) || ' rows, ' || coalesce(sum(amount), 0) || ', ' || coalesce(max(word), '') FROM items";

#[test]
fn a_replica_has_what_its_primary_has_and_is_promoted() {
    let (_parent, primary_dir, copy_dir) = directories();
    let primary = Server::start(&primary_dir, 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run(
        "CREATE TABLE items (id bigint PRIMARY KEY, amount bigint NOT NULL, word text);
         INSERT INTO items SELECT g, g * 7 % 1000, 'word ' || g FROM generate_series(1, 20000) g;
         CREATE INDEX items_amount ON items (amount);
         CREATE TABLE events (day int, amount bigint, kind text) USING brick PARTITION BY (day CARDINALITY 64 RANGE SIZE 8);
         INSERT INTO events SELECT g % 64, g, 'kind ' || g % 5 FROM generate_series(1, 5000) g;
         CREATE SEQUENCE numbers;
         SELECT nextval('numbers');
         CREATE VIEW large AS SELECT * FROM items WHERE amount > 900;
         CREATE TYPE mood AS ENUM ('sad', 'glad');",
    )
    .unwrap();
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_of(&primary)]);
    let copy = Sql::open(replica.port);
    wait_for(&copy, &sql);
    until_it_reads(&copy, SUM, &sql.value(SUM).unwrap().unwrap());

    it_says_what_it_is_and_takes_no_writes(&copy, &sql);
    what_comes_later_comes_there(&copy, &sql);
    drop(copy);
    replica.kill();
    sql.run("INSERT INTO items VALUES (-1, 1, 'while it was away', NULL)").unwrap();
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_of(&primary)]);
    let copy = Sql::open(replica.port);
    until_it_reads(&copy, "SELECT word FROM items WHERE id = -1", "while it was away");
    let port = primary.port;
    drop(sql);
    primary.kill();
    assert_eq!(
        copy.value("SELECT count(*) FROM feelings").unwrap().unwrap(),
        "1",
        "it is read without its primary"
    );
    let primary = Server::start(&primary_dir, port, &[]);
    let sql = Sql::open(primary.port);
    sql.run("INSERT INTO items VALUES (-2, 1, 'in a new term', NULL)").unwrap();
    until_it_reads(&copy, "SELECT word FROM items WHERE id = -2", "in a new term");
    let wanted = sql.value(SUM).unwrap().unwrap();
    drop((copy, sql));
    replica.stop();
    primary.stop();
    it_is_promoted(&primary_dir, &copy_dir, &wanted);
}

fn it_says_what_it_is_and_takes_no_writes(copy: &Sql, sql: &Sql) {
    assert_eq!(copy.value("SELECT pg_is_in_recovery()").unwrap().unwrap(), "t");
    assert_eq!(copy.value("SHOW in_hot_standby").unwrap().unwrap(), "on");
    assert_eq!(copy.value("SHOW transaction_read_only").unwrap().unwrap(), "on");
    assert_eq!(sql.value("SELECT pg_is_in_recovery()").unwrap().unwrap(), "f");
    for (refused, state) in [
        ("INSERT INTO items VALUES (0, 0, '')", "25006"),
        ("DELETE FROM items WHERE id = 1", "25006"),
        ("CREATE TABLE t (a int)", "25006"),
        ("INSERT INTO events VALUES (1, 1, '')", "25006"),
        ("SELECT nextval('numbers')", "25006"),
        ("SELECT * FROM items WHERE id = 1 FOR UPDATE", "25006"),
        ("TRUNCATE items", "25006"),
        ("BEGIN READ WRITE", "0A000"),
        ("SELECT pg_promote(true, 0)", "22003"),
    ] {
        assert_eq!(copy.refused(refused), state, "{refused}");
        copy.run("ROLLBACK").unwrap();
    }
    assert_eq!(copy.value("SELECT pg_promote(NULL)").unwrap(), None, "nothing is promoted");
    let shown = "SELECT application_name || ' ' || (replay_lsn IS NOT NULL) FROM pg_stat_replication";
    until_it_reads(sql, shown, "coeval-replica true");
}

/// Rows, loads, definitions, deletes of bricks, at every level.
fn what_comes_later_comes_there(copy: &Sql, sql: &Sql) {
    sql.run(
        "UPDATE items SET amount = amount + 1 WHERE id <= 100;
         DELETE FROM items WHERE id > 19000;
         ALTER TABLE items ADD COLUMN note text DEFAULT 'none';
         INSERT INTO items SELECT g, 5, 'late', 'x' FROM generate_series(100000, 130000) g;
         DELETE FROM events WHERE day < 8;
         INSERT INTO events SELECT g % 64, g, 'new' FROM generate_series(1, 100) g;
         CREATE INDEX items_word ON items (word);
         CREATE TABLE feelings (id int PRIMARY KEY, m mood);
         INSERT INTO feelings VALUES (1, 'glad');
         CHECKPOINT;",
    )
    .unwrap();
    wait_for(copy, sql);
    for query in [
        SUM,
        "SELECT count(*) || ' ' || sum(amount) || ' ' || count(DISTINCT kind) FROM events",
        "SELECT count(*) FROM large",
        "SELECT id FROM items WHERE word = 'word 77'",
        "SELECT count(*) FROM items WHERE amount = 5",
        "SELECT m FROM feelings",
        "SELECT max(note) FROM items",
    ] {
        let wanted = sql.value(query).unwrap().unwrap();
        until_it_reads(copy, query, &wanted);
        for level in ["REPEATABLE READ", "READ COMMITTED", "SERIALIZABLE"] {
            copy.run(&format!("BEGIN ISOLATION LEVEL {level}")).unwrap();
            assert_eq!(copy.value(query).unwrap().unwrap(), wanted, "{query} at {level}");
            copy.run("COMMIT").unwrap();
        }
    }
}

/// Neither directory is taken for what it is not; the copy becomes a database of its own.
fn it_is_promoted(primary_dir: &Path, copy_dir: &Path, wanted: &str) {
    let opened = bounded::output(Command::new(PROGRAM).args(["sql", "-c", "SELECT 1"]).arg(copy_dir));
    assert!(String::from_utf8_lossy(&opened.stderr).contains("holds a replica"), "{opened:?}");
    check(copy_dir);
    check(primary_dir);

    let promoted = bounded::output(Command::new(PROGRAM).arg("promote").arg(copy_dir));
    assert!(promoted.status.success(), "{promoted:?}");
    let promoted = Server::start(copy_dir, 0, &[]);
    let sql = Sql::open(promoted.port);
    assert_eq!(sql.value(SUM).unwrap().unwrap(), wanted);
    sql.run("INSERT INTO items VALUES (-3, 1, 'promoted', NULL)").unwrap();
    assert!(sql.value("SELECT nextval('numbers')").unwrap().unwrap().parse::<i64>().unwrap() > 1);
    // The former primary has not gone on: it may follow the new one from where it is, if it is told that it is a replica. As a
    // primary of its own it has another history once it has written.
    let primary = Server::start(primary_dir, 0, &[]);
    Sql::open(primary.port).run("INSERT INTO items VALUES (-4, 1, 'astray', NULL)").unwrap();
    drop(sql);
    promoted.stop();
    check(copy_dir);
}

#[test]
fn who_may_not_follow_is_told_why() {
    let (_parent, primary_dir, copy_dir) = directories();
    let secret = primary_dir.with_file_name("secret");
    std::fs::write(&secret, "right\n").unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&secret, private).unwrap();
    let options = ["--user", "admin", "--password-file", secret.to_str().unwrap()];
    let primary = Server::start(&primary_dir, 0, &options);
    let sql = Sql::open_as(primary.port, "admin", Some("right")).unwrap();
    sql.run(
        "CREATE ROLE plain LOGIN PASSWORD 'plain'; CREATE ROLE copier LOGIN REPLICATION PASSWORD 'copier'",
    )
    .unwrap();
    let try_as = |user: &str, password: &str| {
        let address = format!("host=127.0.0.1,port={},user={user},password={password}", primary.port);
        let mut trying = Command::new(PROGRAM);
        trying.arg("serve").arg(&copy_dir).args(["--listen", "127.0.0.1:0", "--replica-of", &address]);
        let tried = bounded::output(&mut trying);
        assert!(!tried.status.success());
        String::from_utf8_lossy(&tried.stderr).into_owned()
    };
    assert!(try_as("plain", "plain").contains("must be superuser or replication role"));
    assert!(try_as("copier", "wrong").contains("password authentication failed"));
    assert!(try_as("nobody", "x").contains("password authentication failed"));
    let address = format!("host=127.0.0.1,port={},user=copier,password=copier", primary.port);
    let replica = Server::start(
        &copy_dir,
        0,
        &["--replica-of", &address, "--user", "admin", "--password-file", secret.to_str().unwrap()],
    );
    replica.until_said("the replica follows");
    // Its roles are the primary's.
    Sql::open_as(replica.port, "plain", Some("plain")).unwrap();
    drop(sql);
    replica.stop();
    primary.stop();

    // Another database is not followed; what is there can be read.
    let other = Server::start(&primary_dir.with_file_name("other"), 0, &[]);
    Sql::open(other.port).run("CREATE TABLE t (a int)").unwrap();
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_of(&other)]);
    replica.until_said("the primary has database");
    assert_eq!(
        Sql::open(replica.port)
            .value("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
            .unwrap()
            .unwrap(),
        "0"
    );
}

/// What `coeval check --replica --against` says; whether it found nothing.
fn compared(replica: &Server, primary: &Server) -> (bool, String) {
    let words = |server: &Server| format!("host=127.0.0.1,port={},user=coeval", server.port);
    let arguments = ["check", "--replica", &words(replica), "--against", &words(primary)];
    let compared = bounded::output(Command::new(PROGRAM).args(arguments));
    let said = [compared.stdout, compared.stderr].concat();
    (compared.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// A replica under load has what its primary has; one that was changed beside its primary's back has not.
#[test]
fn a_replica_is_compared_with_its_primary() {
    let (_parent, primary_dir, copy_dir) = directories();
    let primary = Server::start(&primary_dir, 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run(
        "CREATE TABLE t (n int PRIMARY KEY, word text);
         INSERT INTO t SELECT g, 'word ' || g FROM generate_series(1, 20000) g;
         CREATE TABLE keyless (a int, b text);
         INSERT INTO keyless SELECT g % 7, 'x' FROM generate_series(1, 100) g;
         CREATE VIEW v AS SELECT word FROM t WHERE n < 10;
         CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE SEQUENCE numbers; SELECT nextval('numbers');
         CREATE ROLE reader; CREATE ROLE writer; GRANT reader TO writer; GRANT SELECT ON t TO reader",
    )
    .unwrap();
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_of(&primary)]);
    let copy = Sql::open(replica.port);
    wait_for(&copy, &sql);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let writer = Sql::open(primary.port);
            for n in 1.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                writer
                    .run(&format!(
                        "UPDATE t SET word = 'changed {n}' WHERE n = {}; SELECT nextval('numbers')",
                        n % 20_000 + 1
                    ))
                    .unwrap();
            }
        });
        let (is_equal, said) = compared(&replica, &primary);
        stop.store(true, Ordering::Relaxed);
        assert!(is_equal && said.contains("2 tables, 20,100 rows compared"), "{said}");
    });
    assert_eq!(copy.value("SELECT pg_is_wal_replay_paused()").unwrap().unwrap(), "f");
    wait_for(&copy, &sql);
    drop(copy);
    replica.stop();
    // One commit on each side, and the copy is a replica again.
    run(&["promote", copy_dir.to_str().unwrap()]);
    run(&["sql", copy_dir.to_str().unwrap(), "-c", "UPDATE t SET word = 'mine' WHERE n = 17"]);
    sql.run(
        "UPDATE t SET word = 'yours' WHERE n = 18; SELECT setval('numbers', 1000000); ALTER TYPE mood ADD VALUE 'calm';
         REVOKE reader FROM writer; GRANT INSERT ON t TO writer; CREATE SEQUENCE more; ALTER ROLE reader CREATEDB;
         GRANT CREATE ON SCHEMA public TO reader",
    )
    .unwrap();
    std::fs::write(copy_dir.join("follower"), "").unwrap();
    std::fs::remove_file(copy_dir.join("promise")).unwrap();
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_of(&primary)]);
    replica.until_said("does not follow any more");
    let (is_equal, said) = compared(&replica, &primary);
    assert!(!is_equal && said.contains("differs: public.t: 2 rows") && said.contains("17\tmine"), "{said}");
    for what in [
        "types: the primary alone has public.mood 'sad' 'glad' 'calm'",
        "sequences: public.numbers: the primary has given 1000000, and the replica stands at ",
        "sequences: the primary alone has public.more",
        "memberships: the replica alone has reader to writer",
        "owners and grants: the primary alone has public.t ",
        "schemas: the primary alone has public ",
        "roles: the primary alone has reader ",
    ] {
        assert!(said.contains(what), "{what}: {said}");
    }
}

/// Behind a failover the new primary has no slot of this name, and one that was let go of keeps nothing.
#[test]
fn a_slot_is_made_where_there_is_none_or_it_was_let_go_of() {
    let (_parent, primary_dir, copy_dir) = directories();
    let primary = Server::start(&primary_dir, 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE t (id int PRIMARY KEY, filling text); SET max_slot_wal_keep_size = '1MB'").unwrap();
    let follow =
        || Server::start(&copy_dir, 0, &["--replica-of", &format!("{},slot=west", replica_of(&primary))]);
    let slot = "SELECT wal_status || ' ' || active FROM pg_replication_slots WHERE slot_name = 'west'";
    let follows = |rows: &str| {
        let copy = follow();
        until_it_reads(&Sql::open(copy.port), "SELECT count(*) FROM t", rows);
        // It keeps from where the replica was, until it hears that the replica has more.
        until_it_reads(&sql, slot, "reserved true");
        copy.stop();
        // The primary hears of that a moment later.
        until_it_reads(&sql, slot, "reserved false");
    };
    follows("0");
    sql.run("SELECT pg_drop_replication_slot('west'); INSERT INTO t VALUES (1)").unwrap();
    follows("1");
    // So much that the slot lets go, and less than wal_keep_size keeps for everybody.
    for first in [2, 102] {
        let rows = format!("generate_series({first}, {first} + 99) AS g");
        sql.run(&format!("INSERT INTO t SELECT g, repeat(md5(g::text), 1000) FROM {rows}; CHECKPOINT"))
            .unwrap();
    }
    assert_eq!(sql.value(slot).unwrap().unwrap(), "lost false");
    follows("201");
    primary.stop();
}

fn replica_named(primary: &Server, name: &str) -> String {
    format!("{},application_name={name}", replica_of(primary))
}

/// A connection that may write, as soon as somebody gives one on this port.
fn until_writable(port: u16) -> Sql {
    let begun = Instant::now();
    loop {
        if let Ok(sql) = Sql::open_as(port, "coeval", None)
            && sql.value("SHOW in_hot_standby").is_ok_and(|text| text.as_deref() == Some("off"))
        {
            return sql;
        }
        assert!(begun.elapsed() < PATIENCE, "nobody takes writes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn run(arguments: &[&str]) -> String {
    let ended = bounded::output(Command::new(PROGRAM).args(arguments));
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&ended.stderr));
    said
}

#[test]
fn a_lost_machine_comes_back_from_its_archive() {
    let (parent, dir, _) = directories();
    let archive = parent.path().join("archive");
    let archive = archive.to_str().unwrap();
    let server = Server::start(&dir, 0, &["--archive", archive, "--archive-timeout", "0.2"]);
    let sql = Sql::open(server.port);
    sql.run(
        "CREATE TABLE items (id int PRIMARY KEY, word text);
         INSERT INTO items SELECT g, 'first' FROM generate_series(1, 10000) g",
    )
    .unwrap();
    let first = sql.value("SELECT pg_current_wal_flush_lsn()").unwrap().unwrap();
    sql.run("UPDATE items SET word = 'second' WHERE id <= 10; DROP TABLE items").unwrap();
    sql.run("CREATE TABLE last_words (w text); INSERT INTO last_words VALUES ('goodbye')").unwrap();
    drop(sql);
    // A first backup that is not complete when the server stops is none.
    server.until_said("a backup was made");
    // What waits is sent when it stops.
    server.stop();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(run(&["check", "--archive", archive]).contains("1 backups"));

    let restored = |name: &str, options: &[&str]| {
        let to = parent.path().join(name);
        let to = to.to_str().unwrap();
        let said = run(&[&["restore", archive, to], options].concat());
        assert!(said.contains("It is of the history that ends with term "), "{said}");
        run(&["check", to]);
        let to = to.to_owned();
        move |query: &str| run(&["sql", &to, "-c", query])
    };
    let latest = restored("latest", &[]);
    assert!(latest("SELECT w FROM last_words").contains("goodbye"));
    let before = restored("before", &["--to-lsn", &first]);
    assert!(before("SELECT count(*) || ' ' || min(word) FROM items").contains("10000 first"));
    let never = parent.path().join("never");
    let arguments = ["restore", archive, never.to_str().unwrap(), "--to", "2101-01-01 00:00"];
    let tried = bounded::output(Command::new(PROGRAM).args(arguments));
    assert!(String::from_utf8_lossy(&tried.stderr).contains("is not in the archive"), "{tried:?}");
    // A restored database is backed up to the same place, in a history of its own.
    let to = parent.path().join("latest");
    run(&["backup", to.to_str().unwrap(), archive]);
    assert!(run(&["check", "--archive", archive]).contains("2 backups"));
    // An archive of backups alone does not grow for ever.
    run(&["sql", to.to_str().unwrap(), "-c", "CREATE TABLE later (a int)"]);
    let said = run(&["backup", to.to_str().unwrap(), archive, "--keep-backups", "2"]);
    assert!(said.contains("2 backups kept; removed: 1 backups"), "{said}");
    assert!(run(&["check", "--archive", archive]).contains("2 backups"));
    assert!(restored("kept", &[])("SELECT count(*) FROM later").contains('0'));
}
