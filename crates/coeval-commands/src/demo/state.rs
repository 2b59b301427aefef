// SPDX-License-Identifier: Apache-2.0
//! What an earlier demo left in a directory: whether its data was loaded to the end, and how far its commits were
//! acknowledged.
//!
//! The database itself says whether it was loaded: the table `demo` is made before anything is loaded and gets its
//! row when everything is. Beside it lies a file with the newest version that was seen acknowledged; it is written
//! after the fact and never ahead of it, so a database that was opened again must be at least there.

use crate::failure::Failure;
use coeval::{Database, Value, Version, value_at};
use coeval_bench::{Population, chbench, tpcc};
use std::path::{Path, PathBuf};

/// How much data there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) warehouses: u32,
    pub(crate) population: Population,
}

impl Size {
    /// `1 warehouse`.
    pub(crate) fn describe(self) -> String {
        let plural = if self.warehouses == 1 { "" } else { "s" };
        let tiny = if self.population == Population::Tiny { " of tiny size" } else { "" };
        format!("{} warehouse{plural}{tiny}", self.warehouses)
    }
}

/// What a database holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loaded {
    /// No tables.
    Not,
    /// Some of a demo's data.
    Partly,
    /// All of a demo's data.
    Whole(Size),
    /// Somebody else's tables.
    Foreign,
}

const TABLE: &str = "demo";

fn failed(error: coeval::Error) -> Failure {
    Failure::work("cannot prepare the demo's data", error)
}

/// What the database holds.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn loaded(db: &Database) -> Result<Loaded, Failure> {
    if db.world().tables().next().is_none() {
        return Ok(Loaded::Not);
    }
    if db.table(TABLE).is_err() {
        return Ok(Loaded::Foreign);
    }
    let Ok(batches) = db.session().query("SELECT warehouses, tiny FROM demo") else {
        return Ok(Loaded::Foreign);
    };
    let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else { return Ok(Loaded::Partly) };
    let (warehouses, tiny) =
        (value_at(batch.column(0), 0).to_owned(), value_at(batch.column(1), 0).to_owned());
    let (Value::Int32(warehouses), Value::Boolean(tiny)) = (warehouses, tiny) else {
        return Ok(Loaded::Foreign);
    };
    let Ok(warehouses) = u32::try_from(warehouses) else { return Ok(Loaded::Foreign) };
    let population = if tiny { Population::Tiny } else { Population::Full };
    Ok(Loaded::Whole(Size { warehouses, population }))
}

/// Marks the database as one that a demo is being loaded into.
///
/// # Errors
/// If the database refuses.
pub(crate) fn begin_loading(db: &Database) -> Result<(), Failure> {
    let sql = "CREATE TABLE demo (id int PRIMARY KEY, warehouses int NOT NULL, tiny boolean NOT NULL, \
               loaded_at timestamptz NOT NULL)";
    db.session().execute(sql).map(|_| ()).map_err(failed)
}

/// Marks everything as loaded.
///
/// # Errors
/// If the database refuses.
pub(crate) fn end_loading(db: &Database, size: Size) -> Result<(), Failure> {
    let tiny = size.population == Population::Tiny;
    let sql = format!("INSERT INTO demo VALUES (1, {}, {tiny}, now())", size.warehouses);
    db.session().execute(&sql).map(|_| ()).map_err(failed)
}

/// Drops a demo's tables.
///
/// # Errors
/// If the database refuses.
pub(crate) fn remove_tables(db: &Database) -> Result<(), Failure> {
    let mut session = db.session();
    let workload = tpcc::schema::TABLES.iter().chain(&chbench::TABLES).map(|table| table.name);
    // The mark goes last, so that a stop in between is seen as a load that did not end.
    let names: Vec<&str> = workload.chain([TABLE]).collect();
    session.execute("DELETE FROM demo").map_err(failed)?;
    for name in names {
        session.execute(&format!("DROP TABLE IF EXISTS {name}")).map_err(failed)?;
    }
    Ok(())
}

/// The file that the newest acknowledged version is noted in.
pub(crate) fn acknowledged_file(dir: &Path) -> PathBuf {
    dir.join("demo.acknowledged")
}

/// The version that an earlier demo in this directory noted, if there was one.
pub(crate) fn noted_version(dir: &Path) -> Option<Version> {
    let text = std::fs::read_to_string(acknowledged_file(dir)).ok()?;
    text.trim().parse().ok().map(Version::new)
}

/// Notes a version that has been acknowledged. By renaming, so that a reader never finds half a number.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn note_version(file: &Path, version: Version) -> std::io::Result<()> {
    let unfinished = file.with_extension("unfinished");
    std::fs::write(&unfinished, format!("{}\n", version.get()))?;
    std::fs::rename(unfinished, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noted_version_is_found_again() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(noted_version(directory.path()), None);
        let file = acknowledged_file(directory.path());
        note_version(&file, Version::new(17)).unwrap();
        note_version(&file, Version::new(18)).unwrap();
        assert_eq!(noted_version(directory.path()), Some(Version::new(18)));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_demo_is_told_from_other_databases_and_from_half_a_demo() {
        let db = Database::in_memory().unwrap();
        assert_eq!(loaded(&db).unwrap(), Loaded::Not);
        begin_loading(&db).unwrap();
        assert_eq!(loaded(&db).unwrap(), Loaded::Partly);
        let size = Size { warehouses: 3, population: Population::Tiny };
        end_loading(&db, size).unwrap();
        assert_eq!(loaded(&db).unwrap(), Loaded::Whole(size));
        remove_tables(&db).unwrap();
        assert_eq!(loaded(&db).unwrap(), Loaded::Not);
        db.session().execute("CREATE TABLE letters (id int PRIMARY KEY)").unwrap();
        assert_eq!(loaded(&db).unwrap(), Loaded::Foreign);
    }
}
