// SPDX-License-Identifier: Apache-2.0
//! `coeval serve --engine` as a process: tables go to the engine, and are there again when it is started again.

// Helper functions of a test are a test too.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/bounded.rs"]
mod bounded;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

struct Served {
    process: Child,
    address: String,
}

impl Served {
    fn start(directory: &Path, engine: &str, options: &[&str]) -> Result<Self, String> {
        let mut process = Command::new(env!("CARGO_BIN_EXE_coeval"))
            .arg("serve")
            .arg(directory)
            .args(["--listen", "127.0.0.1:0", "--engine", engine])
            .args(options.iter().flat_map(|option| ["--engine-option", option]))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut before = Vec::new();
        let _alarm = bounded::Alarm::set(&process, bounded::END_PATIENCE);
        for line in said.by_ref() {
            let line = line.unwrap();
            if let Some(address) = line.strip_prefix("Listening on ") {
                // It must not wait for somebody to read what it says.
                std::thread::spawn(move || said.count());
                return Ok(Self { process, address: address.to_owned() });
            }
            before.push(line);
        }
        assert!(!bounded::status(&mut process, "a server that does not listen").success());
        Err(before.join("\n"))
    }

    /// A client, its own driver behind it.
    async fn connect(&self) -> Client {
        let (host, port) = self.address.rsplit_once(':').unwrap();
        let config = format!("host={host} port={port} user=coeval dbname=coeval");
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn tables_go_to_the_engine_and_are_there_behind_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("data");
    let runtime = Runtime::new().unwrap();
    {
        let served = Served::start(&place, "datafusion", &["certification=process"]).unwrap();
        runtime.block_on(async {
            let mut client = served.connect().await;
            client.batch_execute("CREATE TABLE t (k int PRIMARY KEY, v text)").await.unwrap();
            let transaction = client.transaction().await.unwrap();
            let insert = transaction.prepare("INSERT INTO t VALUES ($1, $2)").await.unwrap();
            for (key, word) in [(1, "one"), (2, "two")] {
                transaction.execute(&insert, &[&key, &word]).await.unwrap();
            }
            transaction.commit().await.unwrap();
            let plan = client.query("EXPLAIN SELECT v FROM t WHERE k = 1", &[]).await.unwrap();
            let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
            assert!(plan.join("\n").contains("t_cache"), "the engine's own plan: {plan:?}");
            let refused = client.execute("INSERT INTO t VALUES (1, 'again')", &[]).await.unwrap_err();
            assert_eq!(refused.code().unwrap().code(), "23505");
        });
    }
    let served = Served::start(&place, "datafusion", &[]).unwrap();
    runtime.block_on(async {
        let client = served.connect().await;
        let row = client.query_one("SELECT v FROM t WHERE k = $1", &[&2]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), "two");
    });
    drop(served);
    let refused = Served::start(&place, "duckdb", &["library=nowhere.so"]).map(drop).unwrap_err();
    assert!(refused.contains("another engine than duckdb"), "{refused}");
}

#[test]
fn what_keeps_an_engine_from_being_opened_is_said_and_nothing_is_served() {
    let directory = tempfile::tempdir().unwrap();
    for (engine, options, said) in [
        ("no", &[][..], "there is no engine"),
        ("duckdb", &["library=nowhere.so"][..], "fetch-duckdb"),
        ("datafusion", &["library=x"][..], "has no option"),
        ("postgresql", &["library=nowhere.so"][..], "fetch-adbc postgresql"),
    ] {
        let refused = Served::start(&directory.path().join("data"), engine, options).map(drop).unwrap_err();
        assert!(refused.contains(said), "{engine}: {refused}");
    }
}
