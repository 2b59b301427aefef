// SPDX-License-Identifier: Apache-2.0
//! What a small load costs. Run by hand:
//! `cargo test --release -p coeval-cluster --test cluster figures -- --ignored --nocapture`

use coeval_cluster::{LoadFigureOptions, measure_small_loads};
use tokio::runtime::Builder;

#[test]
#[ignore = "a figure, for a machine with nothing else to do"]
fn small_loads_on_five_nodes() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (nodes, replicas) in [(5, 1), (5, 2), (5, 3), (3, 2), (1, 1)] {
        let directory = tempfile::tempdir().unwrap();
        let options = LoadFigureOptions { nodes, replicas, ..LoadFigureOptions::default() };
        let measured = measure_small_loads(options, directory.path(), runtime.handle());
        let figure = runtime.block_on(measured).unwrap();
        println!(
            "{nodes} nodes, {replicas} replicas: p50 {} us, p99 {} us, {:.2} messages a load, {:.2} without those \
             that say that the decision was heard",
            figure.p50.as_micros(),
            figure.p99.as_micros(),
            figure.messages_per_load,
            figure.messages_without_heard,
        );
    }
}

#[test]
fn a_small_load_costs_as_many_messages_as_the_protocol_says() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // To two others: begin, decided, and their answers. To a holder elsewhere, in two of three loads: append, commit.
    let (least, most) = (8.0, 12.0 + 1.0);
    // What is not answered for a moment is asked again: on a busy machine there may be more, but not each time.
    let mut more = Vec::new();
    for _ in 0..3 {
        let directory = tempfile::tempdir().unwrap();
        let options = LoadFigureOptions { nodes: 3, replicas: 1, loads: 60, warm_up: 10 };
        let measured = measure_small_loads(options, directory.path(), runtime.handle());
        let figure = runtime.block_on(measured).unwrap();
        assert_eq!(figure.not_seen, 0);
        assert!(figure.messages_per_load >= least, "{figure:?}");
        if figure.messages_per_load < most {
            return;
        }
        more.push(figure);
    }
    panic!("{more:?}");
}
