// SPDX-License-Identifier: Apache-2.0
//! A primary and a replica that follows it.

use super::{copy_of, removed};
use crate::error::BenchError;
use crate::followed::{
    has_safe_snapshot, log_end, wait_until_safe, wait_until_safe_has_all, wait_until_shown,
};
use crate::machine::ProcessId;
use crate::options::{Options, Readers};
use crate::progress::Progress;
use crate::report::Report;
use crate::served::Served;
use crate::system::Console;
use crate::tpcc::{schema, violations_at};
use crate::wire::Server;
use coeval::Lsn;
use std::path::Path;

/// What the replica's readers get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Safe snapshots.
    Rss,
    /// The newest state, and nothing is said of safe snapshots.
    Si,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Rss, Self::Si];

    /// As figures are named.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Rss => "rss",
            Self::Si => "si",
        }
    }

    /// How transactions of analytical clients are declared.
    pub(super) const fn readers(self) -> Readers {
        match self {
            Self::Rss => Readers::Safe,
            Self::Si => Readers::Snapshot,
        }
    }

    const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Rss => &[],
            Self::Si => &["--without-safe-logging"],
        }
    }
}

/// A server, and the process that it is.
struct Node {
    served: Served,
    server: Server,
}

impl Node {
    fn start(program: &Path, directory: &Path, arguments: &[&str]) -> Result<Self, BenchError> {
        let served = Served::start(program, directory, arguments)?;
        let server = served.server()?;
        Ok(Self { served, server })
    }
}

/// See the module. The replica ends first.
pub(super) struct Pair {
    kind: Kind,
    replica: Node,
    primary: Node,
}

impl Pair {
    /// Starts both, the primary on a copy of `base`; the replica has everything when this returns.
    ///
    /// # Errors
    /// If a server does not start or does not catch up.
    pub(super) fn start(
        kind: Kind,
        base: &Path,
        place: &Path,
        options: &Options,
    ) -> Result<Self, BenchError> {
        let program = options.server_program.as_deref().expect("the options were looked at");
        let name = kind.name();
        let primary = copy_of(base, place, &format!("{name}-primary"))?;
        let primary = Node::start(program, &primary, kind.arguments())?;
        let replica = removed(place, &format!("{name}-replica"))?;
        let of = primary.served.as_primary_of("replica");
        let arguments = [kind.arguments(), &["--replica-of", of.as_str()][..]].concat();
        let replica = Node::start(program, &replica, &arguments)?;
        let pair = Self { kind, replica, primary };
        pair.check_kind()?;
        pair.wait_until_caught_up()?;
        Ok(pair)
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn primary(&self) -> &Server {
        &self.primary.server
    }

    pub(super) fn replica(&self) -> &Server {
        &self.replica.server
    }

    /// The processes of the primary and of the replica.
    pub(super) fn processes(&self) -> [ProcessId; 2] {
        [self.primary.served.process(), self.replica.served.process()]
    }

    /// The replica's process, to be halted.
    pub(super) fn replica_process(&self) -> &Served {
        &self.replica.served
    }

    /// The durable end of the primary's log.
    ///
    /// # Errors
    /// If it does not answer.
    pub(super) fn log_end(&self) -> Result<Lsn, BenchError> {
        log_end(self.primary())
    }

    /// Waits until the replica shows all that is durable on its primary, in safe snapshots too if it makes any. Nobody commits
    /// meanwhile.
    ///
    /// # Errors
    /// If it does not come so far, or a server does not answer.
    pub(super) fn wait_until_caught_up(&self) -> Result<(), BenchError> {
        wait_until_shown(self.replica(), self.log_end()?)?;
        match self.kind {
            Kind::Rss => wait_until_safe_has_all(self.replica()),
            Kind::Si => Ok(()),
        }
    }

    /// Whether safe snapshots are there exactly where they are to be.
    fn check_kind(&self) -> Result<(), BenchError> {
        match self.kind {
            Kind::Rss => wait_until_safe(self.replica()),
            Kind::Si if !has_safe_snapshot(&mut self.replica().connect()?)? => Ok(()),
            Kind::Si => {
                let message = "the replica has a safe snapshot, though nothing of them is logged";
                Err(BenchError::Answer(message.to_owned()))
            }
        }
    }

    /// Checks TPC-C's consistency conditions on both, and that the replica has as many rows as the primary.
    ///
    /// # Errors
    /// If a query fails.
    pub(super) fn check(&self, progress: &dyn Progress, report: &mut Report) -> Result<(), BenchError> {
        progress.begin("check TPC-C's consistency conditions on both", None);
        self.wait_until_caught_up()?;
        let name = self.kind.name();
        let (mut primary, mut replica) = (self.primary().connect()?, self.replica().connect()?);
        report.check(
            format!("{name}_primary_tpcc_conditions"),
            violations_at(&mut primary, Readers::Snapshot.begin())?,
        );
        report.check(
            format!("{name}_replica_tpcc_conditions"),
            violations_at(&mut replica, self.kind.readers().begin())?,
        );
        let mut differing = 0;
        for table in &schema::TABLES {
            let count = format!("SELECT count(*) FROM {}", table.name);
            differing += u64::from(primary.query_number(&count)? != replica.query_number(&count)?);
        }
        report.check(format!("{name}_tables_that_differ"), differing);
        progress.end();
        Ok(())
    }
}
