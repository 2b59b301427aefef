// SPDX-License-Identifier: Apache-2.0
//! An archive behind a server of a cloud's protocol, by the program's own commands.

use super::cloud_server::{Cloud, CloudServer};
use super::skipping::needed;
use super::*;
use std::io::{Read, Write};

/// A server, unless it was not installed.
#[track_caller]
fn started(cloud: Cloud) -> Option<CloudServer> {
    let program = needed(cloud.name(), cloud.program())?;
    Some(CloudServer::start(cloud, &program))
}

fn coeval(settings: &[(&str, String)], arguments: &[&str]) -> std::process::Output {
    let settings = settings.iter().map(|(name, value)| (name, value));
    bounded::output(Command::new(PROGRAM).args(arguments).envs(settings))
}

#[track_caller]
fn a_database_is_archived_followed_from_there_and_comes_back_on(cloud: Cloud) {
    let Some(storage) = started(cloud) else { return };
    let (place, settings) = (storage.place("archives/one"), storage.settings());
    let (parent, primary_dir, copy_dir) = directories();
    let options = ["--archive", &place, "--archive-timeout", "0.2"];
    let primary = Server::start_in(&settings, &primary_dir, 0, &options);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE items (id int PRIMARY KEY, amount int, word text)").unwrap();
    sql.run("INSERT INTO items SELECT g, g % 10, 'word ' || g FROM generate_series(1, 20000) g").unwrap();
    primary.until_said("a backup was made");
    let archived = "SELECT archived_count > 0 AND last_archived_wal IS NOT NULL AND failed_count = 0 FROM pg_stat_archiver";
    until_it_reads(&sql, archived, "t");

    let of = format!("archive={place}");
    let replica = Server::start_in(&settings, &copy_dir, 0, &["--replica-of", &of, "--replica-poll", "0.1"]);
    sql.run("UPDATE items SET amount = 77 WHERE id <= 100; CHECKPOINT").unwrap();
    until_it_reads(&Sql::open(replica.port), "SELECT count(*) FROM items WHERE amount = 77", "100");

    let moment = sql.value("SELECT coeval_snapshot_token()").unwrap().unwrap();
    let before = sql.value(SUM).unwrap().unwrap();
    sql.run("DELETE FROM items WHERE id > 10").unwrap();
    drop(sql);
    primary.stop();
    let checked = coeval(&settings, &["check", "--archive", &place]);
    assert!(checked.status.success(), "{checked:?}");
    for (name, target, wanted) in [
        ("newest", None, "10 rows, 770, word 9"),
        ("earlier", Some(["--to-token", &moment]), before.as_str()),
    ] {
        let dir = parent.path().join(name);
        let mut arguments = vec!["restore", &place, dir.to_str().unwrap()];
        arguments.extend(target.into_iter().flatten());
        let restored = coeval(&settings, &arguments);
        assert!(restored.status.success(), "{restored:?}");
        let server = Server::start(&dir, 0, &[]);
        assert_eq!(Sql::open(server.port).value(SUM).unwrap().unwrap(), wanted, "{name}");
    }

    if let Some(wrong) = storage.settings_with_wrong_key() {
        let refused = coeval(&wrong, &["check", "--archive", &place]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains("refuses to"), "{said}");
        assert!(cloud != Cloud::S3 || said.contains("AWS_SECRET_ACCESS_KEY"), "{said}");
    }
}

#[test]
fn a_database_is_archived_followed_from_there_and_comes_back_on_s3() {
    a_database_is_archived_followed_from_there_and_comes_back_on(Cloud::S3);
}

#[test]
fn a_database_is_archived_followed_from_there_and_comes_back_on_google_cloud_storage() {
    a_database_is_archived_followed_from_there_and_comes_back_on(Cloud::Google);
}

#[test]
fn a_database_is_archived_followed_from_there_and_comes_back_on_azure() {
    a_database_is_archived_followed_from_there_and_comes_back_on(Cloud::Azure);
}

/// What a server's figures say.
fn figures(address: &str) -> String {
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: coeval\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[track_caller]
fn a_storage_that_is_gone_stops_nothing_and_is_shown_on(cloud: Cloud) {
    let Some(storage) = started(cloud) else { return };
    let (_parent, primary_dir, _) = directories();
    let place = storage.place("archives/one");
    let options = ["--archive", &place, "--archive-timeout", "0.2", "--metrics", "127.0.0.1:0"];
    let primary = Server::start_in(&storage.settings(), &primary_dir, 0, &options);
    let sql = Sql::open(primary.port);
    primary.until_said("a backup was made");
    primary.until_said("Figures at http://");
    drop(storage);
    sql.run("CREATE TABLE t (n int PRIMARY KEY)").unwrap();
    for n in 0..100 {
        sql.run(&format!("INSERT INTO t VALUES ({n})")).unwrap();
    }
    let failed =
        "SELECT failed_count > 0 AND last_failed_time > now() - interval '1 hour' FROM pg_stat_archiver";
    until_it_reads(&sql, failed, "t");
    let said = primary.said.lock().unwrap().clone();
    let address = said.split("Figures at http://").nth(1).unwrap().split('/').next().unwrap();
    let figures = figures(address);
    let figure = |name: &str| {
        let line = figures.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {figures}")).parse::<u64>().unwrap()
    };
    assert!(figure("coeval_archive_behind_bytes") > 0);
    assert!(figure("coeval_archive_failures_total") > 0);
    assert!(figure("coeval_archive_backup_timestamp_seconds") > 1_700_000_000);
}

#[test]
fn a_storage_that_is_gone_stops_nothing_and_is_shown_on_s3() {
    a_storage_that_is_gone_stops_nothing_and_is_shown_on(Cloud::S3);
}

#[test]
fn a_storage_that_is_gone_stops_nothing_and_is_shown_on_google_cloud_storage() {
    a_storage_that_is_gone_stops_nothing_and_is_shown_on(Cloud::Google);
}

#[test]
fn a_storage_that_is_gone_stops_nothing_and_is_shown_on_azure() {
    a_storage_that_is_gone_stops_nothing_and_is_shown_on(Cloud::Azure);
}
