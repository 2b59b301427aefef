// SPDX-License-Identifier: Apache-2.0
//! `coeval check --replica --against`: whether a replica has what its primary has.
//!
//! Both are read at one version. The replica is paused: it goes on taking the log, and shows nothing new. Then a snapshot is
//! taken on the primary, and the replica asked to show exactly that version; once a transaction holds it there, it
//! goes on. So both servers work on while they are compared.
//!
//! A replica that is paused stays so until somebody has it go on: whatever ends the comparison, Ctrl-C too, that is done before.
//!
//! Definitions are compared as the catalog lists them. A table with a key is compared by ranges of it: each server gives the count
//! and a checksum of a range's rows, and only the rows of ranges that differ go over the wire. Other tables are compared row by
//! row, as the text that COPY gives.

mod sequences;

use crate::failure::Failure;
use crate::interrupt::{Interrupt, STOPPING};
use crate::readable::grouped;
use crate::remote::Server;
use futures::StreamExt;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long the replica may take to come to the version of the primary's snapshot, before another is tried.
const VERSION_PATIENCE: Duration = Duration::from_secs(20);

/// For so long the replica stays paused at most, whatever the primary does not answer.
const PAUSE_MAX: Duration = Duration::from_secs(90);

/// How often the replica is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// A snapshot on the primary may hold a version that the replica has only together with the next one, while it was just being
/// paused.
const ATTEMPTS: usize = 3;

/// What the catalog says of definitions, each as lines in a fixed order. Without the roles that come with the program (`pg_...`) and
/// what they are members of: no log has them, and a program of another version may bring others.
const DEFINITIONS: [(&str, &str); 12] = [
    (
        "columns",
        "SELECT table_schema || '.' || table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable \
         || ' ' || coalesce(column_default, '') FROM information_schema.columns \
         WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1",
    ),
    (
        "constraints",
        "SELECT c.conrelid::regclass::text || ' ' || c.conname || ' ' || pg_get_constraintdef(c.oid) \
         FROM pg_constraint c WHERE c.conrelid <> 0 ORDER BY 1",
    ),
    ("indexes", "SELECT schemaname || '.' || indexname || ' ' || indexdef FROM pg_indexes ORDER BY 1"),
    (
        "views",
        "SELECT schemaname || '.' || viewname || ' ' || definition FROM pg_views \
         WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1",
    ),
    (
        "roles",
        "SELECT rolname || ' ' || rolsuper || ' ' || rolcanlogin || ' ' || rolreplication || ' ' || rolinherit \
         || ' ' || rolcreaterole || ' ' || rolcreatedb || ' ' || rolbypassrls || ' ' || rolconnlimit \
         || ' ' || coalesce(rolvaliduntil::text, '') FROM pg_roles WHERE rolname NOT LIKE 'pg\\_%' ORDER BY 1",
    ),
    (
        "memberships",
        "SELECT pg_get_userbyid(roleid) || ' to ' || pg_get_userbyid(member) || ' ' || admin_option \
         FROM pg_auth_members WHERE pg_get_userbyid(member) NOT LIKE 'pg\\_%' ORDER BY 1",
    ),
    (
        "owners and grants",
        "SELECT n.nspname || '.' || c.relname || ' ' || pg_get_userbyid(c.relowner) || ' ' \
         || coalesce(array_to_string(c.relacl, ' '), '') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('r', 'v', 'm', 'S') AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1",
    ),
    (
        "grants on columns",
        "SELECT a.attrelid::regclass::text || '.' || a.attname || ' ' || array_to_string(a.attacl, ' ') \
         FROM pg_attribute a WHERE a.attacl IS NOT NULL ORDER BY 1",
    ),
    (
        "default privileges",
        "SELECT pg_get_userbyid(d.defaclrole) || ' ' || coalesce(n.nspname, '') || ' ' || d.defaclobjtype::text || ' ' \
         || array_to_string(d.defaclacl, ' ') FROM pg_default_acl d \
         LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace ORDER BY 1",
    ),
    (
        "schemas",
        "SELECT nspname || ' ' || pg_get_userbyid(nspowner) || ' ' || coalesce(array_to_string(nspacl, ' '), '') \
         FROM pg_namespace WHERE nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1",
    ),
    (
        "types",
        "SELECT n.nspname || '.' || t.typname || ' ' || string_agg(quote_literal(e.enumlabel), ' ' ORDER BY e.enumsortorder) \
         FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid JOIN pg_namespace n ON n.oid = t.typnamespace \
         GROUP BY n.nspname, t.typname ORDER BY 1",
    ),
    (
        "sequences",
        "SELECT schemaname || '.' || sequencename || ' ' || data_type::text || ' ' || start_value || ' ' || increment_by \
         || ' ' || min_value || ' ' || max_value || ' ' || cycle FROM pg_sequences ORDER BY 1",
    ),
];

/// The tables, each with the columns of its primary key and their types, if it has one, and all its columns; names and types stand
/// on lines of their own.
const TABLES: &str = "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname), \
    (SELECT string_agg(quote_ident(a.attname) || chr(10) || format_type(a.atttypid, a.atttypmod), chr(10) \
                       ORDER BY array_position(i.indkey::int[], a.attnum::int)) \
     FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) \
     WHERE i.indrelid = c.oid AND i.indisprimary), \
    (SELECT string_agg(quote_ident(a.attname), chr(10) ORDER BY a.attnum) \
     FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%' \
    ORDER BY 1";

/// Compares two servers, and says what differs.
///
/// # Errors
/// If a server cannot be asked, the replica does not come to the primary's version, or something differs.
pub(crate) fn run(replica: &str, primary: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::work("cannot start a runtime", error))?;
    runtime.block_on(async {
        let (primary, replica) = (Server::open(primary).await?, Server::open(replica).await?);
        let interrupted = Arc::new(Notify::new());
        let noting = Arc::clone(&interrupted);
        Interrupt::watch_and(STOPPING, move || noting.notify_one());
        let version = at_one_version(&primary, &replica, &interrupted).await?;
        tokio::select! {
            compared = compare(&primary, &replica, &version) => compared,
            () = interrupted.notified() => Err(stopped()),
        }
    })
}

fn stopped() -> Failure {
    Failure::Work("the comparison was stopped before its end".to_owned())
}

/// Compares what two servers show, each in a snapshot of this version, and says what differs.
async fn compare(primary: &Server, replica: &Server, version: &str) -> Result<(), Failure> {
    println!("both at version {version}");
    let mut found = Found::default();
    for (what, query) in DEFINITIONS {
        found.compare_lists(what, &primary.column(query).await?, &replica.column(query).await?);
    }
    found.compare_sequences(primary, replica).await?;
    let tables = primary.rows(TABLES).await?;
    for row in &tables {
        let [Some(table), key, columns] = row.as_slice() else { continue };
        match Keyed::of(table, key.as_deref(), columns.as_deref()) {
            Some(table) => found.compare_by_ranges(&table, primary, replica).await?,
            None => found.compare_rows(table, "", primary, replica).await?,
        }
    }
    println!("{} tables, {} rows compared", tables.len(), grouped(found.rows));
    if found.differences == 0 { Ok(()) } else { Err(Failure::Said) }
}

impl Server {
    /// A snapshot that all that follows reads; its version.
    async fn begin(&self) -> Result<String, Failure> {
        self.rows("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?;
        self.value("SELECT txid_current()").await
    }
}

/// Has both servers hold snapshots of one version, and the replica go on, whatever comes of it.
async fn at_one_version(primary: &Server, replica: &Server, interrupted: &Notify) -> Result<String, Failure> {
    replica.rows("SELECT pg_wal_replay_pause()").await?;
    let outcome = tokio::select! {
        outcome = hold_one_version(primary, replica) => outcome,
        () = interrupted.notified() => Err(stopped()),
        () = tokio::time::sleep(PAUSE_MAX) => {
            let seconds = PAUSE_MAX.as_secs();
            Err(Failure::Work(format!("the servers do not answer within {seconds} s")))
        }
    };
    if outcome.is_err() {
        // Whatever the transaction there has come to.
        replica.rows("ROLLBACK").await?;
        replica.rows("SELECT pg_wal_replay_resume()").await?;
    }
    outcome
}

async fn hold_one_version(primary: &Server, replica: &Server) -> Result<String, Failure> {
    for _ in 0..ATTEMPTS {
        let wanted = primary.begin().await?;
        replica.rows(&format!("SELECT coeval_wal_replay_until({wanted})")).await?;
        let begun = Instant::now();
        while begun.elapsed() < VERSION_PATIENCE {
            if replica.begin().await? == wanted {
                // The transaction holds it; others go on.
                replica.rows("SELECT pg_wal_replay_resume()").await?;
                return Ok(wanted);
            }
            replica.rows("ROLLBACK").await?;
            tokio::time::sleep(LOOK).await;
        }
        primary.rows("ROLLBACK").await?;
    }
    let seconds = VERSION_PATIENCE.as_secs();
    Err(Failure::Work(format!(
        "the replica does not come to the primary's version within {seconds} s: does it follow this one?"
    )))
}

/// What was found so far.
#[derive(Default)]
struct Found {
    differences: usize,
    rows: u64,
}

impl Found {
    fn differs(&mut self, what: &str) {
        self.differences += 1;
        println!("differs: {what}");
    }

    fn compare_lists(&mut self, what: &str, primary: &[String], replica: &[String]) {
        let (primary, replica): (BTreeSet<_>, BTreeSet<_>) =
            (primary.iter().collect(), replica.iter().collect());
        for line in primary.difference(&replica) {
            self.differs(&format!("{what}: the primary alone has {line}"));
        }
        for line in replica.difference(&primary) {
            self.differs(&format!("{what}: the replica alone has {line}"));
        }
    }

    /// Compares a table by ranges of its key, and those that differ row by row.
    async fn compare_by_ranges(
        &mut self,
        table: &Keyed<'_>,
        primary: &Server,
        replica: &Server,
    ) -> Result<(), Failure> {
        let mut after: Option<Vec<String>> = None;
        loop {
            let to = primary.rows(&table.end_of_range(after.as_deref())).await?;
            let to: Option<Vec<String>> = to.into_iter().next().and_then(|row| row.into_iter().collect());
            let range = table.range(after.as_deref(), to.as_deref());
            let checksum = table.checksum(&range);
            let (one, other) = tokio::try_join!(primary.rows(&checksum), replica.rows(&checksum))?;
            if one == other {
                let count = one.first().and_then(|row| row.first()?.as_deref()?.parse::<u64>().ok());
                self.rows += count.unwrap_or_default();
            } else {
                self.compare_rows(table.name, &range, primary, replica).await?;
            }
            if to.is_none() {
                return Ok(());
            }
            after = to;
        }
    }

    /// Compares rows, those of a range or all, in the order of all their columns.
    async fn compare_rows(
        &mut self,
        table: &str,
        range: &str,
        primary: &Server,
        replica: &Server,
    ) -> Result<(), Failure> {
        let width = primary.rows(&format!("SELECT * FROM {table} LIMIT 1")).await?;
        let width = width.first().map_or(0, Vec::len);
        let order = (1..=width).map(|column| column.to_string()).collect::<Vec<_>>().join(", ");
        let order = if order.is_empty() { String::new() } else { format!(" ORDER BY {order}") };
        let copy = format!("COPY (SELECT * FROM {table}{range}{order}) TO STDOUT");
        let (mut one, mut other) = (Lines::begin(primary, &copy).await?, Lines::begin(replica, &copy).await?);
        let (mut differing, mut first) = (0_u64, None);
        loop {
            let (line, copied) = (one.next().await?, other.next().await?);
            if line.is_none() && copied.is_none() {
                break;
            }
            self.rows += 1;
            if line != copied {
                differing += 1;
                first.get_or_insert((line, copied));
            }
        }
        if let Some((line, copied)) = first {
            let shown = |line: Option<String>| line.unwrap_or_else(|| "no row".to_owned());
            let (line, copied) = (shown(line), shown(copied));
            self.differs(&format!("{table}: {differing} rows from the first one on; there the primary has {line}, the replica {copied}"));
        }
        Ok(())
    }
}

/// Rows of a range that is compared by one checksum.
const RANGE_ROWS: usize = 10_000;

/// A table that has a primary key.
struct Keyed<'a> {
    name: &'a str,
    /// The columns of the key, and their types.
    key: Vec<(&'a str, &'a str)>,
    columns: Vec<&'a str>,
}

impl<'a> Keyed<'a> {
    /// Of the lines that [`TABLES`] gives. `None` if there is no key.
    fn of(name: &'a str, key: Option<&'a str>, columns: Option<&'a str>) -> Option<Self> {
        let lines: Vec<&str> = key?.lines().collect();
        let key = lines.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        Some(Self { name, key, columns: columns?.lines().collect() })
    }

    fn key_columns(&self) -> String {
        self.key.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// A place in the order of the key.
    fn place(&self, values: &[String]) -> Vec<String> {
        let literal =
            |(value, (_, ty)): (&String, &(&str, &str))| format!("'{}'::{ty}", value.replace('\'', "''"));
        values.iter().zip(&self.key).map(literal).collect()
    }

    /// The rows behind a place, up to another one. The first column of the key says so as well: by that rows are found.
    fn range(&self, after: Option<&[String]>, to: Option<&[String]>) -> String {
        let mut terms = Vec::new();
        let first = self.key.first().map_or("", |(name, _)| name);
        for (bound, whole, of_first) in [(after, ">", ">="), (to, "<=", "<=")] {
            let Some(place) = bound.map(|bound| self.place(bound)) else { continue };
            if let ([only], 1) = (place.as_slice(), self.key.len()) {
                terms.push(format!("{first} {whole} {only}"));
            } else {
                terms.push(format!("{first} {of_first} {}", place[0]));
                terms.push(format!("({}) {whole} ({})", self.key_columns(), place.join(", ")));
            }
        }
        if terms.is_empty() { String::new() } else { format!(" WHERE {}", terms.join(" AND ")) }
    }

    /// Asks for the last place of the range that begins behind a place; there is none in the last range.
    fn end_of_range(&self, after: Option<&[String]>) -> String {
        let texts = self.key.iter().map(|(name, _)| format!("{name}::text")).collect::<Vec<_>>().join(", ");
        let (range, key) = (self.range(after, None), self.key_columns());
        format!("SELECT {texts} FROM {}{range} ORDER BY {key} OFFSET {} LIMIT 1", self.name, RANGE_ROWS - 1)
    }

    /// Asks for the count and a checksum of the rows of a range.
    fn checksum(&self, range: &str) -> String {
        let texts = self
            .columns
            .iter()
            .map(|name| format!("coalesce(length({name}::text) || ':' || {name}::text, '')"));
        let texts = texts.collect::<Vec<_>>().join(" || ',' || ");
        let key = self.key_columns();
        format!("SELECT count(*), md5(string_agg({texts}, chr(10) ORDER BY {key})) FROM {}{range}", self.name)
    }
}

/// The lines of a COPY.
struct Lines<'a> {
    server: &'a Server,
    stream: std::pin::Pin<Box<tokio_postgres::CopyOutStream>>,
    bytes: Vec<u8>,
    place: usize,
}

impl<'a> Lines<'a> {
    async fn begin(server: &'a Server, copy: &str) -> Result<Self, Failure> {
        let stream = server.client.copy_out(copy).await.map_err(|error| server.failed(&error))?;
        Ok(Self { server, stream: Box::pin(stream), bytes: Vec::new(), place: 0 })
    }

    async fn next(&mut self) -> Result<Option<String>, Failure> {
        loop {
            let rest = &self.bytes[self.place..];
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&rest[..end]).into_owned();
                self.place += end + 1;
                return Ok(Some(line));
            }
            match self.stream.next().await {
                Some(Ok(bytes)) => {
                    self.bytes.drain(..self.place);
                    self.place = 0;
                    self.bytes.extend_from_slice(&bytes);
                }
                Some(Err(error)) => return Err(self.server.failed(&error)),
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use coeval::Database;

    /// While replicas are brought up to date before their primary, the two may bring different ones. Fails when the queries list all roles.
    #[test]
    fn roles_that_come_with_the_program_are_not_compared() {
        let database = Database::in_memory().unwrap();
        let mut session = database.session();
        session.execute("CREATE ROLE clerk; GRANT pg_monitor TO clerk").unwrap();
        let mut lines = |what: &str, pattern: &str| {
            let (_, query) = DEFINITIONS.iter().find(|(name, _)| *name == what).unwrap();
            let counted =
                format!("SELECT count(*) FROM ({query}) AS listed (line) WHERE line LIKE '{pattern}'");
            session.query(&counted).unwrap()[0].column(0).as_primitive::<Int64Type>().value(0)
        };
        assert_eq!((lines("roles", "clerk %"), lines("roles", "pg%")), (1, 0));
        assert_eq!((lines("memberships", "pg_monitor to clerk %"), lines("memberships", "%")), (1, 1));
    }
}
