// SPDX-License-Identifier: Apache-2.0
//! A node in a process of its own, with loads and readers, which does what it is told by lines.

use crate::rows::{BRICKS, brick, fill, tables, values_of};
use crate::{rows, words};
use coeval_cluster::{
    BrickAddress, ClusterId, ClusterTimeouts, CommitWait, Durability, Epoch, FormatVersion, Formats,
    Founding, LoadError, Node, NodeAddress, NodeId, NodeOptions, ReadError, RoundOptions, Snapshot,
    StartError, Timeouts, TransportOptions,
};
use std::io::BufRead;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Builder;
use tokio::time::sleep;

/// The first argument of a process that is to be a node.
pub(crate) const MARK: &str = "--node";
/// After which a node counts as gone.
pub(crate) const SILENCE: Duration = Duration::from_millis(900);

/// A node: its number, its directory, the addresses of all, and whether it has the keeper.
pub(crate) fn run(arguments: &[String]) {
    let [number, directory, addresses, keeper] = arguments else { panic!("four arguments: {arguments:?}") };
    let number: u32 = number.parse().unwrap();
    let addresses: Vec<NodeAddress> = addresses.split(',').map(|address| address.parse().unwrap()).collect();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let directory = Path::new(directory);
    let node = start(number, addresses, directory, runtime.handle());
    let has_keeper = keeper == "keeper";
    if has_keeper {
        runtime.block_on(async {
            // It may have been killed before or after the cluster was founded.
            match node.start_keeper(Founding::Found, 1).await {
                Err(StartError::Founded) => node.start_keeper(Founding::GoOn, 1).await.unwrap(),
                founded => founded.unwrap(),
            }
        });
    }
    let loads = Arc::new(AtomicBool::new(true));
    let under_way = Arc::new(AtomicU64::new(0));
    for loader in 0..2 {
        runtime.spawn(load_on(node.clone(), number, loader, Arc::clone(&loads), Arc::clone(&under_way)));
    }
    if has_keeper {
        runtime.spawn(delete_on(node.clone(), Arc::clone(&loads), Arc::clone(&under_way)));
    }
    runtime.spawn(read_on(node.clone()));
    // Who has started it closes the input when it ends, in whatever way.
    for line in std::io::stdin().lock().lines() {
        let answer = match line.unwrap().as_str() {
            "pause" => {
                loads.store(false, Ordering::SeqCst);
                continue;
            }
            "state" => state(&node, under_way.load(Ordering::SeqCst)),
            "seen" => runtime.block_on(seen(&node)),
            "bricks" => runtime.block_on(bricks(&node, number)),
            other => panic!("{other} is no order"),
        };
        println!("answer {answer}");
    }
    std::process::exit(0);
}

fn start(
    number: u32,
    addresses: Vec<NodeAddress>,
    directory: &Path,
    runtime: &tokio::runtime::Handle,
) -> Node {
    let known: Vec<(NodeId, NodeAddress)> = (1..).map(NodeId::new).zip(addresses).collect();
    let (own, address) = known[number as usize - 1].clone();
    let listener = TcpListener::bind((address.host(), address.port())).unwrap();
    let formats = Formats::up_to(FormatVersion::new(1));
    let mut transport = TransportOptions::new(own, address, ClusterId::new(9), formats);
    transport.timeouts = Timeouts {
        connect: Duration::from_millis(500),
        silence: Duration::from_millis(800),
        call: Duration::from_secs(2),
        pause_min: Duration::from_millis(10),
        pause_max: Duration::from_millis(100),
    };
    words::declare(&tables());
    let mut options = NodeOptions::new(transport, known, tables());
    options.rounds = RoundOptions { log_bytes: 0, pause: Duration::ZERO };
    options.timeouts = ClusterTimeouts {
        resend: Duration::from_millis(80),
        alive: Duration::from_millis(80),
        silence: SILENCE,
        serve: Duration::from_secs(60),
        read: Duration::from_secs(60),
    };
    Node::start(options, listener, runtime, directory, Durability::Synced).unwrap()
}

/// Loads until it is told to pause, and says which loads were acknowledged.
async fn load_on(node: Node, number: u32, loader: u64, loads: Arc<AtomicBool>, under_way: Arc<AtomicU64>) {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    // No other load of any process has the number: node, loader, the millisecond of the start, and a count.
    let base = (u64::from(number) << 60) | (loader << 59) | ((started & 0x7_ffff_ffff) << 24);
    for count in 0.. {
        if !loads.load(Ordering::SeqCst) {
            return;
        }
        under_way.fetch_add(1, Ordering::SeqCst);
        if let Ok(label) = load(&node, base + count).await {
            println!("acknowledged {} {label}", base + count);
        }
        under_way.fetch_sub(1, Ordering::SeqCst);
        sleep(Duration::from_millis(15)).await;
    }
}

/// A load of this number; gives its label.
async fn load(node: &Node, number: u64) -> Result<Epoch, LoadError> {
    let mut load = node.begin().await?;
    let label = load.epoch();
    fill(&mut load, number).await?;
    words::fill(&mut load, number).await?;
    load.commit(CommitWait::Decided).await?;
    Ok(label)
}

/// Deletes all that there is, now and then, until it is told to pause.
async fn delete_on(node: Node, loads: Arc<AtomicBool>, under_way: Arc<AtomicU64>) {
    while loads.load(Ordering::SeqCst) {
        under_way.fetch_add(1, Ordering::SeqCst);
        // If it goes wrong, it is rolled back or decided without this node: then nobody says that it was.
        let _ = delete_all(&node).await;
        under_way.fetch_sub(1, Ordering::SeqCst);
        sleep(Duration::from_millis(300)).await;
    }
}

/// Says what it is about to delete, and again once that is decided.
async fn delete_all(node: &Node) -> Result<(), LoadError> {
    let mut delete = node.begin_delete().await?;
    for brick in all_bricks() {
        delete.delete(brick).await?;
    }
    let except: Vec<String> = delete.seen().except().iter().map(Epoch::to_string).collect();
    let seen = format!("{} {}", delete.seen().newest(), except.join(" "));
    println!("deletes {seen}");
    delete.commit(CommitWait::Decided).await?;
    println!("deleted {seen}");
    Ok(())
}

/// The bricks of both tables.
fn all_bricks() -> impl Iterator<Item = BrickAddress> {
    (0..BRICKS).map(brick).chain((0..words::BRICKS).map(words::brick))
}

/// Which loads a snapshot sees, ascending; or what is wrong with one of them.
async fn seen_at(snapshot: &Snapshot) -> Result<Result<Vec<u64>, String>, ReadError> {
    let (numbers, texts) = (rows::seen_at(snapshot).await?, words::seen_at(snapshot).await?);
    Ok(match (numbers, texts) {
        (Ok(numbers), Ok(texts)) if numbers == texts => Ok(numbers),
        (Ok(numbers), Ok(texts)) => {
            Err(format!("at {snapshot:?} loads {numbers:?} have numbers, and {texts:?} have texts"))
        }
        (Err(broken), _) | (_, Err(broken)) => Err(broken),
    })
}

/// Reads until the process ends, and says what is broken.
async fn read_on(node: Node) {
    loop {
        if let Ok(snapshot) = node.snapshot().await {
            let first = seen_at(&snapshot).await;
            let again = seen_at(&snapshot).await;
            match (first, again) {
                (Ok(Ok(first)), Ok(Ok(again))) if first == again => println!("read {}", first.len()),
                (Ok(Ok(_)), Ok(Ok(_))) => println!("broken {snapshot:?} has changed"),
                (Ok(Err(broken)), _) | (_, Ok(Err(broken))) => println!("broken {broken}"),
                (Err(_), _) | (_, Err(_)) => {}
            }
        }
        sleep(Duration::from_millis(40)).await;
    }
}

/// Members, whether all is quiet, and LCE.
fn state(node: &Node, under_way: u64) -> String {
    node.status().map_or("ended".to_owned(), |status| {
        let is_quiet = status.pending.is_empty()
            && status.open_loads == 0
            && !status.is_moving
            && status.placed.len() == status.members.len();
        let is_quiet = is_quiet && under_way == 0;
        format!("{} {is_quiet} {}", status.members.len(), status.latest_committed)
    })
}

async fn seen(node: &Node) -> String {
    let snapshot = node.snapshot().await.unwrap();
    let loads = seen_at(&snapshot).await.unwrap().unwrap();
    let numbers: Vec<String> = loads.iter().map(u64::to_string).collect();
    numbers.join(" ")
}

/// Of each brick that is here: its number, and a sum of all its rows that knows no order.
async fn bricks(node: &Node, number: u32) -> String {
    let snapshot = node.snapshot().await.unwrap();
    let mut sums = Vec::new();
    for place in 0..BRICKS {
        let holders = node.holders(brick(place)).unwrap();
        if !holders.contains(&NodeId::new(number)) {
            continue;
        }
        let rows = values_of(&snapshot.read(brick(place)).await.unwrap());
        let sum = |(load, value): &(u64, i64)| {
            u64::from(crc32c::crc32c(&[load.to_le_bytes(), value.to_le_bytes()].concat()))
        };
        let total: u64 = rows.iter().map(sum).fold(0, u64::wrapping_add);
        sums.push(format!("{place}:{}:{total}", rows.len()));
    }
    for place in 0..words::BRICKS {
        let brick = words::brick(place);
        if !node.holders(brick).unwrap().contains(&NodeId::new(number)) {
            continue;
        }
        let rows = words::rows_in(&snapshot.read(brick).await.unwrap());
        let sum = |(load, word, note): &words::Row| {
            u64::from(crc32c::crc32c(format!("{load} {word} {note}").as_bytes()))
        };
        let total: u64 = rows.iter().map(sum).fold(0, u64::wrapping_add);
        sums.push(format!("words-{place}:{}:{total}", rows.len()));
    }
    sums.join(" ")
}
