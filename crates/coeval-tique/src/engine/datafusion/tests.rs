// SPDX-License-Identifier: Apache-2.0

use super::*;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

fn numbers(connection: &mut dyn Connection, sql: &str) -> Vec<i64> {
    let rows = connection.query(sql, Effort::Point).unwrap();
    rows.batches
        .iter()
        .flat_map(|batch| {
            let column = batch.column(0).as_any().downcast_ref::<arrow::array::Int64Array>().unwrap();
            column.values().to_vec()
        })
        .collect()
}

fn connection(engine: &DataFusionEngine) -> Box<dyn Connection> {
    engine.connect().unwrap()
}

#[test]
fn rows_are_inserted_read_and_deleted_and_come_back_when_kept() {
    let directory = tempfile::tempdir().unwrap();
    let engine = DataFusionEngine::open(directory.path(), Durability::Machine).unwrap();
    let mut one = connection(&engine);
    one.execute("CREATE TABLE \"kept\" (k BIGINT, v VARCHAR)").unwrap();
    one.execute("CREATE TEMPORARY TABLE \"short\" (k BIGINT)").unwrap();
    for k in 0..100 {
        one.execute(&format!("INSERT INTO kept (v, k) VALUES ('v', {k})")).unwrap();
    }
    one.execute("INSERT INTO short SELECT k FROM kept WHERE k < 3").unwrap();
    assert_eq!(one.execute("DELETE FROM kept WHERE k NOT IN (SELECT k FROM short) AND k <> 99").unwrap(), 96);
    assert_eq!(one.execute("INSERT INTO kept VALUES (7, 'again')").unwrap(), 1);
    assert_eq!(one.execute("DELETE FROM kept WHERE k = 1").unwrap(), 1);
    one.sync().unwrap();
    assert_eq!(numbers(&mut *one, "SELECT k FROM kept ORDER BY k"), [0, 2, 7, 99]);
    assert!(
        DataFusionEngine::open(directory.path(), Durability::Machine).is_err(),
        "the directory is locked"
    );
    drop((one, engine));
    let engine = DataFusionEngine::open(directory.path(), Durability::Machine).unwrap();
    let mut one = connection(&engine);
    assert_eq!(numbers(&mut *one, "SELECT k FROM kept ORDER BY k"), [0, 2, 7, 99]);
    assert!(one.query("SELECT k FROM short", Effort::Point).is_err());
}

/// What a write left that failed must not stand before what is written next.
#[test]
fn behind_a_write_that_failed_the_log_goes_on_or_nothing_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tables.log");
    let engine = DataFusionEngine::open(directory.path(), Durability::Machine).unwrap();
    let mut one = connection(&engine);
    one.execute("CREATE TABLE t (k BIGINT)").unwrap();
    one.execute("INSERT INTO t VALUES (1)").unwrap();
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"half a record").unwrap();
    engine.inner.log.lock().as_mut().unwrap().cut_off();
    one.execute("INSERT INTO t VALUES (2)").unwrap();
    one.sync().unwrap();
    engine.inner.log.lock().as_mut().unwrap().note_unsynced();
    let refused = one.execute("INSERT INTO t VALUES (3)").unwrap_err();
    assert_eq!(refused.kind, crate::engine::EngineErrorKind::Gone);
    assert_eq!(numbers(&mut *one, "SELECT k FROM t ORDER BY k"), [1, 2]);
    drop((one, engine));
    let engine = DataFusionEngine::open(directory.path(), Durability::Machine).unwrap();
    let mut one = connection(&engine);
    one.execute("INSERT INTO t VALUES (4)").unwrap();
    assert_eq!(numbers(&mut *one, "SELECT k FROM t ORDER BY k"), [1, 2, 4]);
}

#[test]
fn a_torn_tail_is_cut_off_and_damage_before_it_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tables.log");
    let write = || {
        let engine = DataFusionEngine::open(directory.path(), Durability::Process).unwrap();
        let mut one = connection(&engine);
        one.execute("CREATE TABLE IF NOT EXISTS t (k BIGINT)").unwrap();
        one.execute("INSERT INTO t VALUES (1), (2)").unwrap();
        let whole = std::fs::metadata(&path).unwrap().len();
        one.execute("INSERT INTO t VALUES (3)").unwrap();
        whole
    };
    let whole = write();
    let bytes = std::fs::read(&path).unwrap();
    for cut in [whole as usize + 1, whole as usize + 9, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let engine = DataFusionEngine::open(directory.path(), Durability::Process).unwrap();
        assert_eq!(numbers(&mut *connection(&engine), "SELECT k FROM t ORDER BY k"), [1, 2]);
        drop(engine);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), whole);
    }
    let mut damaged = bytes.clone();
    damaged[whole as usize - 1] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let error = DataFusionEngine::open(directory.path(), Durability::Process).map(drop).unwrap_err();
    assert!(error.message.contains("damaged at byte"), "{error}");
}

#[test]
fn a_log_of_rows_that_are_gone_is_written_anew() {
    let directory = tempfile::tempdir().unwrap();
    let engine = DataFusionEngine::open(directory.path(), Durability::Process).unwrap();
    let mut one = connection(&engine);
    one.execute("CREATE TABLE t (k BIGINT, v VARCHAR)").unwrap();
    for round in 0..3 {
        let text = "x".repeat(6 << 20);
        one.execute(&format!("INSERT INTO t VALUES ({round}, '{text}')")).unwrap();
        one.execute(&format!("DELETE FROM t WHERE k = {}", round - 1)).unwrap();
    }
    one.execute("INSERT INTO t VALUES (9, 'y')").unwrap();
    let bytes = std::fs::metadata(directory.path().join("tables.log")).unwrap().len();
    assert!(bytes < 8 << 20, "{bytes} bytes");
    one.execute("DELETE FROM t WHERE k = 2").unwrap();
    drop((one, engine));
    let engine = DataFusionEngine::open(directory.path(), Durability::Process).unwrap();
    assert_eq!(numbers(&mut *connection(&engine), "SELECT k FROM t"), [9]);
}

#[test]
fn a_query_reads_its_tables_as_of_one_moment() {
    let engine = DataFusionEngine::in_memory().unwrap();
    let mut setup = connection(&engine);
    for table in ["a", "b"] {
        setup.execute(&format!("CREATE TABLE {table} (k BIGINT)")).unwrap();
    }
    setup.execute("INSERT INTO a SELECT * FROM (VALUES (1), (2), (3))").unwrap();
    // Until somebody has looked some times beside it; the bound is for one that panics.
    let looks = Arc::new(AtomicUsize::new(0));
    let mover = {
        let (mut one, looks) = (connection(&engine), Arc::clone(&looks));
        std::thread::spawn(move || {
            for _ in (0..5_000).take_while(|round| *round < 50 || looks.load(Ordering::Relaxed) < 8) {
                one.execute("INSERT INTO b SELECT k FROM a").unwrap();
                one.execute("DELETE FROM a WHERE k IN (SELECT k FROM b)").unwrap();
                one.execute("INSERT INTO a SELECT k FROM b").unwrap();
                one.execute("DELETE FROM b WHERE k > 0").unwrap();
            }
        })
    };
    while !mover.is_finished() {
        let sql = "SELECT k FROM a UNION SELECT k FROM b ORDER BY 1";
        assert_eq!(numbers(&mut *setup, sql), [1, 2, 3]);
        looks.fetch_add(1, Ordering::Relaxed);
    }
    mover.join().unwrap();
    assert!(looks.load(Ordering::Relaxed) >= 8);
}

/// Tables of a server were files that everybody on the machine could read.
#[test]
fn nobody_else_can_read_the_tables_unless_the_directory_lets_its_group_in() {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    let around = tempfile::tempdir().unwrap();
    let directory = around.path().join("tables");
    let mode_of = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let modes = || {
        let engine = DataFusionEngine::open(&directory, Durability::Machine).unwrap();
        drop(engine);
        ["tables.log", "lock"].map(|name| mode_of(&directory.join(name)))
    };
    assert_eq!((modes(), mode_of(&directory)), ([0o600; 2], 0o700));
    for (mode, expected) in [(0o750, 0o640), (0o755, 0o600)] {
        for name in ["tables.log", "lock"] {
            std::fs::remove_file(directory.join(name)).unwrap();
        }
        std::fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
        assert_eq!(modes(), [expected; 2], "in one of mode {mode:o}");
    }
}
