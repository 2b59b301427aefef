// SPDX-License-Identifier: Apache-2.0
//! A disk that is full, on either side: what has no room is refused or waits, and goes on when there is room again.

use super::skipping::needed;
use super::*;

/// A disk of its own, in memory. It goes when this is dropped.
struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    /// None if this user may not mount one.
    fn new(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(dir.path())
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(Self { dir })
    }

    fn resize(&self, size: &str) {
        let options = format!("remount,size={size}");
        let status = Command::new("mount").args(["-o", &options]).arg(self.dir.path()).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.dir.path()).status();
    }
}

fn insert(sql: &Sql, from: i32) -> Result<(), tokio_postgres::Error> {
    // A megabyte: a hundred texts that no two of these calls share.
    sql.run(&format!(
        "INSERT INTO t SELECT g, g || (SELECT string_agg(md5(({from} + h)::text), '') FROM generate_series(1, 320) h)
         FROM generate_series({from}, {}) g",
        from + 99
    ))
}

const SUM: &str = "SELECT count(*) || ' ' || sum(length(filling)) FROM t";

#[test]
fn a_replica_without_room_says_so_and_goes_on_when_it_has_some() {
    let Some(disk) = needed("mount", SmallDisk::new("96m")) else { return };
    let (_parent, primary_dir, _) = directories();
    let primary = Server::start(&primary_dir, 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE t (n int PRIMARY KEY, filling text)").unwrap();
    insert(&sql, 0).unwrap();
    let copy_dir = disk.dir.path().join("copy");
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_of(&primary)]);
    let copy = Sql::open(replica.port);
    until_it_reads(&copy, "SELECT count(*) FROM t", "100");
    // The primary goes on, whatever becomes of its replica.
    for step in 1..150 {
        insert(&sql, step * 100).unwrap();
    }
    replica.until_said("No space left");
    let read = copy.value("SELECT count(*) FROM t WHERE n < 100").unwrap().unwrap();
    assert_eq!(read, "100", "what it has is read");
    drop(copy);
    disk.resize("1g");
    replica.kill();
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_of(&primary)]);
    until_it_reads(&Sql::open(replica.port), SUM, &sql.value(SUM).unwrap().unwrap());
    replica.stop();
    check(&copy_dir);
}

#[test]
fn a_primary_without_room_refuses_commits_and_its_replica_has_those_that_counted() {
    let Some(disk) = needed("mount", SmallDisk::new("96m")) else { return };
    let (_parent, _, copy_dir) = directories();
    let primary_dir = disk.dir.path().join("primary");
    let primary = Server::start(&primary_dir, 0, &[]);
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_of(&primary)]);
    let (sql, copy) = (Sql::open(primary.port), Sql::open(replica.port));
    sql.run("CREATE TABLE t (n int PRIMARY KEY, filling text)").unwrap();
    let refused = (0..200).find_map(|step| insert(&sql, step * 100).err()).expect("there is no room for all");
    assert_eq!(refused.code().unwrap().code(), "53100", "{refused}");
    let sum = sql.value(SUM).unwrap().unwrap();
    until_it_reads(&copy, SUM, &sum);
    drop((sql, copy));
    disk.resize("1g");
    let port = primary.port;
    primary.kill();
    let primary = Server::start(&primary_dir, port, &[]);
    let sql = Sql::open(primary.port);
    assert_eq!(sql.value(SUM).unwrap().unwrap(), sum);
    insert(&sql, -100).unwrap();
    until_it_reads(&Sql::open(replica.port), SUM, &sql.value(SUM).unwrap().unwrap());
}
