// SPDX-License-Identifier: Apache-2.0
//! Directories that are given on the command line: whether there is a database in them, and opening it.

use crate::allocator;
use crate::failure::Failure;
use crate::served;
use coeval::{DamagedTables, Database, DatabaseOptions, Error, FileError, Holder, StoreError};
use std::io;
use std::path::Path;

/// The file without which a directory is no database.
const MANIFEST: &str = "MANIFEST";

/// What a database directory may hold while there is no manifest yet.
const OWN_FILES: [&str; 19] = [
    "LOCK",
    "MANIFEST.tmp",
    "cluster",
    "follower",
    "follower.tmp",
    "kept-log",
    "kept-log.tmp",
    "log",
    "mock-secret",
    "pg_hba.conf",
    "promise",
    "promise.tmp",
    "rewinding",
    "rewinding.tmp",
    "rewound",
    "segments",
    served::FILE_NAME,
    "spill",
    "unfinished-copy",
];

/// What there is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// A database.
    Database,
    /// Files of a database, without the one that says which of them count; or of one that was never finished.
    Remains,
    /// Nothing, or an empty directory.
    Nothing,
    /// Something else.
    Foreign,
}

/// Looks at what there is at a path.
///
/// # Errors
/// If it is there and cannot be looked at.
pub(crate) fn look(path: &Path) -> Result<Contents, Failure> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::Nothing),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(Contents::Foreign),
        Err(error) => return Err(Failure::work(format_args!("cannot read {}", path.display()), error)),
    };
    let mut contents = Contents::Nothing;
    for entry in entries {
        let entry =
            entry.map_err(|error| Failure::work(format_args!("cannot read {}", path.display()), error))?;
        let name = entry.file_name();
        if name == MANIFEST {
            return Ok(Contents::Database);
        }
        if !OWN_FILES.iter().any(|own| name == *own) {
            contents = Contents::Foreign;
        } else if contents == Contents::Nothing && name != "LOCK" {
            contents = Contents::Remains;
        }
    }
    Ok(contents)
}

/// Why a command ends that needs a database and does not make one: there is none at this path.
pub(crate) fn no_database(path: &Path) -> Failure {
    let reason = if path.exists() { "" } else { ": there is no such directory" };
    Failure::Work(format!("{} holds no database{reason}", path.display()))
}

/// Opens the database in a directory, or makes one in a new or empty directory. Says which tables are served without.
///
/// # Errors
/// If something else is there, another process has it open, or a file is damaged.
pub(crate) fn open_with(path: &Path, options: DatabaseOptions) -> Result<Database, Failure> {
    let opened = try_open(path, options)?;
    opened.map_err(|error| {
        let shown = path.display();
        match holder(&error).and_then(|holder| way_to_server(path, holder)) {
            Some(way) => Failure::Work(format!("cannot open {shown}: {error}; it is served: {way}")),
            None => Failure::work(format_args!("cannot open {shown}"), error),
        }
    })
}

/// The command that reaches the server that has a directory open, if it has said where it listens. What another process has left there
/// is not followed.
fn way_to_server(path: &Path, holder: &Holder) -> Option<String> {
    let served = served::read(path).ok()??;
    let nearby = served.nearby();
    (holder.pid == Some(served.process))
        .then(|| format!("psql -h {} -p {} coeval", nearby.ip(), nearby.port()))
}

/// The same, with the database's own error for who knows what to do then.
///
/// # Errors
/// If something else is there.
pub(crate) fn try_open(path: &Path, options: DatabaseOptions) -> Result<Result<Database, Error>, Failure> {
    // Of a file the database itself says what it is, and how it is read.
    if look(path)? == Contents::Foreign && !path.is_file() {
        return Err(Failure::Work(format!(
            "{} is not a database and not empty; name a database directory, or a new or empty one",
            path.display()
        )));
    }
    let database = match options.open(path) {
        Ok(database) => database,
        Err(error) => return Ok(Err(error)),
    };
    // No server has it open, as this process has.
    served::forget(path);
    for (table, damage) in database.damaged_tables() {
        eprintln!("coeval: table {table} cannot be read: {damage}");
    }
    Ok(Ok(database))
}

/// Who has the directory open, if it could not be opened for that.
pub(crate) fn holder(error: &Error) -> Option<&Holder> {
    match error {
        Error::Store(StoreError::File(FileError::DirectoryInUse { holder, .. })) => Some(holder),
        _ => None,
    }
}

/// How a database is opened of which some may be damaged: what cannot be read is named, the rest is read only.
pub(crate) fn salvaging() -> DatabaseOptions {
    options().damaged(DamagedTables::ServeOthersReadOnly)
}

/// The standard, with this program's allocator.
pub(crate) fn options() -> DatabaseOptions {
    Database::options().give_back_memory(allocator::give_back)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::served::{Served, ServedFile};

    #[test]
    fn who_has_a_directory_open_is_reached_where_it_says() {
        let directory = tempfile::tempdir().unwrap();
        let way = |pid| {
            way_to_server(directory.path(), &Holder { pid: Some(pid), command: "coeval serve".to_owned() })
        };
        assert_eq!(way(7), None);
        let served = Served { process: 7, user: None, address: "0.0.0.0:5433".parse().unwrap() };
        let _file = ServedFile::write(directory.path(), &served).unwrap();
        assert_eq!(way(7).unwrap(), "psql -h 127.0.0.1 -p 5433 coeval");
        assert_eq!(way(8), None);
    }

    #[test]
    fn foreign_directories_are_told_from_empty_ones_and_databases() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let seen = |path: &Path| look(path).unwrap();
        assert_eq!(seen(&path.join("new")), Contents::Nothing);
        assert_eq!(seen(path), Contents::Nothing);
        std::fs::write(path.join("LOCK"), "").unwrap();
        assert_eq!(seen(path), Contents::Nothing);
        std::fs::write(path.join("letter.txt"), "").unwrap();
        assert_eq!(seen(path), Contents::Foreign);
        assert_eq!(seen(&path.join("letter.txt")), Contents::Foreign);
        std::fs::write(path.join(MANIFEST), "").unwrap();
        assert_eq!(seen(path), Contents::Database);
    }

    /// The promise comes before anything else. A copy that ended behind it was taken for somebody else's directory.
    #[test]
    fn a_copy_that_did_not_end_is_what_remains_of_one() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["LOCK", "promise", "promise.tmp", "served", "unfinished-copy"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!(look(directory.path()).unwrap(), Contents::Remains);
    }
}
