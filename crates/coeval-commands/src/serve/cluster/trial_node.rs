// SPDX-License-Identifier: Apache-2.0
//! A node alone, as tests run it, and directories that were restored for it to begin in.

use super::belonging::{self, Role};
use super::declarations::Declarations;
use super::own_node::{OwnNode, Stage};
use super::part_writer::PartWriter;
use super::writing::Place;
use super::{FOLDER, Start, attempt, folder, start_keeper};
use crate::arguments::{Arguments, Command};
use crate::failure::Failure;
use arrow::array::{ArrayRef, Date32Array, Int64Array, RecordBatch, StringArray};
use clap::Parser;
use coeval::{BrickSchema, Cluster, ClusterDelete, ClusterLoad, ClusterSnapshot, Database, SqlError};
use coeval_archive::{
    Archive, ArchiveError, SpreadNext, SpreadPart, SpreadRows, SpreadSnapshot, SpreadSource, Target,
    backup_with, restore,
};
use coeval_cluster::{BrickAddress, Durability, Epoch, Node, NodeOptions, Tables};
use futures::future::BoxFuture;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// Brick tables are spread where there is a cluster; these have no rows.
#[derive(Debug)]
pub(super) struct WithoutRows;

fn no_rows<T: Send + 'static>() -> BoxFuture<'static, Result<T, SqlError>> {
    Box::pin(async { Err(SqlError::unsupported("rows")) })
}

impl Cluster for WithoutRows {
    fn replicas(&self) -> usize {
        2
    }

    fn declare(&self, _: u64, _: &BrickSchema) -> Result<(), SqlError> {
        Ok(())
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Arc<dyn ClusterSnapshot>, SqlError>> {
        no_rows()
    }

    fn load(&self) -> BoxFuture<'_, Result<Box<dyn ClusterLoad>, SqlError>> {
        no_rows()
    }

    fn delete(&self) -> BoxFuture<'_, Result<Box<dyn ClusterDelete>, SqlError>> {
        no_rows()
    }
}

/// A spread table with texts, and another one.
pub(super) const TABLES: [&str; 2] = [
    "CREATE TABLE hits (day date, n bigint, note text) USING brick \
         PARTITION BY (day RANGE SIZE '10 days' FROM '2026-01-01')",
    "CREATE TABLE days (day date, n bigint, note text) USING brick \
         PARTITION BY (day RANGE SIZE '10 days' FROM '2026-01-01')",
];

/// The first of January 2026, in days since 1970.
const FIRST_DAY: i32 = 20_454;

/// Rows of one of these tables: `n` tells them apart.
pub(super) fn rows(numbers: Range<i64>) -> RecordBatch {
    let days = numbers.clone().map(|n| FIRST_DAY + i32::try_from(n % 120).unwrap());
    let notes = numbers.clone().map(|n| (n % 5 != 0).then(|| format!("note {}", n % 7)));
    let columns: [(&str, ArrayRef, bool); 3] = [
        ("day", Arc::new(Date32Array::from(days.collect::<Vec<_>>())), true),
        ("n", Arc::new(Int64Array::from(numbers.clone().collect::<Vec<_>>())), true),
        ("note", Arc::new(notes.collect::<StringArray>()), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

pub(super) fn run(database: &Database, sql: &str) {
    database.session().run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

pub(super) fn number_of(database: &Database, name: &str) -> u64 {
    let name = coeval::QualifiedName::new("public", name);
    u64::from(database.world().table_named(&name).unwrap().def().id.get())
}

pub(super) fn said(failure: Failure) -> String {
    match failure {
        Failure::Usage(message) | Failure::Work(message) => message,
        other => panic!("{other:?}"),
    }
}

/// What a cluster has that is gone: of each table some parts.
struct Gone(Vec<(u64, String, Vec<SpreadPart>)>);

struct GoneSnapshot {
    tables: Vec<(u64, String)>,
    parts: VecDeque<SpreadPart>,
}

impl SpreadSource for Gone {
    fn snapshot(&self) -> Result<Box<dyn SpreadSnapshot>, ArchiveError> {
        Ok(Box::new(GoneSnapshot {
            tables: self.0.iter().map(|(table, name, _)| (*table, name.clone())).collect(),
            parts: self.0.iter().flat_map(|(_, _, parts)| parts.iter().cloned()).collect(),
        }))
    }
}

impl SpreadSnapshot for GoneSnapshot {
    fn epoch(&self) -> Epoch {
        Epoch::new(9)
    }

    fn tables(&self) -> Vec<(u64, String)> {
        self.tables.clone()
    }

    fn next(&mut self) -> Result<SpreadNext, ArchiveError> {
        Ok(self.parts.pop_front().map_or(SpreadNext::End, SpreadNext::Part))
    }
}

fn parts_of(table: u64, parts: impl IntoIterator<Item = Range<i64>>) -> Vec<SpreadPart> {
    let mut writer = PartWriter::new(table);
    for numbers in parts {
        writer.push(&rows(numbers)).unwrap();
        writer.end().unwrap();
    }
    std::iter::from_fn(|| writer.next_part()).collect()
}

/// An archive with a backup of a database whose cluster is gone. `hits` had the rows 0 to 3,000, `days` those up to 500.
pub(super) struct Archived {
    parent: tempfile::TempDir,
    archive: Archive,
    restored: std::cell::Cell<u32>,
}

impl Archived {
    pub(super) fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        let archive = Archive::create(parent.path().join("archive").to_str().unwrap()).unwrap();
        let database = Database::open(parent.path().join("original")).unwrap();
        database.engine().set_cluster(Arc::new(WithoutRows));
        TABLES.iter().for_each(|sql| run(&database, sql));
        let (hits, days) = (number_of(&database, "hits"), number_of(&database, "days"));
        let gone = Gone(vec![
            (hits, "hits".to_owned(), parts_of(hits, [0..1_000, 1_000..1_001, 1_001..3_000])),
            (days, "days".to_owned(), parts_of(days, std::iter::once(0..500))),
        ]);
        let report =
            backup_with(database.engine().store(), &archive, SpreadRows::Of(&gone), &mut |_| {}).unwrap();
        assert_eq!((report.spread_tables, report.spread_rows), (2, 3_500));
        Self { parent, archive, restored: std::cell::Cell::new(0) }
    }

    /// A directory that it was restored into.
    pub(super) fn restored(&self) -> PathBuf {
        self.restored.set(self.restored.get() + 1);
        let dir = self.parent.path().join(format!("restored {}", self.restored.get()));
        let report = restore(&self.archive, &dir, Target::Latest, None).unwrap();
        assert_eq!(report.spread.unwrap().rows(), 3_500);
        dir
    }
}

/// A server of a directory that is about to be a node, and its threads.
pub(super) struct Trial {
    pub(super) database: Database,
    pub(super) start: Start,
    pub(super) declarations: Arc<Declarations>,
    pub(super) runtime: Runtime,
}

impl Trial {
    pub(super) fn begin(dir: &Path) -> Self {
        let database = super::super::once_closed(|| Database::open(dir)).unwrap();
        database.engine().set_cluster(Arc::new(WithoutRows));
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let words = ["coeval", "serve", "d", "--cluster", "127.0.0.1:7001"];
        let Command::Serve(arguments) = Arguments::try_parse_from(words).unwrap().command else {
            panic!("that is how a server is started");
        };
        let arguments = arguments.node.clone();
        let ask = belonging::ask_options(&arguments, arguments.cluster.as_ref().unwrap(), 7).unwrap();
        let directory = dir.join(FOLDER);
        folder::make(&directory).unwrap();
        let belongs =
            belonging::belong(&directory, &arguments, (&ask, Role::Primary), runtime.handle()).unwrap();
        let (membership, founding) = belongs;
        let tables = Tables::start(2).unwrap();
        let store = database.engine().store().clone();
        let declarations = Arc::new(Declarations::open(store.clone(), tables.clone(), &directory).unwrap());
        declarations.follow().unwrap();
        let options = NodeOptions::of_member(&membership, membership.transport(&ask), tables);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let threads = runtime.handle().clone();
        let (durability, term) = (Durability::Synced, store.terms().last().map_or(0, |term| term.number));
        let start =
            Start { options, listener, directory, founding, durability, store, term: Some(term), threads };
        Self { database, start, declarations, runtime }
    }

    /// The node as SQL has it, which is so far.
    pub(super) fn own_node(&self, stage: Stage) -> OwnNode {
        let options = &self.start.options;
        OwnNode {
            number: options.transport.node,
            nodes: options.nodes.clone(),
            keeper: options.keeper,
            replicas: options.replicas,
            patience: Duration::from_millis(50),
            stage: watch::Sender::new(stage),
            declarations: Arc::clone(&self.declarations),
            rows: options.rows.clone(),
            place: Place { threads: self.runtime.handle().clone() },
        }
    }

    /// The node, which serves.
    pub(super) fn node(&self) -> Node {
        let Ok(node) = attempt(&self.start, &self.declarations) else { panic!("it does not start") };
        self.runtime.block_on(async {
            let term = self.start.term.expect("it is a primary");
            start_keeper(&self.start, term, &node).await.unwrap();
            node.serves().await.unwrap();
        });
        node
    }

    /// All rows that a table has, whatever a reader sees of them yet.
    pub(super) fn all_rows(&self, node: &Node, table: &str) -> Vec<RecordBatch> {
        let table = number_of(&self.database, table);
        self.runtime.block_on(async {
            let delete = node.begin_delete().await.unwrap();
            let (seen, mut rows) = (delete.snapshot(), Vec::new());
            for brick in seen.bricks(table).await.unwrap() {
                rows.extend(seen.read(BrickAddress { table, brick }).await.unwrap().batches());
            }
            delete.roll_back().await.unwrap();
            rows
        })
    }
}

/// The numbers of rows, in order.
pub(super) fn numbers_of(rows: &[RecordBatch]) -> Vec<i64> {
    let column = |batch: &RecordBatch| {
        let numbers = batch.column(1).as_any().downcast_ref::<Int64Array>().unwrap();
        numbers.values().to_vec()
    };
    let mut numbers: Vec<i64> = rows.iter().flat_map(column).collect();
    numbers.sort_unstable();
    numbers
}
