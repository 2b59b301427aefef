// SPDX-License-Identifier: Apache-2.0
//! A primary is lost with commits that one of its replicas had, and another one is promoted that had not. The replica that has more,
//! and one that follows that, are cut back and follow, without a copy.

use super::*;
use std::net::TcpListener;

/// What was committed behind the parting.
const LOST: &str = "only one replica has this";

/// The server of a replica that was promoted, and two that have followed the lost primary further.
struct Parted {
    parent: tempfile::TempDir,
    promoted: Server,
    sql: Sql,
    /// Follows the lost primary, and knows the promoted one.
    middle: Server,
    /// Follows that one.
    last: Server,
}

impl Parted {
    fn begin() -> Self {
        let (parent, primary_dir, copy_dir) = directories();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let peer = format!("name=copy,host=127.0.0.1,port={port},user=coeval");
        let primary = Server::start(&primary_dir, 0, &[]);
        let of_primary = replica_of(&primary);
        let sql = Sql::open(primary.port);
        sql.run(
            "CREATE TABLE items (id bigint PRIMARY KEY, amount bigint NOT NULL, word text);
             INSERT INTO items SELECT g, g * 7 % 1000, 'word ' || g FROM generate_series(1, 20000) g;
             CREATE SEQUENCE numbers; SELECT nextval('numbers')",
        )
        .unwrap();
        let copy = Server::start(&copy_dir, port, &["--replica-of", &of_primary]);
        let middle_options = ["--name", "middle", "--replica-of", &of_primary, "--peer", &peer];
        let middle = Server::start(&parent.path().join("middle"), 0, &middle_options);
        let last = Server::start(&parent.path().join("last"), 0, &["--replica-of", &replica_of(&middle)]);
        for replica in [&copy, &middle, &last] {
            wait_for(&Sql::open(replica.port), &sql);
        }
        copy.stop();
        sql.run(&format!("INSERT INTO items VALUES (-1, 0, '{LOST}'); SELECT nextval('numbers')")).unwrap();
        sql.run("INSERT INTO items SELECT g, 1, 'loaded' FROM generate_series(100001, 110000) g").unwrap();
        sql.run("CREATE TABLE lost (n int)").unwrap();
        for replica in [&middle, &last] {
            wait_for(&Sql::open(replica.port), &sql);
        }
        // Somebody reads what is going to be lost.
        let reader = Sql::open(middle.port);
        until_it_reads(&reader, "SELECT word FROM items WHERE id = -1", LOST);
        drop(sql);
        primary.kill();
        run(&["promote", copy_dir.to_str().unwrap()]);
        let promoted = Server::start(&copy_dir, port, &["--name", "copy"]);
        let sql = until_writable(promoted.port);
        sql.run("INSERT INTO items VALUES (-1, 5, 'in the new history'); SELECT nextval('numbers')").unwrap();
        middle.until_said("its log is cut back to LSN ");
        let refused = reader.run("SELECT word FROM items WHERE id = -1");
        assert!(refused.is_err(), "a session that has read it has ended");
        Self { parent, promoted, sql, middle, last }
    }

    /// It has what the promoted one has, and none of what was lost.
    fn check(&self, replica: &Server) {
        let wanted = self.sql.value(SUM).unwrap().unwrap();
        until_it_is_served_and_reads(replica, SUM, &wanted);
        let copy = Sql::open(replica.port);
        let query = "SELECT word FROM items WHERE id = -1";
        assert_eq!(copy.value(query).unwrap().unwrap(), "in the new history");
        assert_eq!(copy.refused("SELECT * FROM lost"), "42P01");
        let (is_equal, said) = compared(replica, &self.promoted);
        assert!(is_equal, "{said}");
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.parent.path().join(name)
    }
}

/// Waits until a query gives this on a replica that may be on its way from one run to the next, and takes no connections then.
fn until_it_is_served_and_reads(replica: &Server, query: &str, wanted: &str) {
    let begun = Instant::now();
    loop {
        let found = Sql::open_as(replica.port, "coeval", None).and_then(|sql| sql.value(query));
        if matches!(&found, Ok(Some(found)) if found == wanted) {
            return;
        }
        let said = replica.said.lock().unwrap().clone();
        assert!(begun.elapsed() < PATIENCE, "{query} gives {found:?}, not {wanted}: {said}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The one directory in `rewound`, which the server has named.
fn put_aside(dir: &Path, said: &str) -> PathBuf {
    let rewound: Vec<PathBuf> =
        std::fs::read_dir(dir.join("rewound")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [aside] = rewound.as_slice() else { panic!("{rewound:?}") };
    let name = aside.file_name().unwrap().to_str().unwrap();
    assert!(said.contains(name) && name.starts_with("term-1."), "{said}");
    aside.clone()
}

fn has_lost_row(dir: &Path) -> bool {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let mut found = files.map(|file| file.windows(LOST.len()).any(|bytes| bytes == LOST.as_bytes()));
    found.any(|is_here| is_here)
}

#[test]
fn replicas_that_followed_a_lost_primary_too_far_are_cut_back_and_follow_without_a_copy() {
    let parted = Parted::begin();
    for (replica, name) in [(&parted.middle, "middle"), (&parted.last, "last")] {
        replica.until_said("its log is cut back to LSN ");
        parted.check(replica);
        let said = replica.said.lock().unwrap().clone();
        // The one that it began with.
        assert_eq!(said.matches("Copying the database of").count(), 1, "{name}: {said}");
        assert_eq!(said.matches("its log is cut back").count(), 1, "{name}: {said}");
        assert!(!said.contains("that the new primary never had: 0"), "{name}: {said}");
        assert!(!said.contains("does not follow any more"), "{name}: {said}");
        assert!(has_lost_row(&put_aside(&parted.dir(name), &said)), "{name}: the lost row lies aside");
    }
    // Both go on as replicas do, and are cut back no more.
    parted.sql.run("INSERT INTO items SELECT g, 2, 'later' FROM generate_series(200001, 206000) g").unwrap();
    parted.check(&parted.middle);
    parted.check(&parted.last);
    let Parted { parent, promoted, sql, middle, last } = parted;
    drop(sql);
    for server in [last, middle, promoted] {
        server.stop();
    }
    for name in ["middle", "last", "copy"] {
        check(&parent.path().join(name));
    }
}

/// To break it: have a replica that is refused not ask for the terms. It says no more then than that its log is not the beginning of
/// the other one's.
#[test]
fn a_replica_whose_checkpoint_has_what_is_lost_needs_a_copy_and_can_be_read() {
    let (parent, primary_dir, copy_dir) = directories();
    let beyond_dir = parent.path().join("beyond");
    let primary = Server::start(&primary_dir, 0, &[]);
    let of_primary = replica_of(&primary);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE t (n int PRIMARY KEY, word text)").unwrap();
    let copy = Server::start(&copy_dir, 0, &["--replica-of", &of_primary]);
    let beyond = Server::start(&beyond_dir, 0, &["--replica-of", &of_primary]);
    for replica in [&copy, &beyond] {
        wait_for(&Sql::open(replica.port), &sql);
    }
    copy.stop();
    sql.run(&format!("INSERT INTO t VALUES (1, '{LOST}')")).unwrap();
    let query = "SELECT word FROM t WHERE n = 1";
    let reader = Sql::open(beyond.port);
    until_it_reads(&reader, query, LOST);
    reader.run("CHECKPOINT").unwrap();
    drop((reader, sql));
    primary.kill();
    beyond.stop();
    run(&["promote", copy_dir.to_str().unwrap()]);
    let promoted = Server::start(&copy_dir, 0, &[]);
    let sql = until_writable(promoted.port);
    sql.run("INSERT INTO t VALUES (1, 'in the new history')").unwrap();
    let beyond = Server::start(&beyond_dir, 0, &["--replica-of", &replica_of(&promoted)]);
    beyond.until_said("make a new copy in an empty directory");
    beyond.until_said("its checkpoint contains the log up to LSN ");
    until_it_reads(&Sql::open(beyond.port), query, LOST);
    assert!(!beyond_dir.join("rewound").exists());
    drop(sql);
    beyond.stop();
    promoted.stop();
}
