// SPDX-License-Identifier: Apache-2.0
//! Servers of the clouds' protocols as the storage: what our requests mean is not ours to say there.
//!
//! `cloud-tests/install` beside `src` brings the servers; without one of them its tests are skipped. Each test starts one of its own.

use super::archiving::{archived, impatient_of, options, wait};
use super::primary::{Primary, check_restore};
use crate::archive::{Archive, Put};
use crate::archiver::Archiver;
use crate::backup::backup;
use crate::check::check;
use crate::collect::{Keep, collect};
use crate::error::ArchiveError;
use crate::patience::Patience;
use crate::restore::{Target, restore};
use cloud_server::{Cloud, CloudServer};
use std::process::Command;
use std::time::Duration;

#[path = "../../../../tests/cloud_server.rs"]
mod cloud_server;
#[path = "../../../../tests/skipping.rs"]
mod skipping;

/// Halts a server, which keeps what it has, or has it go on.
fn signal(server: &CloudServer, signal: &str) {
    let process = server.process.id().to_string();
    assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
}

/// A server, unless it was not installed.
#[track_caller]
fn started(cloud: Cloud) -> Option<CloudServer> {
    let program = skipping::needed(cloud.name(), cloud.program())?;
    Some(CloudServer::start(cloud, &program))
}

fn archive_with(place: &str, settings: Vec<(&'static str, String)>) -> Archive {
    let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value));
    let patience = Patience { attempts: 3, pause: Duration::from_millis(10), ..Patience::default() };
    Archive::open_with(place, settings).unwrap().with_patience(patience)
}

impl CloudServer {
    /// An archive in its bucket.
    fn archive(&self, path: &str) -> Archive {
        archive_with(&self.place(path), self.settings())
    }
}

#[track_caller]
fn backups_restores_checks_and_collections_work_on(cloud: Cloud) {
    let Some(server) = started(cloud) else { return };
    let archive = server.archive("archives/one");
    let mut primary = Primary::new(1);
    (0..3).for_each(|number| primary.add_table(number));
    (0..20).for_each(|_| primary.commit());
    primary.wait_durable();
    let first = backup(primary.store(), &archive, &mut |_| {}).unwrap();
    check_restore(&archive, Target::Latest, None, primary.last());
    let again = backup(primary.store(), &archive, &mut |_| {}).unwrap();
    assert!(again.bytes_sent < first.bytes_sent / 2, "what is there is not sent again: {again:?}");

    let archiver = Archiver::start(primary.store().clone(), impatient_of(&archive), options()).unwrap();
    wait(&archiver, |status| status.last_backup.is_some());
    for _ in 0..60 {
        primary.step();
    }
    let moment = primary.last().clone();
    (0..5).for_each(|_| primary.commit());
    primary.drop_tables();
    wait(&archiver, archived(primary.last().end));
    drop(archiver);
    check_restore(&archive, Target::Lsn(moment.end), None, &moment);
    check_restore(&archive, Target::Latest, None, primary.last());

    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    let before = check(&archive).unwrap();
    assert!(before.problems.is_empty() && before.backups.len() > 1, "{before:?}");
    let collected = collect(&archive, Keep { count: 1, age: Duration::ZERO }).unwrap();
    let after = check(&archive).unwrap();
    assert!(after.problems.is_empty() && after.backups.len() == 1, "{collected:?}, {after:?}");
    check_restore(&archive, Target::Latest, None, primary.last());
    // Another archive in the same bucket is another one.
    let other = server.archive("archives/on");
    assert!(matches!(check(&other), Err(ArchiveError::NoArchive { .. })));
}

#[test]
fn backups_restores_checks_and_collections_work_on_s3() {
    backups_restores_checks_and_collections_work_on(Cloud::S3);
}

#[test]
fn backups_restores_checks_and_collections_work_on_google_cloud_storage() {
    backups_restores_checks_and_collections_work_on(Cloud::Google);
}

#[test]
fn backups_restores_checks_and_collections_work_on_azure() {
    backups_restores_checks_and_collections_work_on(Cloud::Azure);
}

/// The storage itself refuses it. Seen to fail if objects are put with `PutMode::Overwrite`.
#[track_caller]
fn nothing_is_overwritten_on(cloud: Cloud) {
    let Some(server) = started(cloud) else { return };
    let archive = server.archive("here");
    assert_eq!(archive.put_new("log/one", "contents".into()).unwrap(), Put::New);
    assert_eq!(archive.put_new("log/one", "contents".into()).unwrap(), Put::WasThere);
    let refused = archive.put_new("log/one", "others".into()).unwrap_err();
    assert!(matches!(refused, ArchiveError::Differs { .. }), "{refused}");
    assert_eq!(archive.get("log/one").unwrap().unwrap(), "contents");
    assert_eq!(archive.get("log/two").unwrap(), None);
    assert!(archive.has("log/one", 8).unwrap() && !archive.has("log/one", 7).unwrap());
    assert!(!archive.has("log/two", 8).unwrap());
    for name in ["log/two", "log/three", "other/one"] {
        archive.put_new(name, "x".into()).unwrap();
    }
    let names = |last| {
        archive.list_behind("log", last).unwrap().into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names(None), ["log/one", "log/three", "log/two"]);
    assert_eq!(names(Some("log/one")), ["log/three", "log/two"]);
    assert_eq!(names(Some("log/p")), ["log/three", "log/two"]);
    archive.remove("log/one").unwrap();
    archive.remove("log/one").unwrap();
    assert_eq!(names(None), ["log/three", "log/two"]);
    // Of those who create it at the same moment, one has.
    let creates = |writer: usize| {
        let contents = format!("of {writer}").into();
        matches!(archive.put_new("log/contended", contents), Ok(Put::New))
    };
    let created = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8).map(|writer| scope.spawn(move || creates(writer))).collect();
        writers.into_iter().map(|writer| usize::from(writer.join().unwrap())).sum::<usize>()
    });
    assert_eq!(created, 1);
    // A name that was free again is taken again, and once.
    assert_eq!(archive.put_new("log/one", "others".into()).unwrap(), Put::New);
    assert_eq!(archive.put_new("log/one", "others".into()).unwrap(), Put::WasThere);
}

#[test]
fn nothing_is_overwritten_on_s3() {
    nothing_is_overwritten_on(Cloud::S3);
}

#[test]
fn nothing_is_overwritten_on_google_cloud_storage() {
    nothing_is_overwritten_on(Cloud::Google);
}

#[test]
fn nothing_is_overwritten_on_azure() {
    nothing_is_overwritten_on(Cloud::Azure);
}

/// The server stops for a while, with requests under way, and keeps what it has.
#[track_caller]
fn a_storage_that_is_gone_is_caught_up_with_on(cloud: Cloud) {
    let Some(server) = started(cloud) else { return };
    let archive = server.archive("here");
    let brief = Patience {
        attempts: 2,
        pause: Duration::from_millis(1),
        attempt_max: Duration::from_millis(500),
        ..Patience::default()
    };
    let mut primary = Primary::new(3);
    let archiver = Archiver::start(primary.store().clone(), archive.with_patience(brief), options()).unwrap();
    wait(&archiver, archived(primary.last().end));
    signal(&server, "-STOP");
    (0..40).for_each(|_| primary.commit());
    let status = wait(&archiver, |status| status.failures > 0);
    assert!(status.bytes_behind > 0 && status.last_error.is_some(), "{status:?}");
    signal(&server, "-CONT");
    let status = wait(&archiver, archived(primary.last().end));
    assert_eq!((status.gaps, status.has_let_go), (vec![], false));
    drop(archiver);
    check_restore(&archive, Target::Latest, None, primary.last());
    assert_eq!(check(&archive).unwrap().problems, vec![]);
}

#[test]
fn a_storage_that_is_gone_is_caught_up_with_on_s3() {
    a_storage_that_is_gone_is_caught_up_with_on(Cloud::S3);
}

#[test]
fn a_storage_that_is_gone_is_caught_up_with_on_google_cloud_storage() {
    a_storage_that_is_gone_is_caught_up_with_on(Cloud::Google);
}

#[test]
fn a_storage_that_is_gone_is_caught_up_with_on_azure() {
    a_storage_that_is_gone_is_caught_up_with_on(Cloud::Azure);
}

/// Seen to fail (with an error that names no bucket) if a put into nothing counts as one of an object that is there.
#[track_caller]
fn wrong_keys_and_buckets_are_said_on(cloud: Cloud) {
    let Some(server) = started(cloud) else { return };
    let primary = Primary::new(2);
    let home = tempfile::tempdir().unwrap();
    let into = home.path().join("new");

    // Google's server takes each key, unlike Google; what an answer of Google's would be is no question to it.
    if let Some(settings) = server.settings_with_wrong_key() {
        let wrong = archive_with(&server.place("here"), settings);
        let refused = backup(primary.store(), &wrong, &mut |_| {}).unwrap_err();
        assert!(matches!(refused, ArchiveError::Refused { .. }), "{refused}");
        assert!(refused.to_string().contains("://bucket/here refuses to"), "{refused}");
        // Azurite calls it an `AuthorizationFailure`, Azure itself an `AuthenticationFailed`.
        let part = if cloud == Cloud::S3 { "AWS_SECRET_ACCESS_KEY" } else { "AuthorizationFailure" };
        assert!(refused.to_string().contains(part), "{refused}");
        let refused = restore(&wrong, &into, Target::Latest, None).unwrap_err();
        assert!(matches!(refused, ArchiveError::Refused { .. }), "{refused}");
    }

    let nowhere = archive_with(&cloud.place_in("no-such-bucket", "here"), server.settings());
    let refused = backup(primary.store(), &nowhere, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, ArchiveError::Place { .. }), "{refused}");
    assert!(refused.to_string().contains("no such bucket"), "{refused}");
    let refused = restore(&nowhere, &into, Target::Latest, None).unwrap_err();
    assert!(matches!(refused, ArchiveError::Place { .. }), "{refused}");

    let archive = server.archive("here").once();
    drop(server);
    let refused = backup(primary.store(), &archive, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, ArchiveError::Unreachable { .. }), "{refused}");
    assert!(!into.exists());
}

#[test]
fn wrong_keys_and_buckets_are_said_on_s3() {
    wrong_keys_and_buckets_are_said_on(Cloud::S3);
}

#[test]
fn wrong_keys_and_buckets_are_said_on_google_cloud_storage() {
    wrong_keys_and_buckets_are_said_on(Cloud::Google);
}

#[test]
fn wrong_keys_and_buckets_are_said_on_azure() {
    wrong_keys_and_buckets_are_said_on(Cloud::Azure);
}

/// It has not passed for an archive that is not there.
#[test]
fn a_key_of_s3_that_nobody_has_is_said() {
    let Some(server) = started(Cloud::S3) else { return };
    let home = tempfile::tempdir().unwrap();
    let mut settings = server.settings();
    settings
        .iter_mut()
        .filter(|(name, _)| *name == "AWS_ACCESS_KEY_ID")
        .for_each(|(_, key)| "nobody".clone_into(key));
    let unknown = archive_with(&server.place("here"), settings);
    let refused = restore(&unknown, &home.path().join("new"), Target::Latest, None).unwrap_err();
    assert!(matches!(refused, ArchiveError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("AWS_ACCESS_KEY_ID"), "{refused}");
}
