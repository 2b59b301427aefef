// SPDX-License-Identifier: Apache-2.0
//! What a run is asked to do. The command line fills these; no parsing happens here.

use crate::foreign::Way;
use crate::machine::ProcessId;
use coeval::{Durability, Isolation};
use coeval_tique::Certification;
use std::path::PathBuf;

/// The workloads by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// TPC-C: five transaction types over nine tables.
    Tpcc,
    /// TPC-H: 22 queries, optionally over updated tables.
    Tpch,
    /// CH-benCHmark: TPC-C's transactions beside 22 analytical queries on the same tables.
    Chbench,
    /// YCSB: reads, updates and inserts by key.
    Ycsb,
    /// Get by primary key, against a `BTreeMap` in the same process.
    Get,
    /// Bulk load of TPC-H tables from Parquet files.
    Load,
    /// Time to open: log replay, and a clean directory with secondary indexes.
    Recovery,
    /// TiQuE on one of its engines, beside the engine by itself.
    Tique,
    /// Appends to lists and reads of them, recorded and looked through for anomalies.
    ListAppend,
    /// TiQuE 4.3.4: one transaction of a thousand operations among short ones, with priority and without.
    Priority,
    /// RSS: terminals beside analytical queries under SSI, DEFERRABLE and on safe snapshots.
    Rss,
    /// How processors are shared: terminals and streams of queries alone, beside each other, and beside threads that burn.
    Sharing,
    /// Connections to a server, few of which are busy.
    Connections,
    /// RSS on two nodes: terminals on a primary, analytical queries on a replica, and what replicas cost and give.
    Replica,
    /// AOSI on many nodes: scans and loads on two nodes and on one, what a small load takes, and its messages.
    Cluster,
    /// AOSI: what epochs take of memory beside the rows of brick tables.
    AosiMemory,
    /// AOSI: what epochs take of a query's time while others load.
    AosiLatency,
    /// AOSI: rows per second into brick tables, by Arrow appends and COPY.
    AosiIngest,
    /// Scans and aggregates of a brick table.
    AosiScan,
}

impl Workload {
    /// All of them, in the order they are listed to users.
    pub const ALL: [Self; 19] = [
        Self::Tpcc,
        Self::Tpch,
        Self::Chbench,
        Self::Ycsb,
        Self::Get,
        Self::Load,
        Self::Recovery,
        Self::Tique,
        Self::ListAppend,
        Self::Priority,
        Self::Rss,
        Self::Sharing,
        Self::Connections,
        Self::Replica,
        Self::Cluster,
        Self::AosiMemory,
        Self::AosiLatency,
        Self::AosiIngest,
        Self::AosiScan,
    ];

    /// The name on the command line and in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tpcc => "tpcc",
            Self::Tpch => "tpch",
            Self::Chbench => "chbench",
            Self::Ycsb => "ycsb",
            Self::Get => "get",
            Self::Load => "load",
            Self::Recovery => "recovery",
            Self::Tique => "tique",
            Self::ListAppend => "list-append",
            Self::Priority => "priority",
            Self::Rss => "rss",
            Self::Sharing => "sharing",
            Self::Connections => "connections",
            Self::Replica => "replica",
            Self::Cluster => "cluster",
            Self::AosiMemory => "aosi-memory",
            Self::AosiLatency => "aosi-latency",
            Self::AosiIngest => "aosi-ingest",
            Self::AosiScan => "aosi-scan",
        }
    }

    /// The workload of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|workload| workload.name() == name)
    }
}

/// A level as SQL spells it.
pub(crate) const fn level_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "read committed",
        Isolation::Snapshot => "repeatable read",
        Isolation::Serializable => "serializable",
    }
}

/// Through which door transactions enter the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// `db.transaction(..)` with keys and rows.
    Typed,
    /// Prepared SQL statements in an embedded session.
    Sql,
}

impl Api {
    /// The name on the command line and in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Typed => "typed",
            Self::Sql => "sql",
        }
    }
}

/// How TPC-C reads through SQL what it is about to write with values made from what it read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateReads {
    /// With `FOR NO KEY UPDATE`: terminals wait for each other instead of failing.
    Locking,
    /// As any other row. Not at READ COMMITTED, where each statement has a snapshot of its own and updates would be lost.
    Plain,
}

impl UpdateReads {
    /// The name in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Locking => "for no key update",
            Self::Plain => "plain",
        }
    }
}

/// How statements that do not depend on each other go to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// Together, as drivers send batches.
    Batched,
    /// Each when the one before has been answered.
    OneByOne,
}

impl Sending {
    /// The name in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Batched => "batched",
            Self::OneByOne => "one by one",
        }
    }
}

/// How the transactions of query streams are declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Read-only at REPEATABLE READ.
    Snapshot,
    /// Read-only at SERIALIZABLE, on the current world: what they read is tracked, and they may be refused.
    Ssi,
    /// Read-only at SERIALIZABLE and DEFERRABLE: they wait until nothing need be tracked.
    Deferrable,
    /// Read-only at SERIALIZABLE, on safe snapshots where the system has them.
    Safe,
}

impl Readers {
    /// The name on the command line and in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Ssi => "ssi",
            Self::Deferrable => "deferrable",
            Self::Safe => "safe",
        }
    }

    /// What a stream says once, when it has connected.
    pub(crate) const fn setting(self) -> &'static str {
        match self {
            Self::Ssi => "SET coeval.read_only_snapshot = 'current'",
            Self::Snapshot | Self::Deferrable | Self::Safe => "SET coeval.read_only_snapshot = 'safe'",
        }
    }

    /// How each of its transactions begins.
    pub(crate) const fn begin(self) -> &'static str {
        match self {
            Self::Snapshot => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            Self::Ssi | Self::Safe => "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY",
            Self::Deferrable => "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
        }
    }
}

/// How much of the specification's population is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Population {
    /// What the specification says.
    Full,
    /// A small fraction for tests. Reported; figures of such a run mean nothing.
    Tiny,
}

/// How keys are chosen in YCSB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChoice {
    /// Every key equally likely.
    Uniform,
    /// Zipf with exponent 0.99 over scrambled keys.
    Zipfian,
}

/// Which share of reads, updates and inserts YCSB makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YcsbMix {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads only.
    C,
    /// New rows only.
    Insert,
}

/// TiQuE's experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TiquePart {
    /// Point reads, commits, increments, and long transactions among short ones.
    Points,
    /// TPC-C with 1 to 16 clients (Figure 7).
    Tpcc,
    /// TPC-C whose transactions keep to fewer and fewer warehouses (Figure 8).
    Contention,
    /// The 22 queries of CH-benCHmark over what a run of TPC-C left in the caches (Figure 9).
    Queries,
    /// Terminals beside streams of queries (Figures 10 and 11).
    Hybrid,
    /// One long transaction among short ones, without priority and with it (Figure 12).
    Long,
    /// The time of certification by the sizes of write set and cache.
    Certification,
}

impl TiquePart {
    /// All of them, in the order they are listed to users.
    pub const ALL: [Self; 7] = [
        Self::Points,
        Self::Tpcc,
        Self::Contention,
        Self::Queries,
        Self::Hybrid,
        Self::Long,
        Self::Certification,
    ];

    /// The name on the command line and in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Points => "points",
            Self::Tpcc => "tpcc",
            Self::Contention => "contention",
            Self::Queries => "queries",
            Self::Hybrid => "hybrid",
            Self::Long => "long",
            Self::Certification => "certification",
        }
    }
}

/// Everything a run can be told. [`Options::default`] is a run that makes sense for every workload.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database directory; a temporary one that is removed afterwards if `None`.
    pub dir: Option<PathBuf>,
    /// The server to measure instead of an embedded database (`postgres://user@host:port/database`).
    pub url: Option<String>,
    /// The first process of that server, if it runs on this machine: what it uses is not foreign.
    pub server_process: Option<ProcessId>,
    /// Connections, replica, cluster: the program `coeval`, to start servers of it; connections only if there is no URL.
    pub server_program: Option<PathBuf>,
    /// Connections: how many there are.
    pub connections: usize,
    /// Connections: how many of them are busy.
    pub active_connections: usize,
    /// How statements go to that server.
    pub sending: Sending,
    /// How TPC-C reads through SQL what it is about to write.
    pub update_reads: UpdateReads,
    /// TPC-C's and CH-benCHmark's size.
    pub warehouses: u32,
    /// TPC-H's size; 1 is about 1 GB as text.
    pub scale: f64,
    /// Rows of the key workloads, and of AOSI's; cluster: rows that are scanned.
    pub rows: u64,
    /// Threads that run transactions, and threads of the query engine.
    pub threads: usize,
    /// How long to measure, after a tenth of that as warm-up.
    pub seconds: f64,
    /// The level of the transactions.
    pub isolation: Isolation,
    /// Whether a commit waits for the disk.
    pub durability: Durability,
    /// Typed API or SQL.
    pub api: Api,
    /// The seed of all random choices.
    pub seed: u64,
    /// Full size or a size for tests.
    pub population: Population,
    /// CH-benCHmark, RSS, sharing, replica: query streams beside the terminals; sharing: two at least; replica: at most.
    pub streams: usize,
    /// CH-benCHmark: how the transactions of the streams are declared.
    pub readers: Readers,
    /// TPC-H: share of `lineitem` and `orders` updated at random keys before measuring.
    pub update_fraction: f64,
    /// TPC-H: how often each query is measured; RSS, connections, replica and cluster: how often each way is. The
    /// median counts.
    pub runs: usize,
    /// TPC-H: where to write the tables as Parquet files; nothing else is done then.
    pub write_parquet: Option<PathBuf>,
    /// TPC-H, load: read the tables from these Parquet files instead of generating them.
    pub read_parquet: Option<PathBuf>,
    /// TPC-H: where to write each query's answer as CSV, for comparison.
    pub write_answers: Option<PathBuf>,
    /// YCSB's mix.
    pub ycsb_mix: YcsbMix,
    /// YCSB's key choice.
    pub key_choice: KeyChoice,
    /// Recovery: size of the log to replay.
    pub log_bytes: u64,
    /// TiQuE: the engine.
    pub engine: String,
    /// TiQuE: the engine's library, if it is one.
    pub engine_library: Option<PathBuf>,
    /// TiQuE: where the engine's server is, if it is one.
    pub engine_address: Option<String>,
    /// TiQuE: which of its experiments.
    pub tique_part: TiquePart,
    /// TiQuE: with it, or the engine by itself.
    pub way: Way,
    /// TiQuE: where transactions are certified.
    pub certification: Certification,
    /// TPC-C: 99 in 100 transactions keep to so many warehouses; all of them if 0.
    pub hot_warehouses: i32,
    /// List-append: transactions to record.
    pub transactions: u64,
    /// List-append: where to write the history, in EDN as Elle reads it.
    pub out: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dir: None,
            url: None,
            server_process: None,
            server_program: None,
            connections: 10_000,
            active_connections: 1_000,
            sending: Sending::Batched,
            update_reads: UpdateReads::Locking,
            warehouses: 1,
            scale: 1.0,
            rows: 1_000_000,
            threads: 2,
            seconds: 10.0,
            isolation: Isolation::Snapshot,
            durability: Durability::Fsync,
            api: Api::Typed,
            seed: 1,
            population: Population::Full,
            streams: 1,
            readers: Readers::Snapshot,
            update_fraction: 0.0,
            runs: 3,
            write_parquet: None,
            read_parquet: None,
            write_answers: None,
            ycsb_mix: YcsbMix::A,
            key_choice: KeyChoice::Zipfian,
            log_bytes: 1 << 30,
            engine: "datafusion".to_owned(),
            engine_library: None,
            engine_address: None,
            tique_part: TiquePart::Points,
            way: Way::Tique,
            certification: Certification::InEngine,
            hot_warehouses: 0,
            transactions: 100_000,
            out: None,
        }
    }
}
