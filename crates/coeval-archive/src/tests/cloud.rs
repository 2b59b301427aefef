// SPDX-License-Identifier: Apache-2.0
//! A server of the S3 protocol as the storage: what our requests mean is not ours to say there.
//!
//! `cloud-tests/install` beside `src` builds the server; without it these tests are skipped. Each starts one of its own.

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
use s3_server::{S3Server, SECRET};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[path = "../../../../tests/s3_server.rs"]
mod s3_server;
#[path = "../../../../tests/skipping.rs"]
mod skipping;

/// What the tests need, as it is called where they were skipped.
const NEEDED: &str = "s3";

impl S3Server {
    /// An archive in a place of the server's, as who has this secret.
    fn archive(&self, place: &str, secret: &str) -> Archive {
        let settings = self.settings(secret).map(|(name, value)| (name.to_owned(), value));
        let patience = Patience { attempts: 3, pause: Duration::from_millis(10), ..Patience::default() };
        Archive::open_with(place, settings).unwrap().with_patience(patience)
    }
}

#[test]
fn backups_restores_checks_and_collections_work_on_s3() {
    let Some(program) = skipping::needed(NEEDED, s3_server::program()) else { return };
    let server = S3Server::start(&program);
    let archive = server.archive("s3://bucket/archives/one", SECRET);
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
    let other = server.archive("s3://bucket/archives/on", SECRET);
    assert!(matches!(check(&other), Err(ArchiveError::NoArchive { .. })));
}

/// Nothing is overwritten: the storage itself refuses it. Seen to fail if objects are put with `PutMode::Overwrite`.
#[test]
fn s3_overwrites_nothing() {
    let Some(program) = skipping::needed(NEEDED, s3_server::program()) else { return };
    let server = S3Server::start(&program);
    let archive = server.archive("s3://bucket/here", SECRET);
    assert_eq!(archive.put_new("log/one", "contents".into()).unwrap(), Put::New);
    assert_eq!(archive.put_new("log/one", "contents".into()).unwrap(), Put::WasThere);
    let refused = archive.put_new("log/one", "others".into()).unwrap_err();
    assert!(matches!(refused, ArchiveError::Differs { .. }), "{refused}");
    assert_eq!(archive.get("log/one").unwrap().unwrap(), "contents");
    assert_eq!(archive.get("log/two").unwrap(), None);
    for name in ["log/two", "log/three", "other/one"] {
        archive.put_new(name, "x".into()).unwrap();
    }
    let names = |last| {
        archive.list_behind("log", last).unwrap().into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names(None), ["log/one", "log/three", "log/two"]);
    assert_eq!(names(Some("log/one")), ["log/three", "log/two"]);
    archive.remove("log/one").unwrap();
    archive.remove("log/one").unwrap();
    assert_eq!(names(None), ["log/three", "log/two"]);
}

/// Seen to fail (with an error that names no bucket) if a put into nothing counts as one of an object that is there.
#[test]
fn wrong_keys_and_buckets_of_s3_are_said() {
    let Some(program) = skipping::needed(NEEDED, s3_server::program()) else { return };
    let server = S3Server::start(&program);
    let primary = Primary::new(2);
    let home = tempfile::tempdir().unwrap();
    let into = home.path().join("new");

    let wrong = server.archive("s3://bucket/here", "wrong");
    let refused = backup(primary.store(), &wrong, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, ArchiveError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("s3://bucket/here refuses to"), "{refused}");
    assert!(refused.to_string().contains("AWS_SECRET_ACCESS_KEY"), "{refused}");
    let refused = restore(&wrong, &into, Target::Latest, None).unwrap_err();
    assert!(matches!(refused, ArchiveError::Refused { .. }), "{refused}");

    // A key that nobody has passed for an archive that is not there.
    let settings = server.settings(SECRET).map(|(name, value)| {
        let value = if name == "AWS_ACCESS_KEY_ID" { "nobody".to_owned() } else { value };
        (name.to_owned(), value)
    });
    let unknown = Archive::open_with("s3://bucket/here", settings).unwrap();
    let refused = restore(&unknown, &into, Target::Latest, None).unwrap_err();
    assert!(matches!(refused, ArchiveError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("AWS_ACCESS_KEY_ID"), "{refused}");

    let nowhere = server.archive("s3://no-such-bucket/here", SECRET);
    let refused = backup(primary.store(), &nowhere, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, ArchiveError::Place { .. }), "{refused}");
    assert!(refused.to_string().contains("no such bucket"), "{refused}");
    let refused = restore(&nowhere, &into, Target::Latest, None).unwrap_err();
    assert!(matches!(refused, ArchiveError::Place { .. }), "{refused}");

    let address = server.address.clone();
    let archive = server.archive("s3://bucket/here", SECRET);
    drop(server);
    let refused = backup(primary.store(), &archive, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, ArchiveError::Unreachable { .. }), "{address}: {refused}");
    assert!(!into.exists());
}

/// A server that answers whatever it is asked with this status and body, its address, and how often it was asked.
fn answering(status: &'static str, body: String) -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut request = Vec::new();
            let mut bytes = [0; 1_024];
            // What is asked here has no body.
            while !request.ends_with(b"\r\n\r\n") {
                match client.read(&mut bytes) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => request.extend_from_slice(&bytes[..read]),
                }
            }
            counter.fetch_add(1, Ordering::SeqCst);
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            // Whoever has gone hears nothing.
            let _ = client.write_all(format!("{head}{body}").as_bytes());
        }
    });
    (address, asked)
}

/// Lists were asked for eight times, with pauses of half a minute in all; and what was said was all that the storage had written.
#[test]
fn wrong_keys_buckets_and_rights_are_told_apart_at_once() {
    for (status, code, part) in [
        ("403 Forbidden", "InvalidAccessKeyId", "look at AWS_ACCESS_KEY_ID"),
        ("403 Forbidden", "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"),
        ("404 Not Found", "NoSuchBucket", "there is no such bucket"),
        ("403 Forbidden", "AccessDenied", "has no right to do that"),
        ("403 Forbidden", "RequestTimeTooSkewed", "the clock of this machine"),
    ] {
        let body =
            format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>Words.</Message></Error>");
        let (address, asked) = answering(status, body);
        let settings = [
            ("AWS_ENDPOINT_URL", format!("http://{address}")),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "key".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value));
        let archive = Archive::open_with("s3://bucket/here", settings).unwrap();
        let got = archive.get("archive").unwrap_err().to_string();
        let listed = archive.list("log").unwrap_err().to_string();
        for said in [&got, &listed] {
            assert!(said.contains(part) && said.ends_with(&format!("({code}: Words.)")), "{said}");
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2, "{code}: each is asked once");
    }
}

/// It is a 400, as of a request that is wrong: a slow network ended a backup.
#[test]
fn a_storage_that_has_not_got_all_in_time_is_asked_again() {
    let body = "<Error><Code>RequestTimeout</Code><Message>Words.</Message></Error>".to_owned();
    let (address, asked) = answering("400 Bad Request", body);
    let settings = [
        ("AWS_ENDPOINT_URL", format!("http://{address}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "key".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value));
    let patience = Patience { attempts: 3, pause: Duration::from_millis(10), ..Patience::default() };
    let archive = Archive::open_with("s3://bucket/here", settings).unwrap().with_patience(patience);
    let failed = archive.get("archive").unwrap_err();
    assert!(matches!(failed, ArchiveError::Unreachable { attempts: 3, .. }), "{failed}");
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

/// Without keys the machine is asked for them, which outside of Amazon's cloud nobody answers: that took minutes, and was not said.
#[test]
fn keys_that_are_not_set_are_said() {
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = [
        ("AWS_METADATA_ENDPOINT", format!("http://{}", silent.local_addr().unwrap())),
        ("AWS_REGION", "us-east-1".to_owned()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value));
    let patience = Patience { attempt_max: Duration::from_millis(200), ..Patience::default() };
    let archive = Archive::open_with("s3://bucket/here", settings).unwrap().with_patience(patience);
    let refused = archive.list("log").unwrap_err();
    assert!(
        refused.to_string().contains("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"),
        "{refused}"
    );
}

/// A server that gives keys, as a machine of Amazon's cloud does, and is the storage beside: that answers once, and is silent behind.
/// Its address, and how often the storage was asked.
fn machine_with_keys() -> (String, Arc<AtomicU32>) {
    const KEYS: &str =
        r#"{"AccessKeyId":"k","SecretAccessKey":"s","Token":"t","Expiration":"2099-01-01T00:00:00Z"}"#;
    const PATH: &str = "GET /latest/meta-data/iam/security-credentials/";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut unanswered: Vec<TcpStream> = Vec::new();
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 4_096];
            let read = client.read(&mut request).unwrap_or(0);
            if read == 0 {
                continue;
            }
            let request = String::from_utf8_lossy(&request[..read]).into_owned();
            let (status, body) = if request.starts_with("PUT /latest/api/token") {
                ("200 OK", "token")
            } else if request.starts_with(&format!("{PATH}role ")) {
                ("200 OK", KEYS)
            } else if request.starts_with(PATH) {
                ("200 OK", "role")
            } else if counter.fetch_add(1, Ordering::SeqCst) == 0 {
                ("404 Not Found", "<Error><Code>NoSuchKey</Code></Error>")
            } else {
                unanswered.push(client);
                continue;
            };
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            // Whoever has gone hears nothing.
            let _ = client.write_all(format!("{head}{body}").as_bytes());
        }
    });
    (address, asked)
}

/// The first answer that did not come in time ended a backup, and blamed keys that were there.
#[test]
fn a_storage_that_is_slow_has_keys_if_it_has_answered_before() {
    let (address, asked) = machine_with_keys();
    let settings = [
        ("AWS_METADATA_ENDPOINT", format!("http://{address}")),
        ("AWS_ENDPOINT_URL", format!("http://{address}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value));
    let patience = Patience {
        attempts: 2,
        pause: Duration::from_millis(10),
        attempt_max: Duration::from_millis(300),
        ..Patience::default()
    };
    let archive = Archive::open_with("s3://bucket/here", settings).unwrap().with_patience(patience);
    assert_eq!(archive.get("archive").unwrap(), None);
    let failed = archive.put_new("archive", "contents".into()).unwrap_err();
    assert!(matches!(failed, ArchiveError::Unreachable { attempts: 2, .. }), "{failed}");
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}
