// SPDX-License-Identifier: Apache-2.0
//! `coeval bench cluster` as a process, small and short: every part runs, all answers agree, and nothing is missing. No figure is looked
//! at but for its presence. It takes two cores and `taskset`.
// Helper functions of a test are a test too.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/bounded.rs"]
mod bounded;

use std::process::Command;

fn bench(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coeval"));
    command.args(["bench", "cluster", "--tiny"]).args(arguments);
    let output = bounded::output(&mut command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// To break it: leave out a node's rows in a scan, or that a load is waited for on all nodes before it is counted.
#[test]
fn scans_loads_and_commits_are_measured_and_nothing_is_wrong_with_them() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        let (code, _, said) = bench(&[]);
        assert!(code == Some(2) && said.contains("one core"), "{said}");
        return;
    }
    let (code, shown, said) =
        bench(&["--rows", "3000", "--seconds", "0.3", "--rounds", "2", "--durability", "none"]);
    assert_eq!(code, Some(0), "{shown}\n{said}");
    let report: serde_json::Value = serde_json::from_str(shown.lines().last().unwrap()).unwrap();
    for name in [
        "scan_two_nodes_ratio",
        "distributed_over_local_ratio",
        "scan_two_cores_ratio",
        "scan_largest_share",
        "load_two_nodes_ratio",
        "load_two_clusters_ratio",
        "load_two_nodes_over_clusters_ratio",
        "load_two_replicas_ratio",
        "load_two_nodes_rows_per_s",
        "load_two_nodes_busy_share",
        "load_one_node_busy_share",
        "load_two_nodes_sent_bytes_per_row",
        "load_two_replicas_messages_per_load",
        "commit_p50_ms",
        "commit_p99_ms",
        "messages_per_load",
        "requests_per_load",
        "answers_per_load",
        "decisions_per_load",
        "protocol_commit_p50_ms",
    ] {
        assert!(report["figures"][name].as_f64().is_some_and(|figure| figure > 0.0), "{name} in {shown}");
    }
    assert_eq!(report["figures"]["scan_rows"], 3_000);
    assert_eq!(report["figures"]["requests_per_load_bound"], 4);
    assert_eq!(report["figures"]["scan_one_node_ms_by_round"].as_array().unwrap().len(), 2);
    let checks = report["checks"].as_object().unwrap();
    for name in [
        "scan_rows_missing",
        "scan_two_nodes_answers_that_differ",
        "scan_two_cores_answers_that_differ",
        "load_rows_missing",
        "commit_loads_missing",
        "protocol_loads_not_seen",
    ] {
        assert_eq!(checks[name], 0, "{name} in {shown}");
    }
    assert_eq!((&report["isolation"], &report["durability"]), (&"repeatable read".into(), &"none".into()));
    assert_eq!(report["api"], "wire");
    // The same for people.
    for text in ["repeatable read", "machine", "scan_two_nodes_ratio", "passed"] {
        assert!(said.contains(text), "{text} in {said}");
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    assert_eq!(bench(&["--rows", "0"]).0, Some(2));
}
