// SPDX-License-Identifier: Apache-2.0
//! Real clients against `coeval serve`: psql, pgbench, pg_dump, psycopg, asyncpg, SQLAlchemy, pgjdbc, node-postgres, pgx;
//! and random queries, expressions, operators, changes, sessions and loads, which PostgreSQL has to answer in the same way.
//!
//! Each client is a small program in a folder beside this file, which says what it found when that is not what it
//! wanted. What they want is what PostgreSQL 15 gives: `COEVAL_CLIENTS_SERVER=host:port` runs them all against such a
//! server instead, whose superuser is called `coeval` and may connect without a password.
//!
//! A client that is not installed is reported as skipped, by its name and with what installs it; with
//! `COEVAL_CLIENTS=required` that fails. The script `install` installs them all.
#![allow(clippy::unwrap_used)]

mod places;
mod program;
mod server;
#[path = "../../../../tests/skipping.rs"]
mod skipping;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use places::Places;
use program::{Expected, Program};
use server::Server;
use skipping::needed;
use std::sync::Arc;

/// A client: its name, what installs it, and how its program is started if it is there.
struct Client {
    name: &'static str,
    installed_by: &'static str,
    program: fn(&Places) -> Option<Program>,
}

/// What installs that which random statements need.
const BESIDE_POSTGRES: &str = "apt-get install postgresql-15 and pip install 'psycopg[binary]'";

const CLIENTS: &[Client] = &[
    Client {
        name: "psql, definitions",
        installed_by: "apt-get install postgresql-client-15",
        program: |places| places.psql("describe"),
    },
    Client {
        name: "psql, statements",
        installed_by: "apt-get install postgresql-client-15",
        program: |places| places.psql("statements"),
    },
    Client {
        name: "psql, COPY",
        installed_by: "apt-get install postgresql-client-15",
        program: |places| places.psql("copy"),
    },
    Client { name: "pgbench", installed_by: "apt-get install postgresql-15", program: Places::pgbench },
    Client {
        name: "pg_dump",
        installed_by: "apt-get install postgresql-client-15",
        program: Places::pg_dump,
    },
    Client {
        name: "psycopg",
        installed_by: "pip install 'psycopg[binary]'",
        program: |places| places.python("psycopg_client.py", &["psycopg"]),
    },
    Client {
        name: "asyncpg",
        installed_by: "pip install asyncpg",
        program: |places| places.python("asyncpg_client.py", &["asyncpg"]),
    },
    Client {
        name: "SQLAlchemy",
        installed_by: "pip install 'sqlalchemy[asyncio]' 'psycopg[binary]' asyncpg",
        program: |places| {
            places.python("sqlalchemy_client.py", &["sqlalchemy", "greenlet", "psycopg", "asyncpg"])
        },
    },
    Client {
        name: "random queries",
        installed_by: BESIDE_POSTGRES,
        program: |places| places.random("random_queries.py"),
    },
    Client {
        name: "random expressions",
        installed_by: BESIDE_POSTGRES,
        program: |places| places.random("random_expressions.py"),
    },
    Client {
        name: "random operators",
        installed_by: BESIDE_POSTGRES,
        program: |places| places.random("random_operators.py"),
    },
    Client {
        name: "random patterns",
        installed_by: BESIDE_POSTGRES,
        program: |places| places.random("random_patterns.py"),
    },
    Client {
        name: "random changes",
        installed_by: BESIDE_POSTGRES,
        program: |places| places.random("random_changes.py"),
    },
    Client {
        name: "random sessions",
        installed_by: BESIDE_POSTGRES,
        program: |places| places.random("random_sessions.py"),
    },
    Client {
        name: "random bricks",
        installed_by: BESIDE_POSTGRES,
        program: |places| places.random_with_kills("random_bricks.py"),
    },
    Client {
        name: "pgjdbc",
        installed_by: "a JDK and tests/clients/install",
        program: |places| places.pgjdbc("PgjdbcClient.java"),
    },
    Client {
        name: "node-postgres",
        installed_by: "npm install pg pg-cursor pg-query-stream",
        program: Places::node,
    },
    Client {
        name: "pgx",
        installed_by: "go mod download, in tests/clients/pgx",
        program: |places| places.pgx("."),
    },
];

/// Clients that are given a replica and its primary, and are to find the one that they ask for.
const CLIENTS_OF_SEVERAL_HOSTS: &[Client] = &[
    Client {
        name: "psql, several hosts",
        installed_by: "apt-get install postgresql-client-15",
        program: Places::psql_of_several_hosts,
    },
    Client {
        name: "psycopg, several hosts",
        installed_by: "pip install 'psycopg[binary]'",
        program: |places| places.python("several_hosts.py", &["psycopg"]),
    },
    Client {
        name: "pgjdbc, several hosts",
        installed_by: "a JDK and tests/clients/install",
        program: |places| places.pgjdbc("SeveralHosts.java"),
    },
    Client {
        name: "pgx, several hosts",
        installed_by: "go mod download, in tests/clients/pgx",
        program: |places| places.pgx("./hosts"),
    },
];

/// Runs the client's program against what `start` starts.
fn run(
    client: &Client,
    places: &Places,
    start: impl FnOnce() -> Option<Server>,
) -> Result<Completion, Failed> {
    let program = (client.program)(places);
    let Some(program) = needed(&format!("client {}", client.name), program) else {
        let reason = format!("skipped: {} ({})", client.name, client.installed_by);
        return if places.all_are_required() {
            Err(Failed::from(reason))
        } else {
            Ok(Completion::ignored_with(reason))
        };
    };
    let Some(server) = start() else {
        return Ok(Completion::ignored_with("skipped: beside another server it has no replica"));
    };
    let ended = program::run(program.command, &server);
    match (program.expected, ended.is_success) {
        (Expected::Success, true) => Ok(Completion::Completed),
        (Expected::Output(wanted), true) if wanted == ended.output => Ok(Completion::Completed),
        (Expected::Output(wanted), true) => Err(program::difference(&wanted, &ended.output).into()),
        (_, false) => Err(ended.output.into()),
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let places = Arc::new(Places::find());
    let of_one = CLIENTS.iter().map(|client| {
        let places = Arc::clone(&places);
        let server = move || run(client, &places, || Some(Server::start(client.name, &places)));
        Trial::ignorable_test(client.name, server)
    });
    let of_several = CLIENTS_OF_SEVERAL_HOSTS.iter().map(|client| {
        let places = Arc::clone(&places);
        Trial::ignorable_test(client.name, move || run(client, &places, Server::replica_and_primary))
    });
    let trials = of_one.chain(of_several).collect();
    libtest_mimic::run(&arguments, trials).exit();
}
