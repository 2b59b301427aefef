// SPDX-License-Identifier: Apache-2.0
//! What is made of the answers of clouds, and of none: of requests that need no server of theirs, but one that says what is to be tried.

use crate::archive::Archive;
use crate::error::ArchiveError;
use crate::patience::Patience;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

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

/// An archive at `bucket/here` in a cloud whose protocol is spoken at this address.
fn archive_at(scheme: &str, address: &str) -> Archive {
    let address = format!("http://{address}");
    let key = format!(
        r#"{{"client_email": "", "private_key_id": "", "private_key": "", "disable_oauth": true, "gcs_base_url": "{address}"}}"#
    );
    let settings = match scheme {
        "s3" => vec![
            ("AWS_ENDPOINT_URL", address.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ],
        "gs" => vec![("GOOGLE_SERVICE_ACCOUNT_KEY", key.as_str())],
        _ => vec![
            ("AZURE_STORAGE_ENDPOINT", address.as_str()),
            ("AZURE_ALLOW_HTTP", "true"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
            ("AZURE_STORAGE_ACCOUNT_KEY", "a2V5"),
        ],
    };
    let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    Archive::open_with(&format!("{scheme}://bucket/here"), settings).unwrap()
}

/// Lists were asked for eight times, with pauses of half a minute in all; and what was said was all that the storage had written.
#[test]
fn wrong_keys_buckets_and_rights_are_told_apart_at_once() {
    for (scheme, status, code, part) in [
        ("s3", "403 Forbidden", "InvalidAccessKeyId", "look at AWS_ACCESS_KEY_ID"),
        ("s3", "403 Forbidden", "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"),
        ("s3", "404 Not Found", "NoSuchBucket", "there is no such bucket"),
        ("s3", "403 Forbidden", "AccessDenied", "has no right to do that"),
        ("s3", "403 Forbidden", "RequestTimeTooSkewed", "the clock of this machine"),
        ("gs", "401 Unauthorized", "AuthenticationRequired", "GOOGLE_SERVICE_ACCOUNT"),
        ("gs", "404 Not Found", "NoSuchBucket", "there is no such bucket"),
        ("gs", "403 Forbidden", "AccessDenied", "has no right to do that"),
        ("az", "403 Forbidden", "AuthenticationFailed", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("az", "404 Not Found", "ContainerNotFound", "there is no such bucket"),
        ("az", "403 Forbidden", "AuthorizationPermissionMismatch", "has no right to do that"),
    ] {
        let body =
            format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>Words.</Message></Error>");
        let (address, asked) = answering(status, body);
        let archive = archive_at(scheme, &address);
        let got = archive.get("archive").unwrap_err().to_string();
        let listed = archive.list("log").unwrap_err().to_string();
        for said in [&got, &listed] {
            assert!(said.contains(part) && said.ends_with(&format!("({code}: Words.)")), "{said}");
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2, "{scheme}, {code}: each is asked once");
    }
}

/// It is a 400, as of a request that is wrong: a slow network ended a backup.
#[test]
fn a_storage_that_has_not_got_all_in_time_is_asked_again() {
    let body = "<Error><Code>RequestTimeout</Code><Message>Words.</Message></Error>".to_owned();
    let (address, asked) = answering("400 Bad Request", body);
    let patience = Patience { attempts: 3, pause: Duration::from_millis(10), ..Patience::default() };
    let archive = archive_at("s3", &address).with_patience(patience);
    let failed = archive.get("archive").unwrap_err();
    assert!(matches!(failed, ArchiveError::Unreachable { attempts: 3, .. }), "{failed}");
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

/// Checks what is said without keys, where this address is the one that is asked for them.
fn check_that_keys_are_missed(address: &str) {
    let address = format!("http://{address}");
    for (place, settings, part) in [
        (
            "s3://bucket/here",
            [("AWS_METADATA_ENDPOINT", address.as_str()), ("AWS_REGION", "us-east-1")],
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set",
        ),
        (
            "az://bucket/here",
            [("AZURE_MSI_ENDPOINT", address.as_str()), ("AZURE_STORAGE_ACCOUNT_NAME", "account")],
            "AZURE_STORAGE_ACCOUNT_KEY is not set",
        ),
    ] {
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let patience = Patience { attempt_max: Duration::from_millis(200), ..Patience::default() };
        let archive = Archive::open_with(place, settings).unwrap().with_patience(patience);
        let refused = archive.has("archive", 1).unwrap_err();
        assert!(refused.to_string().contains(part), "{refused}");
    }
}

/// Without keys the machine is asked for them, which outside of the cloud nobody answers: that took minutes, and was not said.
#[test]
fn keys_that_are_not_set_are_said() {
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    check_that_keys_are_missed(&silent.local_addr().unwrap().to_string());
}

/// A machine of a cloud that has no role says so, which passed for a bucket that is not there.
#[test]
fn a_machine_without_keys_is_no_storage_without_a_bucket() {
    let (address, asked) = answering("404 Not Found", "{}".to_owned());
    check_that_keys_are_missed(&address);
    assert_eq!(asked.load(Ordering::SeqCst), 2);
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
