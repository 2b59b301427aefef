// SPDX-License-Identifier: Apache-2.0
//! Clients that prove who they are by certificates, and those that cannot.
//!
//! The certificates of `app` and `clerk` are signed by the authority in `client-ca.crt`, the one of `stranger` by another
//! one, for the name `app`.

use super::{encrypted_by, proving, psql, tls_client, try_read_message};
use crate::support::{Message, Running, key_file, server_certificate};
use coeval_server::{Certificate, Server, ServerError, ServerOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, HandshakeKind, StreamOwned};

const RULES: &str = "\
    hostssl all app     all cert\n\
    hostssl all checked all trust         clientcert=verify-ca\n\
    hostssl all full    all trust         clientcert=verify-full\n\
    hostssl all clerk   all scram-sha-256 clientcert=verify-full\n\
    host    all robot   all trust\n";

fn rules_file(directory: &TempDir) -> PathBuf {
    let file = directory.path().join("pg_hba.conf");
    std::fs::write(&file, RULES).unwrap();
    file
}

/// A server with these rules, and its directory.
fn server() -> (Running, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let certificate = Certificate {
        client_authorities: Some("tests/certificate/client-ca.crt".into()),
        ..server_certificate()
    };
    let server = Running::with(ServerOptions {
        certificate: Some(certificate),
        rules_file: Some(rules_file(&directory)),
        ..ServerOptions::default()
    });
    let mut session = server.database.session();
    for role in ["app", "checked", "full", "robot", "clerk PASSWORD 'geheim'"] {
        let (name, more) = role.split_once(' ').unwrap_or((role, ""));
        session.run(&format!("CREATE ROLE {name} LOGIN {more}")).unwrap();
    }
    (server, directory)
}

/// An encrypted connection that asks to be somebody, and the answer to that.
type Asked = (StreamOwned<ClientConnection, TcpStream>, Message);

/// One that asks to be this user, with this certificate.
fn asked(server: &Running, user: &str, own: Option<&str>) -> io::Result<Asked> {
    asked_by(&tls_client(own), server, user)
}

fn asked_by(client: &Arc<ClientConfig>, server: &Running, user: &str) -> io::Result<Asked> {
    let mut raw = server.unopened();
    raw.send(&[&8_u32.to_be_bytes()[..], &80_877_103_u32.to_be_bytes()].concat());
    raw.stream.read_exact(&mut [0])?;
    let mut stream = encrypted_by(client, raw.stream);
    let mut startup = [&196_608_u32.to_be_bytes()[..], format!("user\0{user}\0\0").as_bytes()].concat();
    startup.splice(0..0, (startup.len() as u32 + 4).to_be_bytes());
    stream.write_all(&startup)?;
    let answer = try_read_message(&mut stream)?;
    Ok((stream, answer))
}

fn refusal(message: &Message) -> String {
    format!("{} {}", message.field('C').unwrap(), message.field('M').unwrap())
}

#[test]
fn a_rule_that_demands_a_certificate_lets_nobody_in_without_the_right_one() {
    let (server, _directory) = server();
    let missing = "28000 connection requires a valid client certificate";
    let cases = [
        ("app", Some("app"), None),
        ("app", Some("clerk"), Some("28000 certificate authentication failed for user \"app\"")),
        ("app", None, Some(missing)),
        ("checked", Some("clerk"), None),
        ("checked", None, Some(missing)),
        ("full", Some("app"), Some("28000 \"trust\" authentication failed for user \"full\"")),
        ("full", None, Some(missing)),
        ("clerk", None, Some(missing)),
        ("robot", Some("app"), None),
        ("robot", None, None),
    ];
    for (user, own, expected) in cases {
        let (_, answer) = asked(&server, user, own).unwrap();
        match expected {
            None => assert_eq!((answer.kind, &answer.body[..]), ('R', &[0; 4][..]), "{user} with {own:?}"),
            Some(expected) => assert_eq!(refusal(&answer), expected, "{user} with {own:?}"),
        }
    }
    // One that nobody vouches for is refused before anybody asks who wants to come in.
    for user in ["app", "checked", "robot"] {
        let error = asked(&server, user, Some("stranger")).err().unwrap();
        assert!(error.to_string().contains("UnknownCA"), "{user}: {error}");
    }
    let mut unencrypted = server.unopened();
    unencrypted.send_startup(&[("user", "app")]);
    let refused = refusal(&unencrypted.next().unwrap());
    assert!(
        refused.starts_with("28000 no pg_hba.conf entry") && refused.ends_with("no encryption"),
        "{refused}"
    );
}

#[test]
fn a_certificate_is_verified_anew_for_each_connection_of_a_client() {
    let (server, _directory) = server();
    let client = tls_client(Some("app"));
    for _ in 0..3 {
        let (mut stream, answer) = asked_by(&client, &server, "app").unwrap();
        assert_eq!(answer.kind, 'R');
        // What a client could resume the session with comes with what else the server says.
        while try_read_message(&mut stream).unwrap().kind != 'Z' {}
        assert_eq!(stream.conn.handshake_kind(), Some(HandshakeKind::Full));
    }
}

#[test]
fn a_password_is_good_only_with_a_certificate_of_the_same_name_where_a_rule_says_so() {
    let (server, _directory) = server();
    let attempt = |own: &str, password: &str| {
        let (mut stream, offer) = asked(&server, "clerk", Some(own)).unwrap();
        assert!(proving::offered(&offer).contains(&proving::MECHANISM.to_owned()));
        stream.write_all(&proving::first(proving::MECHANISM, "n,,")).unwrap();
        let challenge = proving::Challenge::of(&try_read_message(&mut stream).unwrap());
        stream.write_all(&challenge.proof(password, "n,,", b"")).unwrap();
        try_read_message(&mut stream).unwrap()
    };
    let proven = attempt("clerk", "geheim");
    assert_eq!((proven.kind, &proven.body[..4]), ('R', &[0, 0, 0, 12][..]), "{proven:?}");
    for (own, password) in [("app", "geheim"), ("clerk", "falsch")] {
        let refused = refusal(&attempt(own, password));
        assert_eq!(refused, "28P01 password authentication failed for user \"clerk\"", "{own} {password}");
    }
}

#[test]
fn rules_that_demand_certificates_need_the_authorities_that_vouch_for_them() {
    let directory = tempfile::tempdir().unwrap();
    let (server, options) = (Running::new(), ServerOptions::default());
    let bound = |options| server.runtime.block_on(Server::bind(&server.database, "127.0.0.1:0", options));
    let file = rules_file(&directory);
    let without = ServerOptions {
        certificate: Some(server_certificate()),
        rules_file: Some(file.clone()),
        ..options.clone()
    };
    match bound(without) {
        Err(ServerError::Rules(message)) => {
            assert!(message.contains("line 1:") && message.contains("--tls-client-ca"), "{message}");
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the server started"),
    }
    let no_certificates = Certificate { client_authorities: Some(file), ..server_certificate() };
    let Err(ServerError::Certificate(message)) =
        bound(ServerOptions { certificate: Some(no_certificates), ..options })
    else {
        panic!("rules were taken for certificates");
    };
    assert!(message.contains("there is no certificate in it"), "{message}");
}

#[test]
fn psql_gets_in_with_the_right_certificate_and_with_no_other() {
    let (server, _directory) = server();
    let with = |own: &str| {
        let key = key_file(&format!("{own}.key"));
        psql(
            &server,
            &format!("sslmode=require sslcert=tests/certificate/{own}.crt sslkey={}", key.display()),
        )
    };
    let Some(output) = with("app") else { return };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && output.stdout == b"1\n", "{said}");
    for (output, expected) in [
        (with("clerk"), "FATAL:  certificate authentication failed for user \"app\""),
        (with("stranger"), "unknown ca"),
        (
            psql(&server, "sslmode=require sslcert=none sslkey=none"),
            "FATAL:  connection requires a valid client certificate",
        ),
        (psql(&server, "sslmode=disable"), "no encryption"),
    ] {
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{said}");
    }
}
