// SPDX-License-Identifier: Apache-2.0
//! Rows with texts: the same texts on every node, whoever dies, and whatever moves.

use crate::codes::sent;
use crate::nodes::{Cluster, wait_until};
use crate::rows::tables;
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int64Type, UInt32Type};
use coeval_brick::{BrickSchema, Column, Dimension, DimensionValues, Metric, Nulls};
use coeval_cluster::{
    BrickAddress, CodesError, CommitWait, DictionaryError, DictionaryId, Founding, Load, LoadError, Node,
    Purpose, ReadError, RowsRefused, Snapshot,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The table that all nodes have from the beginning.
pub(crate) const TABLE: u64 = 3;
/// One that is declared when they run.
const LATER: u64 = 4;
const CITY: DictionaryId = DictionaryId { table: TABLE, column: 0 };
const NOTE: DictionaryId = DictionaryId { table: TABLE, column: 3 };

const CITIES: [&str; 6] = ["Bonn", "Köln", "Lima", "New York", "Oslo", "Rome"];
/// There may be some more.
const CITIES_MAX: u64 = 8;
const BRICKS: u64 = 4;

/// Loads that a test does not number itself.
static NEXT_LOAD: AtomicU64 = AtomicU64::new(1_000);

/// City, value and note of a row.
type Row = (String, i64, Option<String>);

fn columns() -> Vec<Column> {
    let (values, range_size) = (DimensionValues::String, CITIES_MAX / BRICKS);
    let city = Dimension { name: "city".into(), values, cardinality: CITIES_MAX, range_size };
    let metric =
        |name: &str, data_type, nulls| Column::Metric(Metric { name: name.into(), data_type, nulls });
    vec![
        Column::Dimension(city),
        metric("load", DataType::Int64, Nulls::Refused),
        metric("value", DataType::Int64, Nulls::Refused),
        metric("note", DataType::Utf8, Nulls::Allowed),
    ]
}

pub(crate) fn schema() -> BrickSchema {
    BrickSchema::new(columns()).unwrap()
}

/// The rows of the load of this number, in their order. Most notes are new with it.
fn rows_of(number: u64) -> Vec<Row> {
    let row = |place: u64| {
        let city = CITIES[((number + place) % 6) as usize];
        let note = (place != number % 4).then(|| format!("note {} of {city}", number / 3));
        (city.to_owned(), (number % 97) as i64 * 10 + place as i64, note)
    };
    let mut rows: Vec<Row> = (0..4).map(row).collect();
    rows.sort();
    rows
}

fn batch_of(load: u64, rows: &[(Option<&str>, i64, Option<&str>)]) -> RecordBatch {
    let city: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<StringArray>());
    let loads: ArrayRef = Arc::new(Int64Array::from(vec![load as i64; rows.len()]));
    let value: ArrayRef = Arc::new(rows.iter().map(|row| Some(row.1)).collect::<Int64Array>());
    let note: ArrayRef = Arc::new(rows.iter().map(|row| row.2).collect::<StringArray>());
    let columns = [("city", city), ("load", loads), ("value", value), ("note", note)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

fn batch(number: u64) -> RecordBatch {
    let rows = rows_of(number);
    let rows: Vec<_> =
        rows.iter().map(|(city, value, note)| (Some(&**city), *value, note.as_deref())).collect();
    batch_of(number, &rows)
}

async fn load_number(node: &Node, number: u64) -> Result<u64, LoadError> {
    let mut load = node.begin().await?;
    load.append_rows(TABLE, &batch(number)).await?;
    load.commit(CommitWait::Decided).await?;
    Ok(number)
}

/// These loads, one after the other, each begun on the next node.
fn loads(cluster: &Cluster, numbers: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    let nodes = cluster.running();
    cluster.runtime.block_on(async {
        for (number, node) in numbers.clone().zip(nodes.iter().cycle()) {
            load_number(node, number).await.unwrap();
        }
    });
    numbers.collect()
}

/// All rows that a snapshot sees, each with the number of its load.
async fn read(snapshot: &Snapshot, table: u64) -> Result<Vec<(u64, Row)>, ReadError> {
    let mut rows = Vec::new();
    for brick in 0..BRICKS {
        let seen = snapshot.read(BrickAddress { table, brick }).await?;
        for batch in seen.batches() {
            let texts = |column: usize| -> Vec<Option<String>> {
                let texts = batch.column(column).as_dictionary::<UInt32Type>();
                let texts = texts.downcast_dict::<StringArray>().unwrap();
                texts.into_iter().map(|text| text.map(str::to_owned)).collect()
            };
            let numbers = |column: usize| batch.column(column).as_primitive::<Int64Type>().values().to_vec();
            let (cities, numbers, values) = (texts(0), numbers(1), numbers(2));
            let notes = if batch.num_columns() > 3 { texts(3) } else { vec![None; batch.num_rows()] };
            let cities = cities.into_iter().map(Option::unwrap);
            for (((city, load), value), note) in cities.zip(numbers).zip(values).zip(notes) {
                rows.push((load as u64, (city, value, note)));
            }
        }
    }
    Ok(rows)
}

/// Of which loads these are the rows: all rows of each, with their texts.
fn whole(rows: Vec<(u64, Row)>) -> BTreeSet<u64> {
    let mut loads: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
    for (load, row) in rows {
        loads.entry(load).or_default().push(row);
    }
    for (number, rows) in &mut loads {
        rows.sort();
        assert_eq!(*rows, rows_of(*number), "load {number}");
    }
    loads.into_keys().collect()
}

fn sums_by_city(rows: impl Iterator<Item = Row>) -> BTreeMap<String, i64> {
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    rows.for_each(|(city, value, _)| *sums.entry(city).or_default() += value);
    sums
}

/// Which loads a new snapshot of a node sees, each whole; and the sums by city are those of these loads.
fn seen(cluster: &Cluster, node: &Node) -> BTreeSet<u64> {
    let rows =
        cluster.runtime.block_on(async { read(&node.snapshot().await.unwrap(), TABLE).await.unwrap() });
    let sums = sums_by_city(rows.iter().map(|(_, row)| row.clone()));
    let seen = whole(rows);
    assert_eq!(sums, sums_by_city(seen.iter().flat_map(|number| rows_of(*number))), "on {node:?}");
    seen
}

/// All that was acknowledged is seen on every node, everywhere the same.
fn check(cluster: &Cluster, acknowledged: &[u64]) {
    cluster.quiet();
    let all: Vec<BTreeSet<u64>> = cluster.running().iter().map(|node| seen(cluster, node)).collect();
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "all nodes show the same");
    let lost: Vec<_> = acknowledged.iter().filter(|load| !all[0].contains(*load)).collect();
    assert!(lost.is_empty(), "{lost:?} were acknowledged and are not seen");
}

/// One load after the other and a reader on each of some nodes, until they are told to end.
struct TextTraffic {
    ends: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    /// How often readers have read all.
    reads: Arc<AtomicUsize>,
    loading: Vec<JoinHandle<Vec<u64>>>,
    reading: Vec<JoinHandle<()>>,
}

impl TextTraffic {
    fn start(cluster: &Cluster, nodes: &[u32]) -> Self {
        let (ends, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let reads = Arc::new(AtomicUsize::new(0));
        let (mut loading, mut reading) = (Vec::new(), Vec::new());
        for number in nodes {
            let node = cluster.node(*number).clone();
            loading.push(cluster.runtime.spawn(load_until(node, Arc::clone(&ends), Arc::clone(&count))));
            let node = cluster.node(*number).clone();
            reading.push(cluster.runtime.spawn(read_until(node, Arc::clone(&ends), Arc::clone(&reads))));
        }
        Self { ends, count, reads, loading, reading }
    }

    /// Waits until some loads more were acknowledged, and all was read once more.
    fn go_on(&self) {
        let loads = self.count.load(Ordering::Relaxed) + 10;
        let reads = self.reads.load(Ordering::Relaxed) + 1;
        wait_until("loads and readers run", || {
            self.count.load(Ordering::Relaxed) >= loads && self.reads.load(Ordering::Relaxed) >= reads
        });
    }

    /// Ends it; gives the loads that were acknowledged, and how often readers have read all.
    fn stop(mut self, cluster: &Cluster) -> (Vec<u64>, usize) {
        self.ends.store(true, Ordering::Relaxed);
        let loading = std::mem::take(&mut self.loading).into_iter();
        let acknowledged = loading.flat_map(|task| cluster.runtime.block_on(task).unwrap()).collect();
        let reading = std::mem::take(&mut self.reading).into_iter();
        reading.for_each(|task| cluster.runtime.block_on(task).unwrap());
        (acknowledged, self.reads.load(Ordering::Relaxed))
    }
}

/// A test that fails ends too.
impl Drop for TextTraffic {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

async fn load_until(node: Node, ends: Arc<AtomicBool>, count: Arc<AtomicUsize>) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    while !ends.load(Ordering::Relaxed) {
        tokio::task::yield_now().await;
        match load_number(&node, NEXT_LOAD.fetch_add(1, Ordering::Relaxed)).await {
            Ok(number) => {
                acknowledged.push(number);
                count.fetch_add(1, Ordering::Relaxed);
            }
            Err(LoadError::Ended(_)) => break,
            Err(_) => {}
        }
    }
    acknowledged
}

async fn read_until(node: Node, ends: Arc<AtomicBool>, reads: Arc<AtomicUsize>) {
    while !ends.load(Ordering::Relaxed) {
        let snapshot = match node.snapshot().await {
            Ok(snapshot) => snapshot,
            Err(ReadError::Ended(_)) => break,
            // It has waited for that.
            Err(_) => continue,
        };
        if let Ok(rows) = read(&snapshot, TABLE).await {
            whole(rows);
            reads.fetch_add(1, Ordering::Relaxed);
        }
        tokio::task::yield_now().await;
    }
}

/// With one replica, most of what a node reads is on another one, and it has seen none of the texts.
#[test]
fn every_node_reads_texts_that_it_has_never_seen() {
    let cluster = Cluster::start_patient(3, 1);
    cluster.runtime.block_on(async {
        for number in 1..=6 {
            load_number(cluster.node(1), number).await.unwrap();
        }
    });
    // What is on its way at first, however slow the machine is, has arrived at last.
    wait_until("who reads asks no owner", || {
        let before = sent(&cluster);
        check(&cluster, &[1, 2, 3, 4, 5, 6]);
        sent(&cluster) == before
    });
    for number in 1..=3 {
        assert_eq!(cluster.status(number).unwrap().messages.refused, 0);
    }
}

#[test]
fn a_load_whose_texts_are_known_asks_nobody() {
    let cluster = Cluster::start_patient(3, 2);
    let at_first = sent(&cluster);
    let mut loads = 1;
    cluster.runtime.block_on(load_number(cluster.node(2), 5)).unwrap();
    assert!(sent(&cluster) > at_first, "the first one asks");
    // What is on its way at first, however slow the machine is, has arrived at last.
    wait_until("nobody is asked", || {
        let before = sent(&cluster);
        for _ in 0..20 {
            cluster.runtime.block_on(load_number(cluster.node(2), 5)).unwrap();
            loads += 1;
        }
        sent(&cluster) == before
    });
    cluster.quiet();
    for node in cluster.running() {
        let rows =
            cluster.runtime.block_on(async { read(&node.snapshot().await.unwrap(), TABLE).await.unwrap() });
        assert_eq!(rows.len(), loads * rows_of(5).len());
    }
}

#[test]
fn texts_survive_a_crash_of_all() {
    let mut cluster = Cluster::start(3, 2);
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        let traffic = TextTraffic::start(&cluster, &[1, 2, 3]);
        traffic.go_on();
        (1..=3).for_each(|number| cluster.crash(number));
        acknowledged.extend(traffic.stop(&cluster).0);
        (1..=3).for_each(|number| cluster.begin(number));
        cluster.start_keeper(Founding::GoOn);
        check(&cluster, &acknowledged);
        // Logs have been made shorter, too.
        acknowledged.extend(loads(&cluster, round * 10 + 1..=round * 10 + 10));
    }
    check(&cluster, &acknowledged);
}

#[test]
fn a_node_that_comes_back_at_once_has_its_texts() {
    let mut cluster = Cluster::start(3, 2);
    let traffic = TextTraffic::start(&cluster, &[1, 2]);
    for number in [3, 2] {
        traffic.go_on();
        cluster.crash(number);
        cluster.begin(number);
        cluster.settle();
    }
    let (acknowledged, _) = traffic.stop(&cluster);
    check(&cluster, &acknowledged);
}

/// Bricks come to node 3 while others are loaded: with each the texts of its rows, which node 3 then has alone.
#[test]
fn sums_by_text_add_up_while_bricks_move() {
    let mut cluster = Cluster::start(3, 2);
    let mut acknowledged = loads(&cluster, 1..=30);
    let traffic = TextTraffic::start(&cluster, &[1, 2]);
    for _ in 0..2 {
        traffic.go_on();
        cluster.crash(3);
        cluster.goes_on_with(2);
        cluster.lose_disk(3);
        cluster.begin(3);
        cluster.settle();
    }
    traffic.go_on();
    let (more, reads) = traffic.stop(&cluster);
    assert!(reads > 0);
    acknowledged.extend(more);
    check(&cluster, &acknowledged);
    // What nodes 1 and 3 have is all there is.
    cluster.crash(2);
    cluster.goes_on_with(2);
    check(&cluster, &acknowledged);
}

/// Views stand still, so nobody takes the place of the owner that is down.
#[test]
fn without_the_owner_texts_are_read_and_a_load_with_new_ones_fails_in_time() {
    let mut cluster = Cluster::start_with(3, 2, Duration::from_secs(3));
    let acknowledged = loads(&cluster, 1..=12);
    check(&cluster, &acknowledged);
    let owner = cluster.node(1).holders(NOTE.place()).unwrap()[0];
    cluster.node(1).stop_keeper();
    cluster.crash(owner.get());
    for node in cluster.running() {
        assert!(seen(&cluster, &node).iter().eq(&acknowledged), "{node:?}");
    }
    // Each of them has loaded all cities, and none this note.
    let node = cluster.running().remove(0);
    cluster.runtime.block_on(async {
        let mut load = node.begin().await.unwrap();
        let refused = load.append_rows(TABLE, &batch(300)).await;
        let why = DictionaryError::Silent { dictionary: NOTE, owner };
        assert_eq!(refused, Err(LoadError::Codes(CodesError::Dictionary(why))));
    });
    cluster.begin(owner.get());
    cluster.start_keeper(Founding::GoOn);
    check(&cluster, &acknowledged);
    let numbers: Vec<u64> = seen(&cluster, &node).into_iter().collect();
    assert_eq!(numbers, acknowledged, "nothing of the load that failed is left");
    cluster.runtime.block_on(load_number(&node, 300)).unwrap();
    check(&cluster, &[300]);
}

/// Whether a text has a code.
async fn has_code(node: &Node, dictionary: DictionaryId, text: &str) -> bool {
    let codes = node.codes(dictionary, Purpose::Find, &[Arc::from(text)]).await.unwrap();
    codes[0].is_some()
}

/// Fills a load with a row for each of these cities.
async fn append_cities(load: &mut Load, cities: &[&str]) -> Result<(), LoadError> {
    let rows: Vec<_> = cities.iter().map(|city| (Some(*city), 1, None)).collect();
    load.append_rows(TABLE, &batch_of(1, &rows)).await
}

#[test]
fn what_cannot_have_a_code_is_refused_and_the_load_goes_on() {
    let cluster = Cluster::start_patient(2, 2);
    let node = cluster.node(2);
    cluster.runtime.block_on(async {
        let mut load = node.begin().await.unwrap();
        let long = "x".repeat(5_000);
        let rows = [(Some("Oslo"), 1, Some("short")), (Some("Oslo"), 2, Some(&long[..]))];
        let refused = load.append_rows(TABLE, &batch_of(1, &rows)).await;
        let why = DictionaryError::TextTooLong { bytes: 5_000, max: 4_096 };
        assert_eq!(refused, Err(LoadError::Codes(CodesError::Dictionary(why))));
        assert!(!has_code(node, CITY, "Oslo").await && !has_code(node, NOTE, "short").await);

        let refused =
            load.append_rows(TABLE, &batch_of(1, &[(Some("Oslo"), 1, None), (None, 2, None)])).await;
        let why = RowsRefused::Load("row 1: dimension \"city\" is NULL".to_owned());
        assert_eq!(refused, Err(LoadError::Refused(why)));
        assert!(!has_code(node, CITY, "Oslo").await, "what is refused uses up no codes");

        append_cities(&mut load, &["a", "b", "c", "d", "e", "f"]).await.unwrap();
        append_cities(&mut load, &["g", "a", "h"]).await.unwrap();
        let refused = append_cities(&mut load, &["a", "ninth"]).await;
        let why = CodesError::Full { dictionary: CITY, text: Arc::from("ninth") };
        assert_eq!(refused, Err(LoadError::Codes(why)));
        load.commit(CommitWait::Decided).await.unwrap();
    });
    cluster.quiet();
    for node in cluster.running() {
        let mut rows =
            cluster.runtime.block_on(async { read(&node.snapshot().await.unwrap(), TABLE).await.unwrap() });
        rows.sort();
        let cities: Vec<&str> = rows.iter().map(|(_, (city, ..))| &**city).collect();
        assert_eq!(cities, ["a", "a", "b", "c", "d", "e", "f", "g", "h"]);
    }
}

/// Nodes that run hear of a table, and later of a column of texts that it gets; rows of before have none.
#[test]
fn a_table_that_is_declared_later_has_texts_too() {
    let cluster = Cluster::start_patient(3, 2);
    let narrow = columns().into_iter().take(3).collect();
    tables().declare(LATER, BrickSchema::new(narrow).unwrap()).unwrap();
    let append = |node: &Node, batch: RecordBatch| {
        cluster.runtime.block_on(async {
            let mut load = node.begin().await.unwrap();
            load.append_rows(LATER, &batch).await.unwrap();
            load.commit(CommitWait::Decided).await.unwrap();
        });
    };
    append(cluster.node(2), batch(1).project(&[0, 1, 2]).unwrap());
    tables().declare(LATER, schema()).unwrap();
    append(cluster.node(3), batch(2));
    let without_note = |(city, value, _): Row| (1, (city, value, None));
    let old = rows_of(1).into_iter().map(without_note);
    let mut expected: Vec<(u64, Row)> = old.chain(rows_of(2).into_iter().map(|row| (2, row))).collect();
    expected.sort();
    cluster.quiet();
    for node in cluster.running() {
        let mut rows =
            cluster.runtime.block_on(async { read(&node.snapshot().await.unwrap(), LATER).await.unwrap() });
        rows.sort();
        assert_eq!(rows, expected, "{node:?}");
    }
}
