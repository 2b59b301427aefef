// SPDX-License-Identifier: Apache-2.0
//! The command line of `coeval feed`.

use super::{bytes, directory_alone, named, positive};
use clap::Args;
use clap::builder::TypedValueParser;
use std::path::PathBuf;

/// What to do instead of keeping the state in memory.
const KEPT: &str = "without --state the copy is among the system's temporary files";

/// How changes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedFormat {
    /// An object a line.
    Json,
    /// Arrow streams, each of the rows of one table in its columns.
    Arrow,
    /// One Arrow stream, with rows as JSON.
    ArrowJson,
}

fn format() -> impl TypedValueParser<Value = FeedFormat> {
    named(&[("json", FeedFormat::Json), ("arrow", FeedFormat::Arrow), ("arrow-json", FeedFormat::ArrowJson)])
}

/// Write what committed transactions change, in commit order, with each row before and after
///
/// Each change is a line of JSON; the last line of a transaction has a token. --from TOKEN goes on behind it: nothing is left
/// out, nothing comes twice. Nothing is written that a failover of synchronous replicas could lose. Without --to it goes on as
/// transactions commit, and outlasts connections that fail.
///
/// SOURCE is a server (host, port, user of a role with REPLICATION, sslrootcert), which may be a replica; its archive; or both,
/// and then the archive gives what the server has not got any more. From a server alone, a token is reached for as long as the
/// state in --state DIR reaches back to it; from an archive, as long as its oldest backup does.
///
/// A feed has a copy of the database, in DIR, or in the system's directory for temporary files while it runs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  coeval feed host=db1,user=copy --state feed-of-db1
  coeval feed host=db1,user=copy --state feed-of-db1 --from 3-8f21c5d09a7b4e16-1a2b3c-2f0
  coeval feed archive=/mnt/archive --from start --to now
  coeval feed host=db1,user=copy,archive=/mnt/archive --from 3-8f21c5d09a7b4e16-1a2b3c-2f0 --table public.orders")]
pub(crate) struct FeedArguments {
    /// Where the log comes from: host=db1,user=copy, or archive=PLACE, or both
    #[arg(value_name = "SOURCE")]
    pub(crate) source: String,
    /// Begin behind this token of a feed, or of coeval_snapshot_token(); or with all that the source reaches back to: start. From
    /// now on if not given
    #[arg(long, value_name = "TOKEN|start")]
    pub(crate) from: Option<String>,
    /// End behind this token, or with what is committed by now: now. Never if not given
    #[arg(long, value_name = "TOKEN|now")]
    pub(crate) to: Option<String>,
    /// Only changes of this table, as in public.orders. May be given more than once
    #[arg(long = "table", value_name = "NAME")]
    pub(crate) tables: Vec<String>,
    /// json: an object a line; arrow: Arrow streams one behind the other, each with the columns of one table; arrow-json: one
    /// Arrow stream, with rows as JSON
    #[arg(long, value_name = "FORMAT", default_value = "json", value_parser = format())]
    pub(crate) format: FeedFormat,
    /// Keep the copy in this directory, to go on from at the next start
    #[arg(long, value_name = "DIR", value_parser = directory_alone(KEPT))]
    pub(crate) state: Option<PathBuf>,
    /// How much log the state keeps: tokens in the newer half of it can be gone on from
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = bytes, requires = "state")]
    pub(crate) keep_log: usize,
    /// The file with the password for the server; nobody else may read it
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// How often it is looked into the archive for new log
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = positive)]
    pub(crate) poll: f64,
}
