// SPDX-License-Identifier: Apache-2.0
//! A server that follows another one.

use super::secret_in;
use crate::arguments::ServeArguments;
use crate::directory::{Contents, look};
use crate::failure::Failure;
use coeval::{Database, DatabaseOptions};
use coeval_replica::{PrimaryAddress, Replica, copy_database};
use std::path::Path;
use std::time::{Duration, Instant};

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
    let replica = Replica::start(follower, address, link)
        .map_err(|error| Failure::work("cannot start a thread for the replica", error))?;
    Ok((database, replica))
}

fn copied(from: &PrimaryAddress, dir: &Path) -> Result<coeval_replica::Link, Failure> {
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
