// SPDX-License-Identifier: Apache-2.0
//! Clients as tasks: a thread for each of ten thousand would measure the threads.

use crate::board::{Board, Outcome, Step};
use crate::error::BenchError;
use crate::options::{Options, level_name};
use crate::progress::Progress;
use crate::wire::Server;
use futures::stream::{self, StreamExt, TryStreamExt};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::time::Instant;
use tokio_postgres::{Client, Config, NoTls, Statement};

pub(super) const TABLE: &str = "connection_account";

/// Rows of each active connection.
pub(super) const ROWS_EACH: usize = 100;

/// Reads behind each update.
const SELECTS_EACH: usize = 3;

/// Connections that are being opened at the same time.
const OPENING: usize = 64;

/// Kinds of statement.
pub(super) const UPDATE: usize = 0;
pub(super) const SELECT: usize = 1;
pub(super) const KINDS: usize = 2;

/// Figures that clients write to, by turns: a set for each would take more memory than the server does.
pub(super) const SHARDS: usize = 16;

/// How each client connects.
pub(super) fn configured(server: &Server, options: &Options) -> Config {
    let mut config = server.config().clone();
    let level = level_name(options.isolation).replace(' ', "\\ ");
    config.options(format!("-c default_transaction_isolation={level}"));
    config
}

async fn connect(config: Config, number: usize) -> Result<Client, BenchError> {
    let connected = config.connect(NoTls).await;
    let (client, connection) = connected.map_err(|error| {
        let error = BenchError::from(error);
        BenchError::Answer(format!("connection {} could not be opened: {error}", number + 1))
    })?;
    // How it ended is told to whoever waits for an answer then.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

/// A connection that works.
pub(super) struct Active {
    client: Client,
    update: Statement,
    select: Statement,
    place: usize,
    random: StdRng,
    updates: i64,
}

/// Opens the active connections and prepares their statements.
pub(super) async fn open_active(config: &Config, options: &Options) -> Result<Vec<Active>, BenchError> {
    let seed = options.seed;
    let active = stream::iter(0..options.active_connections).map(|place| async move {
        let client = connect(config.clone(), place).await?;
        let update = format!("UPDATE {TABLE} SET balance = balance + 1 WHERE id = $1");
        let update = client.prepare(&update).await?;
        let select = client.prepare(&format!("SELECT balance FROM {TABLE} WHERE id = $1")).await?;
        let random = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(place as u64));
        Ok::<_, BenchError>(Active { client, update, select, place, random, updates: 0 })
    });
    active.buffer_unordered(OPENING).try_collect().await
}

impl Active {
    /// Updates that have been acknowledged.
    pub(super) fn updates(&self) -> i64 {
        self.updates
    }

    /// A row that nobody else changes.
    fn own_row(&mut self) -> i64 {
        (self.place * ROWS_EACH + self.random.random_range(0..ROWS_EACH)) as i64
    }

    /// Works until the board says stop.
    pub(super) async fn work(mut self, board: Arc<Board>) -> Result<Self, BenchError> {
        while !board.is_stopped() {
            self.step(&board).await.inspect_err(|_| board.stop())?;
        }
        Ok(self)
    }

    /// An update, and the reads behind it.
    async fn step(&mut self, board: &Board) -> Result<(), BenchError> {
        let row = self.own_row();
        let started = Instant::now();
        let mut conflicts = 0;
        loop {
            match self.client.execute(&self.update, &[&row]).await.map_err(BenchError::from) {
                Ok(1) => break,
                Ok(rows) => return Err(BenchError::Answer(format!("{rows} rows of one were changed"))),
                Err(error) if error.is_conflict() => conflicts += 1,
                Err(error) => return Err(error),
            }
        }
        self.updates += 1;
        let step = |kind, conflicts| Step { kind, outcome: Outcome::Committed, conflicts };
        board.record(self.place % SHARDS, step(UPDATE, conflicts), started.elapsed());
        for _ in 0..SELECTS_EACH {
            if board.is_stopped() {
                break;
            }
            let row = self.own_row();
            let started = Instant::now();
            self.client.query_one(&self.select, &[&row]).await?;
            board.record(self.place % SHARDS, step(SELECT, 0), started.elapsed());
        }
        Ok(())
    }
}

/// Connections that have nothing to do.
pub(super) struct Idle {
    clients: Vec<Client>,
}

impl Idle {
    /// Opens so many.
    pub(super) async fn open(
        config: &Config,
        count: usize,
        progress: &dyn Progress,
    ) -> Result<Self, BenchError> {
        let clients = stream::iter(0..count).map(|number| connect(config.clone(), number));
        let clients = clients.buffer_unordered(OPENING).inspect(|_| progress.advance(1));
        Ok(Self { clients: clients.try_collect().await? })
    }

    /// Has each of them read a row by its key, with a statement that it prepares and forgets.
    pub(super) async fn run_a_statement_each(&self) -> Result<(), BenchError> {
        let select = format!("SELECT balance FROM {TABLE} WHERE id = $1");
        let answers = stream::iter(&self.clients).map(|client| client.query_one(&select, &[&0_i64]));
        answers.buffer_unordered(OPENING).try_for_each(|_| std::future::ready(Ok(()))).await?;
        Ok(())
    }
}
