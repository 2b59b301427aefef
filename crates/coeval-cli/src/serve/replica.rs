// SPDX-License-Identifier: Apache-2.0
//! A server that follows another one.

use super::secret_in;
use crate::arguments::ServeArguments;
use crate::directory::{Contents, look};
use crate::failure::Failure;
use coeval::{Database, DatabaseOptions, Upstream, UpstreamState, UpstreamStatus};
use coeval_replica::{
    Kinship, Link, PrimaryAddress, Replica, ReplicaState, ReplicaStatus, ReplicaWatch, copy_database, kinship,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The file that tells a replica's directory from others.
const FOLLOWER_FILE: &str = "follower";

/// How often a copy says how much has come.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Opens the replica in a directory, which is made of a copy of the primary's if it is new, and begins to follow.
///
/// # Errors
/// If the primary cannot be copied, or the directory holds something else.
pub(super) fn open(
    dir: &Path,
    primary: &str,
    arguments: &ServeArguments,
    options: DatabaseOptions,
) -> Result<(Database, Replica), Failure> {
    let mut address = PrimaryAddress::parse(primary).map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(file) = &arguments.replica_password_file {
        address.password = Some(secret_in(file)?);
    }
    let link = match look(dir)? {
        Contents::Database if !is_replica(dir) => rejoined(&address, dir, options)?,
        Contents::Database => None,
        Contents::Nothing | Contents::Remains => Some(copied(&address, dir)?),
        Contents::Foreign => {
            return Err(Failure::Work(format!(
                "{} is not a database and not empty; name the directory of a replica, or a new or empty one",
                dir.display()
            )));
        }
    };
    let opened = options.open_replica(dir);
    let (database, follower) =
        opened.map_err(|error| Failure::work(format_args!("cannot open {}", dir.display()), error))?;
    let (host, port) = (address.host.clone(), address.port);
    let replica = Replica::start(follower, address, link)
        .map_err(|error| Failure::work("cannot start a thread for the replica", error))?;
    database.engine().set_upstream(Arc::new(Shown { watch: replica.watch(), host, port }));
    Ok((database, replica))
}

/// Where the replica stands, for who asks the database.
struct Shown {
    watch: ReplicaWatch,
    host: String,
    port: u16,
}

impl Upstream for Shown {
    fn status(&self) -> UpstreamStatus {
        let ReplicaStatus { state, taken, durable, .. } = self.watch.status();
        let (state, reason) = match state {
            ReplicaState::Following => (UpstreamState::Streaming, None),
            ReplicaState::Connecting(reason) => (UpstreamState::Waiting, reason),
            ReplicaState::Stopped(reason) => (UpstreamState::Stopped, Some(reason)),
        };
        UpstreamStatus {
            state,
            reason,
            host: self.host.clone(),
            port: self.port,
            written: taken,
            flushed: durable,
        }
    }
}

/// Whether the directory is a replica's already.
fn is_replica(dir: &Path) -> bool {
    dir.join(FOLLOWER_FILE).exists()
}

/// Has a former primary's directory follow the new one: as it is, if its log is the beginning of that one's; else it is put
/// aside, and a copy comes in its place.
fn rejoined(from: &PrimaryAddress, dir: &Path, options: DatabaseOptions) -> Result<Option<Link>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Work(format!("{} cannot follow {from}: {error}", dir.display()))
    };
    Database::demote(dir).map_err(|error| failed(&error))?;
    // Whatever is found, it is a primary's again unless it can follow.
    let outcome =
        options.open_replica(dir).map_err(|error| failed(&error)).and_then(|(database, follower)| {
            let term = follower.terms().last().map_or(0, |term| term.number);
            let kinship = kinship(from, &follower).map_err(|error| failed(&error))?;
            drop((follower, database));
            Ok((kinship, term))
        });
    if !matches!(outcome, Ok((Kinship::Beginning, _))) {
        Database::promote(dir).map_err(|error| failed(&error))?;
    }
    match outcome? {
        (Kinship::Beginning, _) => {
            eprintln!(
                "{} was a primary and has nothing that {from} does not have: it follows",
                dir.display()
            );
            Ok(None)
        }
        (Kinship::Stranger(error), _) => Err(failed(&error)),
        (Kinship::Parted(error), term) => {
            let aside = aside_of(dir, term);
            std::fs::rename(dir, &aside)
                .map_err(|error| Failure::work(format_args!("cannot put {} aside", dir.display()), error))?;
            eprintln!("{} was a primary, and cannot go on as a replica: {error}", dir.display());
            eprintln!(
                "It is now {}, with all that it had; coeval sql opens it. A copy takes its place.",
                aside.display()
            );
            copied(from, dir).map(Some)
        }
    }
}

/// A name that nobody has, beside the directory.
fn aside_of(dir: &Path, term: u64) -> PathBuf {
    // Without a slash at the end.
    let dir: PathBuf = dir.components().collect();
    let mut names = (1..).map(|number| {
        let mut name = dir.as_os_str().to_owned();
        let tail = if number == 1 { format!(".term-{term}") } else { format!(".term-{term}-{number}") };
        name.push(tail);
        PathBuf::from(name)
    });
    names.find(|path| !path.exists()).expect("there are names enough")
}

fn copied(from: &PrimaryAddress, dir: &Path) -> Result<Link, Failure> {
    eprintln!("Copying the database of {from}");
    let (begun, mut said) = (Instant::now(), Instant::now());
    let mut came = 0;
    let link = copy_database(from, dir, &mut |bytes| {
        came = bytes;
        if said.elapsed() >= PROGRESS_INTERVAL {
            said = Instant::now();
            eprintln!("  {} MB", bytes >> 20);
        }
    });
    let link =
        link.map_err(|error| Failure::work(format_args!("cannot copy the database of {from}"), error))?;
    eprintln!("Copied {} MB in {:.1} s", came >> 20, begun.elapsed().as_secs_f64());
    Ok(link)
}
