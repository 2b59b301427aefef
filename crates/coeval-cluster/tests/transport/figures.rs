// SPDX-License-Identifier: Apache-2.0
//! How fast it is, on the loopback. Run by hand:
//! `cargo test --release -p coeval-cluster --test transport figures -- --ignored --nocapture --test-threads 1`

use crate::authority::Authority;
use crate::nodes::{ONE, TWO, options, place};
use bytes::Bytes;
use coeval_cluster::{
    AnswerParts, CallRefusal, Handler, Peers, SendError, Sender, Transport, TransportOptions,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

/// Sends short frames back, and counts long ones.
struct Echo {
    peers: Peers,
    back: mpsc::UnboundedSender<Bytes>,
    bytes: Arc<AtomicU64>,
}

#[async_trait::async_trait]
impl Handler for Echo {
    async fn frame(&self, from: Sender, frame: Bytes) {
        if frame.len() > 1_000 {
            self.bytes.fetch_add(frame.len() as u64, Ordering::Relaxed);
        } else if from.node == ONE {
            let _ = self.peers.send(from.node, frame);
        } else {
            let _ = self.back.send(frame);
        }
    }

    async fn call(&self, _: Sender, request: Bytes) -> Result<Bytes, CallRefusal> {
        Ok(request)
    }

    async fn fetch(&self, _: Sender, request: Bytes, answer: AnswerParts) -> Result<(), CallRefusal> {
        for _ in 0..request.len() {
            answer.give(Bytes::from(vec![1; 1 << 20])).await?;
        }
        Ok(())
    }
}

struct Measured {
    transport: Transport,
    back: mpsc::UnboundedReceiver<Bytes>,
    bytes: Arc<AtomicU64>,
    runtime: Runtime,
}

fn pair(secure: impl Fn(TransportOptions) -> TransportOptions) -> [Measured; 2] {
    let places = [place(ONE), place(TWO)];
    let known: Vec<_> = places.iter().map(|place| (place.node, place.address.clone())).collect();
    places.map(|place| {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (sender, back) = mpsc::unbounded_channel();
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&bytes);
        let routes = tonic::service::Routes::default();
        let options = secure(options(&place));
        let transport = Transport::start(options, place.listener, routes, runtime.handle(), |peers| {
            Arc::new(Echo { peers, back: sender, bytes: counted })
        })
        .unwrap();
        transport.peers().set_nodes(known.clone()).unwrap();
        Measured { transport, back, bytes, runtime }
    })
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: usize| times[times.len() * share / 1_000].as_micros();
    format!("p50 {} us, p99 {} us, p99.9 {} us", at(500), at(990), at(999))
}

fn round_trips(one: &mut Measured, count: usize) -> Vec<Duration> {
    let peers = one.transport.peers().clone();
    let round = async || {
        let begin = Instant::now();
        peers.send(TWO, vec![1; 64]).unwrap();
        one.back.recv().await.unwrap();
        begin.elapsed()
    };
    let mut round = round;
    one.runtime.block_on(async {
        let mut times = Vec::new();
        for number in 0..count + 200 {
            let time = round().await;
            if number >= 200 {
                times.push(time);
            }
        }
        times
    })
}

fn call_round_trips(one: &Measured, count: usize) -> Vec<Duration> {
    one.runtime.block_on(async {
        let mut times = Vec::new();
        for _ in 0..count {
            let begin = Instant::now();
            one.transport.peers().call(TWO, vec![1; 64]).await.unwrap();
            times.push(begin.elapsed());
        }
        times
    })
}

/// Processor time of this process, which other work on the machine disturbs less than the time by the clock.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

/// How fast something goes, and what it costs.
struct Speed {
    megabytes_per_second: f64,
    /// Of both sides together.
    processor_ms_per_megabyte: f64,
}

impl std::fmt::Display for Speed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (speed, cost) = (self.megabytes_per_second, self.processor_ms_per_megabyte);
        write!(f, "{speed:.0} MB/s, {cost:.2} ms of processor a MB for both sides")
    }
}

/// Measures what moves as many bytes as it says.
fn speed(move_bytes: impl FnOnce() -> u64) -> Speed {
    let (begin, processor) = (Instant::now(), processor_seconds());
    let megabytes = move_bytes() as f64 / 1e6;
    Speed {
        megabytes_per_second: megabytes / begin.elapsed().as_secs_f64(),
        processor_ms_per_megabyte: (processor_seconds() - processor) * 1e3 / megabytes,
    }
}

fn sent_bytes(one: &Measured, two: &Measured, frame: usize, total: u64) -> u64 {
    let before = two.bytes.load(Ordering::Relaxed);
    let frame = Bytes::from(vec![1; frame]);
    let mut sent = 0;
    while sent < total {
        match one.transport.peers().send(TWO, frame.clone()) {
            Ok(()) => sent += frame.len() as u64,
            Err(SendError::Full { .. }) => std::thread::sleep(Duration::from_micros(500)),
            Err(error) => panic!("{error}"),
        }
    }
    while two.bytes.load(Ordering::Relaxed) < before + sent {
        std::thread::sleep(Duration::from_micros(500));
    }
    sent
}

fn fetched_bytes(one: &Measured, megabytes: usize) -> u64 {
    one.runtime.block_on(async {
        let mut answer = one.transport.peers().fetch(TWO, vec![0; megabytes]).await.unwrap();
        let mut bytes = 0;
        while let Some(part) = answer.next().await {
            bytes += part.unwrap().len() as u64;
        }
        bytes
    })
}

fn measure(name: &str, secure: impl Fn(TransportOptions) -> TransportOptions) {
    let [mut one, two] = pair(secure);
    println!("{name}: a frame of 64 bytes there and back: {}", percentiles(round_trips(&mut one, 20_000)));
    println!("{name}: a call of 64 bytes: {}", percentiles(call_round_trips(&one, 20_000)));
    for (frame, total) in
        [(1 << 11, 200_u64 << 20), (64 << 10, 1 << 30), (1 << 20, 1 << 30), (4 << 20, 1 << 30)]
    {
        println!("{name}: frames of {frame} bytes: {}", speed(|| sent_bytes(&one, &two, frame, total)));
    }
    println!("{name}: an answer in parts of 1 MiB: {}", speed(|| fetched_bytes(&one, 1_000)));
}

#[test]
#[ignore = "a measurement, of some seconds"]
fn figures_of_round_trips_and_of_throughput() {
    measure("plain", |options| options);
    let authority = Authority::new();
    measure("TLS", |options| authority.secured(options));
}

#[test]
fn the_measured_handler_works() {
    let [mut one, two] = pair(|options| options);
    assert_eq!(round_trips(&mut one, 3).len(), 3);
    assert!(speed(|| sent_bytes(&one, &two, 10_000, 100_000)).megabytes_per_second > 0.0);
    assert_eq!(fetched_bytes(&one, 2), 2 << 20);
}
