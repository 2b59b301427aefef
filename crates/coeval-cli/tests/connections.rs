// SPDX-License-Identifier: Apache-2.0
//! Many connections: `coeval serve` and `coeval bench connections` as processes, under limits of open files.

// Helper functions of a test are a test too.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/bounded.rs"]
mod bounded;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use tokio_postgres::NoTls;

/// The program under a limit of open files, as `ulimit` is told.
fn limited(ulimit: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit {ulimit} && exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_coeval")]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A server of a database in memory.
struct Served {
    process: Child,
    port: u16,
    /// What it said before it listened.
    said: Vec<String>,
}

impl Served {
    fn start(ulimit: &str) -> Self {
        let arguments = ["serve", "--in-memory", "--listen", "127.0.0.1:0"];
        let mut process = limited(ulimit, &arguments).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut said = Vec::new();
        let _alarm = bounded::Alarm::set(&process, bounded::END_PATIENCE);
        for line in lines.by_ref() {
            if let Some(port) = line.strip_prefix("Listening on 127.0.0.1:") {
                let port = port.parse().unwrap();
                std::thread::spawn(move || lines.count());
                return Self { process, port, said };
            }
            said.push(line);
        }
        panic!("it did not start ({:?}): {said:?}", process.wait());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_server_has_more_sessions_than_files_it_may_open_at_first() {
    let served = Served::start("-Sn 64");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(served.port).user("tester").dbname("coeval");
        config.connect_timeout(std::time::Duration::from_secs(20));
        let mut clients = Vec::new();
        for _ in 0..100 {
            let opening = tokio::time::timeout(std::time::Duration::from_secs(20), config.connect(NoTls));
            let (client, connection) = opening.await.expect("the server answers").unwrap();
            tokio::spawn(connection);
            clients.push(client);
        }
        for client in &clients {
            client.simple_query("SELECT 1").await.unwrap();
        }
    });
}

#[test]
fn a_server_says_that_it_has_room_for_fewer_sessions_than_asked_for() {
    let served = Served::start("-n 100");
    let is_warning = |line: &String| line.contains("limit=100") && line.contains("sessions=19");
    assert!(served.said.iter().any(is_warning), "{:?}", served.said);
}

/// Who only opened connections took the last files of the process: a checkpoint of the others failed with 58030, and so
/// would have the next segment of the log, behind which nothing is committed any more.
#[test]
fn clients_that_only_connect_leave_files_to_the_database() {
    const FILES: usize = 100;
    let served = Served::start(&format!("-n {FILES}"));
    let files = || std::fs::read_dir(format!("/proc/{}/fd", served.process.id())).unwrap().count();
    let without_clients = files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(served.port).user("tester").dbname("coeval");
    let connect = || {
        let (client, connection) = runtime.block_on(config.connect(NoTls)).unwrap();
        runtime.spawn(connection);
        client
    };
    let clients: Vec<_> = (0..15).map(|_| connect()).collect();
    let mut silent = Vec::new();
    let mut most = 0;
    for _ in 0..300 {
        silent.push(std::net::TcpStream::connect(("127.0.0.1", served.port)).unwrap());
        most = most.max(files());
    }
    // Half of all files are kept. One connection is accepted before it has room, and the program may read something.
    assert!(most <= without_clients + FILES / 2 + 4, "{without_clients} files, then {most}");
    runtime.block_on(async {
        for client in &clients {
            client.simple_query("SELECT 1").await.unwrap();
        }
    });
    // And whoever wants a session gets one.
    let newcomer = connect();
    runtime.block_on(newcomer.simple_query("SELECT 1")).unwrap();
}

#[test]
fn the_benchmark_of_connections_starts_its_server_and_says_if_files_are_too_few() {
    let arguments =
        ["bench", "connections", "--connections", "150", "--active", "5", "--seconds", "0.3", "--runs", "1"];
    let ended = bounded::output(&mut limited("-Sn 100", &arguments));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{said}");
    let line = String::from_utf8(ended.stdout).unwrap();
    let report: serde_json::Value = serde_json::from_str(line.lines().last().unwrap()).unwrap();
    let figures = &report["figures"];
    for name in ["resident_with_idle_bytes", "server_threads", "beside_transactions_per_s"] {
        assert!(figures[name].as_f64().unwrap() > 0.0, "{name} in {line}");
    }
    assert_eq!((&figures["connections"], &report["checks"]["lost_updates"]), (&150.into(), &0.into()));

    let refused = bounded::output(&mut limited("-n 100", &arguments));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("150 connections need 662 open files, and this process may have 100"), "{said}");
}
