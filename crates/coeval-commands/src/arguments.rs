// SPDX-License-Identifier: Apache-2.0
//! The command line.

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use clap::{Args, Parser, Subcommand};
use coeval::{Durability, Isolation, QUERY_MEMORY_MIN};
use coeval_bench::{
    Api, Certification, KeyChoice, Options, Population, ProcessId, Readers, Sending, TiquePart, UpdateReads,
    Way, Workload, YcsbMix,
};
use std::path::PathBuf;

mod asked;
mod cluster;
mod demo;
mod feed;
mod first_steps;
mod in_memory;
mod keep;

pub(crate) use asked::AskedArguments;
pub(crate) use cluster::{
    AskedNodeArguments, ClusterArguments, ClusterCommand, ClusterRecoverArguments, ClusterStatusArguments,
    NodeNumbers, ServedNodeArguments,
};
pub(crate) use demo::DemoArguments;
pub(crate) use feed::{FeedArguments, FeedFormat};
pub(crate) use first_steps::{
    CompletionsArguments, DoctorArguments, Example, InitArguments, ManualArguments,
};
use in_memory::{OF_ITS_PROGRAM, archive, directory_alone};
pub(crate) use keep::KeepArguments;

/// Coeval: transactions and analytics on the same live data.
#[derive(Debug, Parser)]
#[command(
    name = "coeval",
    version,
    after_help = "\
Examples:
  coeval demo                       transactions and analytics on the same live data, in about a minute
  coeval init --example shop shop   a new database in the directory shop, with data to play with
  coeval sql my-data                SQL on the database in the directory my-data
  coeval serve my-data              the same for psql, drivers and tools of PostgreSQL
  coeval bench tpcc --threads 8     a measured workload
  coeval check my-data              is everything in the directory as it should be?
  coeval doctor my-data             is this machine, and this disk, good for a database?
  coeval backup my-data DIR         to an archive; serve --archive does it all the while, restore brings it back
  coeval feed host=db1,user=copy    committed transactions as they come, rows before and after, as JSON
  coeval check-history run.edn      is there a serial order of what clients were told?

Exit codes: 0 all is well, 1 something failed, 2 the command line makes no sense.",
    max_term_width = 110
)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(DemoArguments),
    Init(InitArguments),
    Sql(SqlArguments),
    Serve(Box<ServeArguments>),
    Promote(PromoteArguments),
    Backup(BackupArguments),
    Restore(RestoreArguments),
    Feed(Box<FeedArguments>),
    Cluster(ClusterArguments),
    Bench(Box<BenchArguments>),
    Check(CheckArguments),
    CheckHistory(CheckHistoryArguments),
    Doctor(DoctorArguments),
    Completions(CompletionsArguments),
    Manual(ManualArguments),
}

/// Run SQL statements: at the terminal, from files, or from a pipe
///
/// At a terminal this is a conversation with history, completion and statements of several lines; `\?` lists its
/// commands. Otherwise statements are read from the standard input. Files and pipes stop at the first statement that
/// fails.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval sql my-data
  coeval sql :memory:
  coeval sql my-data -c 'SELECT count(*) FROM orders'
  coeval sql my-data -f schema.sql -f rows.sql
  echo 'SELECT 1 + 1' | coeval sql")]
pub(crate) struct SqlArguments {
    /// The database directory, made if it is not there; without one, or with :memory:, the database lives in memory
    #[arg(value_name = "DIR", conflicts_with = "in_memory")]
    pub(crate) dir: Option<PathBuf>,
    /// Open a damaged database to be read only: tables that cannot be read are errors, the others are as they were
    #[arg(long, requires = "dir", conflicts_with = "in_memory")]
    pub(crate) salvage: bool,
    /// A new database in memory, gone at the end
    #[arg(long)]
    pub(crate) in_memory: bool,
    /// Run this and leave; several statements in one are one transaction. May be given more than once
    #[arg(short = 'c', long = "command", value_name = "COMMAND", allow_hyphen_values = true)]
    pub(crate) commands: Vec<String>,
    /// Run the statements of this file and leave, after all -c; - is the standard input. May be given more than once
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(crate) files: Vec<String>,
}

/// Serve a database to psql and to drivers and tools of PostgreSQL
///
/// Without a role, whoever connects over the loopback is trusted under any name, and nothing else can be listened on.
/// With one, everybody needs its password (SCRAM-SHA-256). Ctrl-C and SIGTERM let transactions end for a while; the
/// second time the program ends at once. What happens is logged to stderr; COEVAL_LOG chooses (error, warn, info,
/// debug).
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  coeval serve my-data
  coeval serve --in-memory --listen 127.0.0.1:6432
  coeval serve my-data --engine duckdb --engine-option library=libduckdb.so
  coeval serve my-copy --replica-of host=db1,user=copy --replica-password-file secret
  coeval serve my-copy --replica-of archive=/mnt/archive
  coeval serve my-data --listen 0.0.0.0:5432 --user app --password-file secret --tls-cert server.crt --tls-key server.key
  psql -h 127.0.0.1 -U me coeval")]
pub(crate) struct ServeArguments {
    /// The database directory, made if it is not there; :memory: is the same as --in-memory
    #[arg(value_name = "DIR", conflicts_with = "in_memory", required_unless_present = "in_memory")]
    pub(crate) dir: Option<PathBuf>,
    /// Open a damaged database to be read only: tables that cannot be read are errors, the others are as they were
    #[arg(long, requires = "dir", conflicts_with = "in_memory")]
    pub(crate) salvage: bool,
    /// A new database in memory, gone at the end
    #[arg(long)]
    pub(crate) in_memory: bool,
    /// Keep new tables in this engine, with snapshot isolation that TiQuE gives it: datafusion, duckdb, monetdb,
    /// postgresql, sqlite
    #[arg(long, value_name = "NAME")]
    pub(crate) engine: Option<String>,
    /// An option of the engine, as in library=/usr/lib/libduckdb.so. May be given more than once
    #[arg(long = "engine-option", value_name = "NAME=VALUE", requires = "engine", value_parser = engine_option)]
    pub(crate) engine_options: Vec<(String, String)>,
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5432", value_parser = host_and_port)]
    pub(crate) listen: String,
    /// The role that may open sessions; it may do everything
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub(crate) user: Option<String>,
    /// The file with its password, as it is typed or as PostgreSQL's SCRAM-SHA-256 verifier; nobody else may read it
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(crate) password_file: Option<PathBuf>,
    /// The server's certificate (PEM), with those that vouch for it behind it; offers TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key (PEM); nobody else may read it
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The certificates (PEM) of those that vouch for clients, so that rules can demand certificates of them
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Who may come from where and how, in the words of PostgreSQL's pg_hba.conf; the file of that name in the
    /// directory, if there is one. SIGHUP and pg_reload_conf() have it read again
    #[arg(long, value_name = "FILE")]
    pub(crate) hba: Option<PathBuf>,
    /// Archive the database while it is served, its log and backups: to a directory, or to a place in a cloud as
    /// s3://bucket/path. What the archive needs is kept until it is sent; a place that does not answer holds nobody up. A
    /// replica holds what its primary has not archived, and goes on there once it is promoted
    #[arg(long, value_name = "ARCHIVE", requires = "dir", conflicts_with_all = ["in_memory", "salvage"], value_parser = archive())]
    pub(crate) archive: Option<String>,
    /// Seconds after which log is archived that does not fill a stretch of 8 MB
    #[arg(long, value_name = "N", default_value_t = 60.0, value_parser = positive, requires = "archive")]
    pub(crate) archive_timeout: f64,
    /// Hours between two backups
    #[arg(long, value_name = "N", default_value_t = 24.0, value_parser = positive, requires = "archive")]
    pub(crate) backup_hours: f64,
    #[command(flatten)]
    pub(crate) keep: KeepArguments,
    /// Follow another server, whose database is copied into the directory first if that is new: host=db1,user=copy with
    /// port, sslrootcert (then over TLS), application_name and slot if need be. The role needs REPLICATION. Everything is read only.
    /// With archive=PLACE as well, what that server has not got any more comes from its archive, and all while it does not
    /// answer; with archive=PLACE alone, it is never asked
    #[arg(long, value_name = "PRIMARY", conflicts_with_all = ["in_memory", "salvage"])]
    pub(crate) replica_of: Option<String>,
    /// How often it is looked into the archive for new log, while that is followed
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = positive, requires = "replica_of")]
    pub(crate) replica_poll: f64,
    /// The file with the password for that, and for peers; nobody else may read it
    #[arg(long, value_name = "FILE")]
    pub(crate) replica_password_file: Option<PathBuf>,
    /// Have commits wait until replicas have them, by their application_name: a, b (the first that is there), FIRST n (a, b, c) or
    /// ANY n (a, b, c). SET synchronous_standby_names changes it while it is served
    #[arg(long, value_name = "NAMES", requires = "dir", conflicts_with = "in_memory")]
    pub(crate) synchronous_standby_names: Option<String>,
    #[command(flatten)]
    pub(crate) machines: MachinesArguments,
    #[command(flatten)]
    pub(crate) node: ServedNodeArguments,
    /// Log that a replication slot keeps at most for a replica that is away, as in 64GB; -1 for any, 16GB if not given. Beyond that
    /// the replica needs a new copy, or the archive
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) max_slot_wal_keep_size: Option<String>,
    /// Log that stays behind each checkpoint, whoever is connected, in MB or as in 2GB: a replica that lacks no more can follow this
    /// machine once that is promoted. SET wal_keep_size changes it while it is served
    #[arg(long, value_name = "SIZE", default_value = "256MB", value_parser = log_bytes)]
    pub(crate) wal_keep_size: u64,
    /// How long a replica that follows may say nothing, as in 30s; 0 for any time, 1min if not given. Then nobody waits for it any
    /// more, and what it holds is let go of, as if it were away. SET wal_sender_timeout changes it while it is served
    #[arg(long, value_name = "TIME")]
    pub(crate) wal_sender_timeout: Option<String>,
    /// Tell replicas nothing of safe snapshots, or note none: for `coeval bench replica`, which measures what that costs
    #[arg(long, hide = true, conflicts_with = "salvage")]
    pub(crate) without_safe_logging: bool,
    /// End at once when the standard input does: for a program that starts servers, which are gone with it then, however it
    /// ends
    #[arg(long, hide = true)]
    pub(crate) while_input_lasts: bool,
    /// Sessions at a time
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = at_least_one)]
    pub(crate) max_connections: usize,
    /// How many of them are kept for superusers; 3 if not given
    #[arg(long, value_name = "N")]
    pub(crate) superuser_reserved_connections: Option<usize>,
    /// Seconds that a client may take to say and prove who it is
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = positive)]
    pub(crate) authentication_timeout: f64,
    /// Memory that all queries together may have, as in 512MB or 8GB; half of the machine's, or of its control group's, if not given
    #[arg(long, value_name = "SIZE", value_parser = query_memory)]
    pub(crate) query_memory: Option<usize>,
    /// Memory for what was read of tables' files, so that it is not read again; a third of the machine's, or of its control group's, if not given
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) data_memory: Option<usize>,
    /// How much of a processor goes to a thread with transactions beside one that works for queries, where both want it. On Linux; less
    /// than 50 needs the right to raise priorities
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(5..=95))]
    pub(crate) transactions_share: u8,
    /// Passwords of one address that are looked at in a second, when many of them are wrong
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) passwords_per_second: u32,
    /// Memory that rows of more than 1MB may have, of all sessions together, while they wait for clients to read them; 2GB if not given
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) unsent_memory: Option<usize>,
    /// Memory that messages of more than 64kB may have, of all sessions together, until they are worked off; 2GB if not given
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) received_memory: Option<usize>,
    /// How long transactions may go on when the server is asked to stop
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = positive)]
    pub(crate) stop_seconds: f64,
    /// Log statements that take at least this long
    #[arg(long, value_name = "N")]
    pub(crate) slow_milliseconds: Option<u64>,
    /// Where Prometheus asks for figures, by HTTP at /metrics; a port alone is one of the loopback
    #[arg(long, value_name = "[HOST:]PORT", value_parser = port_alone_too)]
    pub(crate) metrics: Option<String>,
    /// The file with the token that it has to know for that (as bearer or as password); nobody else may read it
    #[arg(long, value_name = "FILE", requires = "metrics")]
    pub(crate) metrics_token_file: Option<PathBuf>,
    /// Where browsers find the console, a page to ask, look and manage from; a port alone is one of the loopback. Whoever uses it
    /// logs in as for SQL. It is encrypted if the server has a certificate, which it has to have beyond the loopback
    #[arg(long, value_name = "[HOST:]PORT", value_parser = port_alone_too)]
    pub(crate) console: Option<String>,
    /// Log as JSON, an object a line
    #[arg(long)]
    pub(crate) log_json: bool,
}

/// Make a replica a database of its own
///
/// If a server has the replica open, that promotes it: it is found by what it has written into the directory, and asked by SELECT
/// pg_promote(), which is for superusers; it knows the others by its own --peer. Otherwise this command does it.
///
/// It has everything that the replica had taken. If commits waited for replicas (synchronous_standby_names), so many of these
/// have to promise to follow it that nothing acknowledged is lost: they are named by --peer, and are running. Otherwise what the
/// primary acknowledged beyond it is not there. Afterwards the directory is served without --replica-of.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval promote my-copy
  coeval promote my-copy --name south --peer name=west,host=db3,user=copier
  coeval serve my-copy")]
pub(crate) struct PromoteArguments {
    /// The replica's directory
    #[arg(value_name = "DIR", value_parser = directory_alone(OF_ITS_PROGRAM))]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) machines: MachinesArguments,
    /// The file with the password for peers; nobody else may read it
    #[arg(long, value_name = "FILE")]
    pub(crate) replica_password_file: Option<PathBuf>,
    /// Promote it even if others may have commits that were acknowledged and are not here: they are given up. So is what only its
    /// successor has, of a primary that takes no commits any more
    #[arg(long)]
    pub(crate) accept_loss: bool,
    #[command(flatten)]
    pub(crate) asked: AskedArguments,
}

/// What the machines with one database are called, and where they are.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MachinesArguments {
    /// What this machine is called in synchronous_standby_names and pg_stat_replication
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Another machine with the database, once for each: name=south,host=db2,user=copy and what else --replica-of takes. A
    /// replica follows the one of them that was promoted, and asks them when it is promoted itself; a primary that was superseded
    /// hears it from them
    #[arg(long = "peer", value_name = "PEER")]
    pub(crate) peers: Vec<String>,
}

/// Send a backup of a database to an archive, while it is used or not
///
/// An archive is a directory, or a place in an object storage. What it has already is not sent again. If a server has the database
/// open, it makes the backup: it is found by what it has written into the directory, and asked by SELECT coeval_backup('ARCHIVE'),
/// which is for superusers. A place in a cloud is reached with what the server's own environment has. A server that is started with
/// --archive makes backups by itself, and archives its log as well. With --keep-days or --keep-backups what is not kept of the
/// archive is removed behind the backup.
///
/// Rows of tables that are spread over a cluster are in backups that the server of one of its nodes makes. If they are not to be had,
/// there is no backup.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval backup my-data /mnt/backups/my-data
  coeval backup my-data /mnt/backups/my-data --keep-backups 7
  coeval backup my-data /mnt/backups/my-data --user app --password-file secret
  coeval serve my-data --archive /mnt/backups/my-data
  coeval check --archive /mnt/backups/my-data
  coeval check --replica host=db2,user=me --against host=db1,user=me")]
pub(crate) struct BackupArguments {
    /// The database directory
    #[arg(value_name = "DIR", value_parser = directory_alone(OF_ITS_PROGRAM))]
    pub(crate) dir: PathBuf,
    /// A directory, file:///path, or a place in a cloud as s3://bucket/path
    #[arg(value_name = "ARCHIVE", value_parser = archive())]
    pub(crate) archive: String,
    /// Leave out the rows of tables that are spread over a cluster, which the backup says then; a restore has those of an older one
    #[arg(long)]
    pub(crate) row_tables_alone: bool,
    #[command(flatten)]
    pub(crate) keep: KeepArguments,
    #[command(flatten)]
    pub(crate) asked: AskedArguments,
}

/// Make a database of what an archive has, as it was at a moment
///
/// Without --to it is the newest that the archive has. The restored database goes on in a history of its own: it may be archived
/// to the same place, and its history is the newest one there from then on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval restore /mnt/backups/my-data restored
  coeval restore /mnt/backups/my-data restored --to '2026-11-23 10:00'
  coeval restore /mnt/backups/my-data restored --to-lsn 0/1A2B3C")]
pub(crate) struct RestoreArguments {
    /// A directory, file:///path, or a place in a cloud as s3://bucket/path
    #[arg(value_name = "ARCHIVE", value_parser = archive())]
    pub(crate) archive: String,
    /// Where the database is to be: a new or empty directory
    #[arg(value_name = "DIR", value_parser = directory_alone(OF_ITS_PROGRAM))]
    pub(crate) dir: PathBuf,
    /// The moment, in UTC unless an offset stands behind: all that was committed by then, to about 10 ms
    #[arg(long, value_name = "TIME", conflicts_with_all = ["to_lsn", "to_version"])]
    pub(crate) to: Option<String>,
    /// The place in the log, as pg_current_wal_lsn() gives it: all records that end there or before
    #[arg(long, value_name = "LSN", conflicts_with = "to_version")]
    pub(crate) to_lsn: Option<String>,
    /// The version, as txid_current() gives it
    #[arg(long, value_name = "N")]
    pub(crate) to_version: Option<u64>,
    /// The snapshot of a token, as coeval_snapshot_token() gives it
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["to", "to_lsn", "to_version", "history"])]
    pub(crate) to_token: Option<String>,
    /// The id of the term that ends the history, if the archive has several (it names them then)
    #[arg(long, value_name = "HEX")]
    pub(crate) history: Option<String>,
}

/// Verify a database directory offline: checksums, statistics, trees, indexes, constraints
///
/// Changes nothing unless --repair is given. No other process may have the directory open.
#[derive(Debug, Args)]
#[command(after_help = "\
The exit code is 0 if everything is as it must be, 1 if something is not or the check or repair cannot be done, and 3 if a
repair was done and something is lost. Of an archive it is 1 also if log is missing that a server with --archive was to send.

Examples:
  coeval check my-data
  coeval check --repair my-data
  coeval check --archive /mnt/backups/my-data")]
pub(crate) struct CheckArguments {
    /// The database directory
    #[arg(
        value_name = "DIR",
        required_unless_present_any = ["archive", "replica"],
        value_parser = directory_alone(OF_ITS_PROGRAM)
    )]
    pub(crate) dir: Option<PathBuf>,
    /// An archive instead: which histories it has, and whether it has all that its backups and its log need, each with its checksum
    #[arg(long, value_name = "ARCHIVE", conflicts_with_all = ["dir", "repair"], value_parser = archive())]
    pub(crate) archive: Option<String>,
    /// A replica that is running instead: whether it has what the server --against has, both at one version. libpq's words, as
    /// host=db2 port=5432 user=me password=... sslrootcert=FILE (then over TLS); a superuser. The replica shows nothing newer for a moment
    #[arg(long, value_name = "SERVER", requires = "against", conflicts_with_all = ["dir", "repair", "archive"])]
    pub(crate) replica: Option<String>,
    /// The primary of --replica
    #[arg(long, value_name = "SERVER", requires = "replica")]
    pub(crate) against: Option<String>,
    /// Make anew what can be derived (indexes, statistics), leave out what else cannot be read, and say what is lost. Files
    /// with damage are kept as NAME.damaged; make a copy of the directory first all the same
    #[arg(long)]
    pub(crate) repair: bool,
}

/// Look for anomalies in a recorded history of list appends and reads
///
/// Reads the EDN that `coeval bench list-append --out` and Jepsen's list-append tests write: maps with :type and :value, of
/// [:append key value] and [:r key [value ...]]. Finds dirty, intermediate and inconsistent reads and the cycles G0, G1c,
/// G-single, G-nonadjacent and G2-item.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval bench list-append --isolation serializable --threads 8 --out history.edn
  coeval check-history history.edn
  coeval check-history --isolation snapshot history.edn")]
pub(crate) struct CheckHistoryArguments {
    /// The level that was promised: what it allows is no violation
    #[arg(long, default_value = "serializable", value_parser = isolation())]
    pub(crate) isolation: Isolation,
    /// The file; - is the standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Run a workload and measure it; the last line of the output is one JSON object
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval bench tpcc --warehouses 4 --threads 16 --seconds 30
  coeval bench tpcc --api sql --durability none
  coeval bench tpch --scale 1 --update-fraction 0.05
  coeval bench ycsb --mix b --rows 10000000
  coeval bench tpcc --url postgres://me@127.0.0.1:5432/coeval --terminals 8 --isolation read-committed
  coeval bench tpch --scale 1 --write-parquet parquet-files")]
pub(crate) struct BenchArguments {
    /// What to run
    #[arg(value_name = "WORKLOAD", value_parser = workload())]
    pub(crate) workload: Workload,
    /// The database directory; a temporary one that is removed afterwards unless given. With --url: where the server's
    /// data lies, to measure its disk
    #[arg(long, value_name = "DIR", value_parser = directory_alone(MEASURED))]
    dir: Option<PathBuf>,
    /// tpcc, chbench, ycsb, sharing, connections: measure the server behind this URL (postgres://user@host:port/database), Coeval or PostgreSQL
    #[arg(long, value_name = "URL", conflicts_with_all = ["api", "durability"])]
    url: Option<String>,
    /// The number of that server's first process on this machine, so that foreign_cpu leaves it out
    #[arg(long, value_name = "N", requires = "url")]
    server_process: Option<u32>,
    /// connections: how many there are; all but --active are idle
    #[arg(long, value_name = "N", default_value_t = defaults().connections, value_parser = at_least_one)]
    connections: usize,
    /// connections: how many of them are busy
    #[arg(long, value_name = "N", default_value_t = defaults().active_connections, value_parser = at_least_one)]
    active: usize,
    /// tpcc, chbench: each statement waits for the answer of the one before; otherwise those that do not depend on each
    /// other are sent together, as drivers send batches
    #[arg(long, requires = "url")]
    one_by_one: bool,
    /// tpcc, chbench: what a transaction reads to write it is not read FOR NO KEY UPDATE (not at read-committed)
    #[arg(long)]
    plain_reads: bool,
    /// tpcc, chbench, rss, sharing, replica: size
    #[arg(long, value_name = "N", default_value_t = defaults().warehouses, value_parser = clap::value_parser!(u32).range(1..))]
    warehouses: u32,
    /// tpch, load, recovery: size; 1 is about 1 GB as text
    #[arg(long, value_name = "F", default_value_t = defaults().scale, value_parser = positive)]
    scale: f64,
    /// ycsb, get: rows, 1000000 if not given; cluster: rows that are scanned, 100000000 if not given
    #[arg(long, value_name = "N")]
    rows: Option<u64>,
    /// Threads that run transactions (terminals, one connection each with --url), and threads of the query engine
    #[arg(long, visible_alias = "terminals", value_name = "N", default_value_t = defaults().threads, value_parser = at_least_one)]
    threads: usize,
    /// How long to measure, after a tenth of that as warm-up
    #[arg(long, value_name = "N", default_value_t = defaults().seconds, value_parser = positive)]
    seconds: f64,
    /// Level of the transactions
    #[arg(long, default_value = "snapshot", value_parser = isolation())]
    isolation: Isolation,
    /// Whether each commit waits for the disk
    #[arg(long, default_value = "fsync", value_parser = durability())]
    durability: Durability,
    /// Transactions through keys and rows, or through prepared SQL
    #[arg(long, default_value = "typed", value_parser = api())]
    api: Api,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = defaults().seed)]
    seed: u64,
    /// A small fraction of the data, for tests; the figures mean nothing
    #[arg(long)]
    tiny: bool,
    /// chbench, rss: threads that run analytical queries; sharing: the same, two at least; replica: at most so many, from none on
    #[arg(long, value_name = "N", default_value_t = defaults().streams)]
    streams: usize,
    /// chbench: how the streams' transactions are declared: READ ONLY at REPEATABLE READ, or at SERIALIZABLE on the current
    /// world, DEFERRABLE, or on safe snapshots
    #[arg(long, default_value = "snapshot", value_parser = readers())]
    readers: Readers,
    /// tpch: share of lineitem and orders updated at random keys before measuring
    #[arg(long, value_name = "F", default_value_t = defaults().update_fraction, value_parser = fraction)]
    update_fraction: f64,
    /// tpch: how often each query runs; rss, sharing, connections, replica, cluster: how often each way is measured. The median counts
    #[arg(long, visible_alias = "rounds", value_name = "N", default_value_t = defaults().runs, value_parser = at_least_one)]
    runs: usize,
    /// tpch: write the tables as Parquet files and do nothing else
    #[arg(long, value_name = "DIR")]
    write_parquet: Option<PathBuf>,
    /// tpch, load: read the tables from Parquet files
    #[arg(long, value_name = "DIR")]
    read_parquet: Option<PathBuf>,
    /// tpch: write each query's answer as CSV
    #[arg(long, value_name = "DIR")]
    write_answers: Option<PathBuf>,
    /// ycsb: half updates (a), 5 % updates (b), reads only (c), new rows only (insert)
    #[arg(long, default_value = "a", value_parser = mix())]
    mix: YcsbMix,
    /// ycsb: how keys are chosen
    #[arg(long, default_value = "zipfian", value_parser = key_choice())]
    keys: KeyChoice,
    /// recovery: bytes of log to replay
    #[arg(long, value_name = "N", default_value_t = defaults().log_bytes)]
    log_bytes: u64,
    /// tique: datafusion, duckdb, monetdb, postgresql
    #[arg(long, value_name = "NAME", default_value_t = defaults().engine)]
    engine: String,
    /// tique: the engine's library, or its driver's
    #[arg(long, value_name = "FILE")]
    engine_library: Option<PathBuf>,
    /// tique: where the engine is a server, as in postgresql://me@127.0.0.1:5432/database
    #[arg(long, value_name = "URL")]
    engine_address: Option<String>,
    /// tique: which experiment
    #[arg(long, default_value = "points", value_parser = tique_part())]
    part: TiquePart,
    /// tique: over the engine, or the engine by itself
    #[arg(long, default_value = "tique", value_parser = way())]
    way: Way,
    /// tique: where transactions are certified, by SQL in the engine or in this process
    #[arg(long, default_value = "engine", value_parser = certification())]
    certification: Certification,
    /// tpcc, tique: 99 in 100 transactions keep to the first so many warehouses; all of them if 0
    #[arg(long, value_name = "N", default_value_t = defaults().hot_warehouses)]
    hot_warehouses: i32,
    /// list-append: transactions to record
    #[arg(long, value_name = "N", default_value_t = defaults().transactions)]
    transactions: u64,
    /// list-append: write the history here, for check-history and for Elle; aosi-memory: a drawing of what the table takes
    /// over time, as SVG
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl BenchArguments {
    /// What the workload is told.
    pub(crate) fn options(&self) -> Options {
        Options {
            dir: self.dir.clone(),
            url: self.url.clone(),
            server_process: self.server_process.map(ProcessId),
            server_program: None,
            connections: self.connections,
            active_connections: self.active,
            sending: if self.one_by_one { Sending::OneByOne } else { Sending::Batched },
            update_reads: if self.plain_reads { UpdateReads::Plain } else { UpdateReads::Locking },
            warehouses: self.warehouses,
            scale: self.scale,
            rows: self.rows.unwrap_or_else(|| rows_of(self.workload)),
            threads: self.threads,
            seconds: self.seconds,
            isolation: self.isolation,
            durability: self.durability,
            api: self.api,
            seed: self.seed,
            population: if self.tiny { Population::Tiny } else { Population::Full },
            streams: self.streams,
            readers: self.readers,
            update_fraction: self.update_fraction,
            runs: self.runs,
            write_parquet: self.write_parquet.clone(),
            read_parquet: self.read_parquet.clone(),
            write_answers: self.write_answers.clone(),
            ycsb_mix: self.mix,
            key_choice: self.keys,
            log_bytes: self.log_bytes,
            engine: self.engine.clone(),
            engine_library: self.engine_library.clone(),
            engine_address: self.engine_address.clone(),
            tique_part: self.part,
            way: self.way,
            certification: self.certification,
            hot_warehouses: self.hot_warehouses,
            transactions: self.transactions,
            out: self.out.clone(),
        }
    }
}

/// What to do instead of measuring a database in memory.
const MEASURED: &str = "without --dir there is a temporary directory, and with --durability none commits do not wait for the disk";

fn defaults() -> Options {
    Options::default()
}

/// How many rows a workload has if nothing is said. What nodes give each other of a scan shows in many.
fn rows_of(workload: Workload) -> u64 {
    const CLUSTER_ROWS: u64 = 100_000_000;
    if workload == Workload::Cluster { CLUSTER_ROWS } else { defaults().rows }
}

/// The highest number of seconds or hours.
const POSITIVE_MAX: f64 = 1e9;

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        // More than that is no time that anything could be added to.
        Ok(number) if number > 0.0 && number <= POSITIVE_MAX => Ok(number),
        Ok(_) | Err(_) => Err(format!("a number above 0, up to {POSITIVE_MAX}, is needed")),
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(number),
        Ok(_) | Err(_) => Err("a number from 0 to 1 is needed".to_owned()),
    }
}

/// Bytes that all queries may have, which need some.
fn query_memory(text: &str) -> Result<usize, String> {
    match bytes(text)? {
        bytes if bytes >= QUERY_MEMORY_MIN => Ok(bytes),
        _ => Err(format!("at least {}MB are needed", QUERY_MEMORY_MIN >> 20)),
    }
}

/// Bytes, with PostgreSQL's units.
fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let factor = match text[digits.len()..].trim() {
        "" | "B" => Some(1),
        "kB" => Some(1 << 10),
        "MB" => Some(1 << 20),
        "GB" => Some(1 << 30),
        "TB" => Some(1 << 40),
        _ => None,
    };
    let bytes =
        digits.parse::<usize>().ok().zip(factor).and_then(|(count, factor)| count.checked_mul(factor));
    bytes.ok_or_else(|| "a number with kB, MB, GB or TB is wanted".to_owned())
}

/// Bytes of log, in MB if there is no unit.
fn log_bytes(text: &str) -> Result<u64, String> {
    let is_number = text.chars().all(|c| c.is_ascii_digit());
    let counted = if is_number { bytes(&format!("{text}MB")) } else { bytes(text) };
    counted.map(|bytes| bytes as u64)
}

fn engine_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("a name and a value with = between them are wanted".to_owned()),
    }
}

/// An address to listen on.
fn host_and_port(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        Some(_) | None => Err("a host and a port are wanted, as in 127.0.0.1:5432".to_owned()),
    }
}

/// The same, or a port of the loopback.
fn port_alone_too(text: &str) -> Result<String, String> {
    match text.strip_prefix(':').unwrap_or(text).parse::<u16>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => host_and_port(text),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(number) if number > 0 => Ok(number),
        Ok(_) | Err(_) => Err("a whole number from 1 on is needed".to_owned()),
    }
}

/// A parser of names, each of which stands for a value.
fn named<T: Clone + Send + Sync + 'static>(
    names: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names.iter().map(|(name, _)| *name)).map(|given| {
        let found = names.iter().find(|(name, _)| *name == given);
        found.expect("only these names pass the parser").1.clone()
    })
}

fn workload() -> impl TypedValueParser<Value = Workload> {
    PossibleValuesParser::new(Workload::ALL.map(Workload::name))
        .map(|name| Workload::from_name(&name).expect("only names of workloads pass the parser"))
}

fn isolation() -> impl TypedValueParser<Value = Isolation> {
    named(&[
        ("snapshot", Isolation::Snapshot),
        ("repeatable-read", Isolation::Snapshot),
        ("read-committed", Isolation::ReadCommitted),
        ("serializable", Isolation::Serializable),
    ])
}

fn readers() -> impl TypedValueParser<Value = Readers> {
    named(&[
        ("snapshot", Readers::Snapshot),
        ("ssi", Readers::Ssi),
        ("deferrable", Readers::Deferrable),
        ("safe", Readers::Safe),
    ])
}

fn tique_part() -> impl TypedValueParser<Value = TiquePart> {
    PossibleValuesParser::new(TiquePart::ALL.map(TiquePart::name)).map(|given| {
        let found = TiquePart::ALL.into_iter().find(|part| part.name() == given);
        found.expect("only names of parts pass the parser")
    })
}

fn way() -> impl TypedValueParser<Value = Way> {
    named(&[("native", Way::Native), ("tique", Way::Tique)])
}

fn certification() -> impl TypedValueParser<Value = Certification> {
    named(&[("engine", Certification::InEngine), ("process", Certification::InProcess)])
}

fn durability() -> impl TypedValueParser<Value = Durability> {
    named(&[("fsync", Durability::Fsync), ("none", Durability::None)])
}

fn api() -> impl TypedValueParser<Value = Api> {
    named(&[("typed", Api::Typed), ("sql", Api::Sql)])
}

fn mix() -> impl TypedValueParser<Value = YcsbMix> {
    named(&[("a", YcsbMix::A), ("b", YcsbMix::B), ("c", YcsbMix::C), ("insert", YcsbMix::Insert)])
}

fn key_choice() -> impl TypedValueParser<Value = KeyChoice> {
    named(&[("uniform", KeyChoice::Uniform), ("zipfian", KeyChoice::Zipfian)])
}

#[cfg(test)]
mod tests;
