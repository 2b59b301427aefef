// SPDX-License-Identifier: Apache-2.0
//! A server that follows another one, or its archive.

use super::secret_in;
use crate::arguments::ServeArguments;
use crate::directory::{Contents, look};
use crate::failure::Failure;
use coeval::{Database, DatabaseOptions};
use coeval_archive::{Archive, copy_newest};
use coeval_replica::{ArchiveSource, Link, Replica, ReplicaError, SourceAddress, Sources, copy_database};
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a copy says how much has come.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Opens the replica in a directory, which is made of a copy of the primary's or of the archive's if it is new, and begins to
/// follow.
///
/// # Errors
/// If nobody gives a copy, or the directory holds something else.
pub(super) fn open(
    dir: &Path,
    of: &str,
    arguments: &ServeArguments,
    options: DatabaseOptions,
) -> Result<(Database, Replica), Failure> {
    let sources = sources(of, arguments)?;
    let link = match look(dir)? {
        Contents::Database => None,
        Contents::Nothing | Contents::Remains => copied(&sources, dir)?,
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
    let replica = Replica::start(follower, sources, link)
        .map_err(|error| Failure::work("cannot start a thread for the replica", error))?;
    Ok((database, replica))
}

fn sources(of: &str, arguments: &ServeArguments) -> Result<Sources, Failure> {
    let mut address = SourceAddress::parse(of).map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(file) = &arguments.replica_password_file {
        let Some(primary) = &mut address.primary else {
            let message = "--replica-password-file is for a primary, and --replica-of names none";
            return Err(Failure::Usage(message.to_owned()));
        };
        primary.password = Some(secret_in(file)?);
    }
    let interval = Duration::from_secs_f64(arguments.replica_poll);
    let archive = address.archive.as_deref().map(Archive::open).transpose();
    let archive = archive.map_err(|error| Failure::work("cannot follow", error))?;
    let archive = archive.map(|archive| ArchiveSource { archive, interval });
    Ok(Sources { primary: address.primary, archive })
}

/// Makes the copy that a replica begins with: of the primary's database or, if the primary does not answer, of the archive's
/// newest backup. Returns the connection to the primary, if it is from there.
fn copied(from: &Sources, dir: &Path) -> Result<Option<Link>, Failure> {
    let failed = |from: &dyn fmt::Display, error: ReplicaError| {
        Failure::work(format_args!("cannot copy the database of {from}"), error)
    };
    let unreached = match &from.primary {
        None => None,
        Some(primary) => match told(primary, &mut |progress| copy_database(primary, dir, progress)) {
            Ok(link) => return Ok(Some(link)),
            Err(error @ ReplicaError::Connection { .. }) if from.archive.is_some() => Some(error),
            Err(error) => return Err(failed(primary, error)),
        },
    };
    if let Some(error) = unreached {
        eprintln!("The primary does not answer ({error})");
    }
    let Some(ArchiveSource { archive, .. }) = &from.archive else { return Ok(None) };
    let place = format!("the archive {}", archive.place());
    told(&place, &mut |progress| Ok(copy_newest(archive, dir, progress)?))
        .map_err(|error| failed(&place, error))?;
    Ok(None)
}

/// Says how a copy goes.
fn told<T>(
    from: &dyn fmt::Display,
    copy: &mut dyn FnMut(&mut dyn FnMut(u64)) -> Result<T, ReplicaError>,
) -> Result<T, ReplicaError> {
    eprintln!("Copying the database of {from}");
    let (begun, mut said) = (Instant::now(), Instant::now());
    let mut came = 0;
    let copied = copy(&mut |bytes| {
        came = bytes;
        if said.elapsed() >= PROGRESS_INTERVAL {
            said = Instant::now();
            eprintln!("  {} MB", bytes >> 20);
        }
    })?;
    eprintln!("Copied {} MB in {:.1} s", came >> 20, begun.elapsed().as_secs_f64());
    Ok(copied)
}
