// SPDX-License-Identifier: Apache-2.0
//! Connections of replicas, and of the command that compares them, over TLS: whoever is not who the certificate says is refused.

use super::*;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

/// Certificates for `localhost`, each its own authority, and keys.
const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../coeval-server/tests/certificate");

/// The role of replicas comes encrypted, or not at all.
const RULES: &str =
    "hostssl replication,all follower 127.0.0.1/32 trust\nhost all coeval 127.0.0.1/32 trust\n";

/// A server that offers TLS.
fn encrypting(parent: &Path, dir: &Path, options: &[&str]) -> Server {
    let (key, rules) = (parent.join("server.key"), parent.join("rules"));
    std::fs::copy(Path::new(CERTIFICATES).join("server.key"), &key).unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&rules, RULES).unwrap();
    let certificate = format!("{CERTIFICATES}/server.crt");
    let (key, rules) = (key.to_str().unwrap(), rules.to_str().unwrap());
    let mut all = vec!["--tls-cert", &certificate, "--tls-key", key, "--hba", rules];
    all.extend(options);
    Server::start(dir, 0, &all)
}

#[test]
fn a_replica_follows_and_is_compared_over_tls_with_who_has_the_right_certificate() {
    let (parent, primary_dir, copy_dir) = directories();
    let primary = encrypting(parent.path(), &primary_dir, &[]);
    let sql = Sql::open(primary.port);
    sql.run("CREATE ROLE follower LOGIN REPLICATION SUPERUSER; CREATE TABLE t (n int PRIMARY KEY)").unwrap();
    let place = |port: u16, trusted: &str| {
        format!("host=localhost,port={port},user=follower,sslrootcert={CERTIFICATES}/{trusted}")
    };
    let copied = |words: &str| {
        let mut command = Command::new(PROGRAM);
        let ended = bounded::output(command.arg("serve").arg(&copy_dir).args(["--replica-of", words]));
        assert!(!ended.status.success());
        String::from_utf8_lossy(&ended.stderr).into_owned()
    };
    // Somebody else's authority, no authority at all, and no encryption.
    let said = copied(&place(primary.port, "stranger.crt"));
    assert!(said.contains("certificate"), "{said}");
    let said = copied(&place(primary.port, "server.key"));
    assert!(said.contains("there is no certificate in it"), "{said}");
    let plain = format!("host=127.0.0.1,port={},user=follower", primary.port);
    let said = copied(&plain);
    assert!(said.contains("no pg_hba.conf entry"), "{said}");

    let words = place(primary.port, "server.crt");
    let replica = encrypting(parent.path(), &copy_dir, &["--replica-of", &words]);
    sql.run("INSERT INTO t SELECT g FROM generate_series(1, 1000) g").unwrap();
    wait_for(&Sql::open(replica.port), &sql);
    let compared = |replica: &str, primary: &str| {
        let arguments = ["check", "--replica", replica, "--against", primary];
        let ended = bounded::output(Command::new(PROGRAM).args(arguments));
        let said = [ended.stdout, ended.stderr].concat();
        (ended.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let (is_equal, said) = compared(&place(replica.port, "server.crt"), &words);
    assert!(is_equal && said.contains("1 tables, 1,000 rows compared"), "{said}");
    let (is_equal, said) = compared(&place(replica.port, "stranger.crt"), &words);
    assert!(!is_equal && said.contains("certificate"), "{said}");
    let (is_equal, said) = compared(&place(replica.port, "server.crt"), &plain);
    assert!(!is_equal && said.contains("no pg_hba.conf entry"), "{said}");
}
