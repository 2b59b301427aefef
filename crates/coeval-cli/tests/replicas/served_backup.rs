// SPDX-License-Identifier: Apache-2.0
//! `coeval backup` of a directory that a server has open, and of one that a killed server had.

use super::{PROGRAM, Server, Sql, bounded, check, directories, replica_of, run, wait_for};
use coeval::Database;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::channel;

fn backup(dir: &Path, archive: &Path, options: &[&str]) -> Output {
    bounded::output(Command::new(PROGRAM).arg("backup").args([dir, archive]).args(options))
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What is said by a backup that is refused.
fn stderr(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn bytes_sent(said: &str) -> u64 {
    let before = said.split(" bytes sent").next().unwrap();
    before.rsplit(' ').next().unwrap().replace(',', "").parse().unwrap()
}

/// What a query gives of an archive's newest.
fn restored(archive: &Path, to: &Path, query: &str) -> String {
    let (archive, to) = (archive.to_str().unwrap(), to.to_str().unwrap());
    run(&["restore", archive, to]);
    assert!(!Path::new(to).join("served").exists(), "who listens is of no concern to an archive");
    check(Path::new(to));
    run(&["sql", to, "-c", query])
}

#[test]
fn a_served_database_is_backed_up_while_it_is_written_to() {
    let (parent, dir, _) = directories();
    let archive = parent.path().join("archive");
    let server = Server::start(&dir, 0, &[]);
    let mode = std::fs::metadata(dir.join("served")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let sql = Sql::open(server.port);
    sql.run(
        "CREATE TABLE items (id bigint PRIMARY KEY, word text);
         CREATE TABLE large (id bigint PRIMARY KEY, word text);
         INSERT INTO large SELECT g, md5(g::text) || md5((-g)::text) FROM generate_series(1, 50000) g",
    )
    .unwrap();
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicI64::new(0));
    let (wrote, written) = channel();
    let (before, first) = std::thread::scope(|scope| {
        let (stop, acknowledged, server) = (&stop, &acknowledged, &server);
        scope.spawn(move || {
            let writer = Sql::open(server.port);
            for n in 1.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                writer.run(&format!("INSERT INTO items VALUES ({n}, 'meanwhile')")).unwrap();
                acknowledged.store(n, Ordering::Release);
                if n == 10 {
                    wrote.send(()).unwrap();
                }
            }
        });
        written.recv().unwrap();
        let before = acknowledged.load(Ordering::Acquire);
        // As it is typed: neither path says where it begins, and the server works in another directory.
        let mut command = Command::new(PROGRAM);
        command.current_dir(parent.path()).args(["backup", "primary", "archive"]);
        let first = bounded::output(&mut command);
        stop.store(true, Ordering::Relaxed);
        (before, first)
    });
    let said = stdout(&first);
    assert!(said.contains(" files of ") && said.contains("; up to LSN "), "{said}");
    let all = format!("SELECT 'all: ' || (count(*) = {before}) FROM items WHERE id <= {before}");
    assert!(restored(&archive, &parent.path().join("first"), &all).contains("all: true"));

    sql.run("INSERT INTO items VALUES (-1, 'later')").unwrap();
    let again = stdout(&backup(&dir, &archive, &[]));
    assert!(bytes_sent(&again) < bytes_sent(&said) / 2, "{again} behind {said}");
    let later = "SELECT word FROM items WHERE id = -1";
    assert!(restored(&archive, &parent.path().join("second"), later).contains("later"));
    sql.run("INSERT INTO items VALUES (-2, 'the last')").unwrap();
    let kept = stdout(&backup(&dir, &archive, &["--keep-backups", "1"]));
    assert!(kept.contains("1 backups kept; removed: 2 backups"), "{kept}");
    assert!(run(&["check", "--archive", archive.to_str().unwrap()]).contains("1 backups"));
    drop(sql);
    server.stop();
    assert!(!dir.join("served").exists());
    check(&dir);
}

/// It was waited for without an end, and without a pause: what has the backup waits for nobody. And the backup had what waits, so that a replica
/// of the archive showed what its primary does not.
#[test]
fn a_backup_does_not_wait_for_a_replica_that_is_away() {
    let (parent, dir, _) = directories();
    let archive = parent.path().join("archive");
    let server = Server::start(&dir, 0, &["--synchronous-standby-names", "nobody"]);
    let sql = Sql::open(server.port);
    sql.run("SET synchronous_commit = local; CREATE TABLE items (id int PRIMARY KEY, word text)").unwrap();
    sql.run("INSERT INTO items VALUES (1, 'acknowledged')").unwrap();
    let waiting = Sql::open(server.port);
    waiting.run("SET statement_timeout = '200ms'").unwrap();
    assert_eq!(waiting.refused("INSERT INTO items VALUES (2, 'nobody has it')"), "08007");
    stdout(&backup(&dir, &archive, &[]));
    let query = "SELECT string_agg(word, ', ') || ' of ' || count(*) FROM items";
    let said = restored(&archive, &parent.path().join("restored"), query);
    assert!(said.contains("acknowledged of 1"), "{said}");
    // Who restores it is told why nobody but superusers is let in.
    let again = parent.path().join("again");
    let said = run(&["restore", archive.to_str().unwrap(), again.to_str().unwrap()]);
    assert!(said.contains("nobody. Without them none is acknowledged"), "{said}");
}

#[test]
fn a_backup_is_for_superusers_who_say_what_they_mean() {
    let (parent, dir, copy_dir) = directories();
    let archive = parent.path().join("archive");
    let server = Server::start(&dir, 0, &[]);
    let sql = Sql::open(server.port);
    sql.run("CREATE ROLE clerk LOGIN; CREATE TABLE items (id int)").unwrap();
    let call = format!("SELECT coeval_backup('{}')", archive.display());
    let clerk = Sql::open_as(server.port, "clerk", None).unwrap();
    assert_eq!(clerk.refused(&call), "42501");
    let said = stderr(&backup(&dir, &archive, &["--user", "clerk"]));
    for part in ["permission denied for function coeval_backup", "is asked as clerk", call.as_str()] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!archive.exists());
    assert_eq!(sql.refused("SELECT coeval_backup('archive')"), "22023");
    let elsewhere = format!("SELECT coeval_backup('{}', '/elsewhere')", archive.display());
    assert_eq!(sql.refused(&elsewhere), "55000");
    assert_eq!(sql.value("SELECT coeval_backup(NULL)").unwrap(), None);
    assert!(!archive.exists());
    assert!(sql.value(&call).unwrap().unwrap().contains(" bytes sent, "));

    let another = Server::start(&parent.path().join("another"), 0, &[]);
    assert_eq!(Sql::open(another.port).refused(&call), "55000", "each needs an archive of its own");
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_of(&server)]);
    let copy = Sql::open(replica.port);
    wait_for(&copy, &sql);
    assert!(copy.value(&call).unwrap().unwrap().contains(" bytes sent, "));
}

/// Only the primary made backups.
#[test]
fn a_replica_makes_backups_of_what_it_has() {
    let (parent, dir, copy_dir) = directories();
    let archive = parent.path().join("archive");
    let server = Server::start(&dir, 0, &[]);
    let sql = Sql::open(server.port);
    sql.run("CREATE TABLE items (id bigint PRIMARY KEY, word text)").unwrap();
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_of(&server)]);
    let copy = Sql::open(replica.port);
    let count = "SELECT 'rows: ' || count(*) FROM items";
    for round in 1..=2 {
        sql.run(&format!(
            "INSERT INTO items SELECT g, 'row' FROM generate_series({round} * 1000, {round} * 1000 + 99) g"
        ))
        .unwrap();
        wait_for(&copy, &sql);
        stdout(&backup(&copy_dir, &archive, &[]));
        let found = restored(&archive, &parent.path().join(format!("of replica {round}")), count);
        assert!(found.contains(&format!("rows: {}", round * 100)), "{found}");
    }
    // Backups of the primary are of the same history, and what is there is not sent again.
    sql.run("INSERT INTO items VALUES (1, 'later')").unwrap();
    stdout(&backup(&dir, &archive, &[]));
    assert!(restored(&archive, &parent.path().join("of primary"), count).contains("rows: 201"));
    wait_for(&copy, &sql);
    drop(copy);
    replica.stop();
    stdout(&backup(&copy_dir, &archive, &[]));
    assert!(restored(&archive, &parent.path().join("of closed replica"), count).contains("rows: 201"));
    let checked = run(&["check", "--archive", archive.to_str().unwrap()]);
    assert!(!checked.contains("problem"), "{checked}");
}

/// It held all that came while the storage took the backup.
#[test]
fn a_backup_holds_no_more_log_than_a_slot_may() {
    let (parent, dir, _) = directories();
    let archive = parent.path().join("archive");
    let server = Server::start(&dir, 0, &[]);
    let sql = Sql::open(server.port);
    sql.run("CREATE TABLE items (id bigint PRIMARY KEY, word text)").unwrap();
    sql.run("INSERT INTO items SELECT g, md5(g::text) FROM generate_series(1, 50000) g").unwrap();
    sql.run("SET max_slot_wal_keep_size = 0").unwrap();
    let stop = AtomicBool::new(false);
    let (wrote, written) = channel();
    let said = std::thread::scope(|scope| {
        let (stop, server) = (&stop, &server);
        scope.spawn(move || {
            let writer = Sql::open(server.port);
            for n in 100_000.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                writer.run(&format!("INSERT INTO items VALUES ({n}, 'meanwhile')")).unwrap();
                if n == 100_010 {
                    wrote.send(()).unwrap();
                }
            }
        });
        written.recv().unwrap();
        let refused = backup(&dir, &archive, &[]);
        stop.store(true, Ordering::Relaxed);
        stderr(&refused)
    });
    assert!(said.contains("the backup was given up") && said.contains("max_slot_wal_keep_size"), "{said}");
    sql.run("RESET max_slot_wal_keep_size").unwrap();
    stdout(&backup(&dir, &archive, &[]));
}

#[test]
fn a_backup_is_asked_for_with_the_password_of_the_servers_user() {
    let (parent, dir, _) = directories();
    let (archive, secret) = (parent.path().join("archive"), parent.path().join("secret"));
    std::fs::write(&secret, "right\n").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let password = ["--password-file", secret.to_str().unwrap()];
    let server = Server::start(&dir, 0, &[&["--user", "admin"][..], &password].concat());
    let said = stderr(&backup(&dir, &archive, &[]));
    for part in ["is asked as admin", "--password-file", "SELECT coeval_backup('"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    stdout(&backup(&dir, &archive, &password));
    let way = format!("host=127.0.0.1,port={},user=admin,password=right", server.port);
    stdout(&backup(&dir, &archive, &["--server", &way]));
}

#[test]
fn what_a_killed_server_has_left_is_in_nobodys_way() {
    let (parent, dir, _) = directories();
    let archive = parent.path().join("archive");
    let server = Server::start(&dir, 0, &[]);
    Sql::open(server.port).run("CREATE TABLE items (id int); INSERT INTO items VALUES (7)").unwrap();
    server.kill();
    assert!(dir.join("served").exists());
    // Somebody has it open who is no server: the address is not his.
    let database = Database::open(&dir).unwrap();
    let said = stderr(&backup(&dir, &archive, &[]));
    assert!(said.contains("is in use by") && said.contains("does not say that it listens"), "{said}");
    drop(database);
    check(&dir);
    stdout(&backup(&dir, &archive, &[]));
    assert!(!dir.join("served").exists());
    let found = restored(&archive, &parent.path().join("restored"), "SELECT id FROM items");
    assert!(found.contains('7'), "{found}");
}
