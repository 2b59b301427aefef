// SPDX-License-Identifier: Apache-2.0
//! Every workload runs, small and short, and finds nothing wrong. No figure is looked at but for its presence.
// Helper functions of a test are a test too.
#![allow(clippy::unwrap_used)]

use coeval::{Database, Isolation};
use coeval_bench::{
    Api, Certification, Options, Population, Readers, Report, Sending, Silent, TiquePart, UpdateReads,
    Workload, YcsbMix, run,
};
use coeval_server::{Server, ServerOptions};
use std::sync::mpsc::channel;

fn options() -> Options {
    Options {
        warehouses: 2,
        scale: 0.01,
        rows: 2_000,
        threads: 2,
        seconds: 0.5,
        population: Population::Tiny,
        runs: 1,
        log_bytes: 1 << 20,
        ..Options::default()
    }
}

fn passes(workload: Workload, options: &Options) -> Report {
    let report = run(workload, options, &Silent).unwrap();
    assert_eq!(report.violations(), 0, "{}", report.to_json());
    assert!(
        report.checks().count() > 0 || workload == Workload::Tpch,
        "a workload checks what it leaves behind"
    );
    report
}

fn figure(report: &Report, name: &str) -> f64 {
    report.value(name).unwrap_or_else(|| panic!("{name} is missing in {}", report.to_json()))
}

/// Serves a new database in memory while `work` runs, which is given the options that lead there.
fn served(work: impl FnOnce(Options)) {
    let (sender, receiver) = channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_stack_size(coeval::STATEMENT_STACK_BYTES)
            .enable_all()
            .build()
            .unwrap();
        let db = Database::in_memory().unwrap();
        runtime.block_on(async {
            let server = Server::bind(&db, "127.0.0.1:0", ServerOptions::default()).await.unwrap();
            sender.send(server.address()).unwrap();
            server.run(async { drop(stopped.await) }).await;
        });
    });
    let address = receiver.recv().unwrap();
    work(Options { url: Some(format!("postgres://bench@{address}/coeval")), ..options() });
    drop(stop);
    server.join().unwrap();
}

#[test]
fn tpcc_runs_over_the_wire_on_what_it_loads_and_on_what_it_finds() {
    served(|options| {
        let report = passes(Workload::Tpcc, &options);
        assert!(figure(&report, "transactions_per_s") > 0.0);
        assert!((figure(&report, "new_order_share") - 0.45).abs() < 0.1);
        let line = report.to_json();
        let head = "\"system\":\"coeval 0.1.0\",\"isolation\":\"repeatable read\"";
        assert!(line.contains(head) && line.contains("\"api\":\"wire\""), "{line}");
        assert!(line.contains("\"foreign_cpu\":null"), "nobody said which process the server is: {line}");
        assert!(line.contains("\"sending\":\"batched\""), "{line}");
        assert!(line.contains("\"update_reads\":\"for no key update\""), "{line}");
        let one_by_one = passes(Workload::Tpcc, &Options { sending: Sending::OneByOne, ..options.clone() });
        assert!(one_by_one.to_json().contains("\"sending\":\"one by one\""));
        let other = Options { warehouses: 3, ..options };
        assert!(run(Workload::Tpcc, &other, &Silent).unwrap_err().to_string().contains("another one"));
    });
}

#[test]
fn tpcc_over_the_wire_on_one_warehouse_commits_without_an_abort_at_read_committed() {
    served(|options| {
        let isolation = Isolation::ReadCommitted;
        let options = Options { isolation, warehouses: 1, threads: 8, seconds: 2.0, ..options };
        let report = passes(Workload::Tpcc, &options);
        assert!(figure(&report, "transactions_per_s") > 0.0);
        assert_eq!(figure(&report, "conflicts"), 0.0, "{}", report.to_json());
    });
}

#[test]
fn chbench_and_ycsb_run_over_the_wire() {
    served(|options| {
        let report = passes(Workload::Chbench, &Options { seconds: 3.0, ..options.clone() });
        assert!(figure(&report, "queries") > 0.0 && figure(&report, "transactions_per_s") > 0.0);
        for readers in [Readers::Ssi, Readers::Deferrable, Readers::Safe] {
            let options =
                Options { isolation: Isolation::Serializable, readers, seconds: 1.0, ..options.clone() };
            let report = passes(Workload::Chbench, &options);
            assert!(figure(&report, "queries") > 0.0, "{readers:?}: {}", report.to_json());
            assert!(readers == Readers::Ssi || figure(&report, "stream_aborts") == 0.0, "{readers:?}");
        }
        let report = passes(Workload::Ycsb, &options);
        assert!(figure(&report, "read_count") > 0.0 && figure(&report, "update_count") > 0.0);
        let inserts = Options { ycsb_mix: YcsbMix::Insert, ..options };
        assert!(figure(&passes(Workload::Ycsb, &inserts), "insert_count") > 0.0);
    });
}

#[test]
fn connections_compares_busy_ones_alone_with_those_beside_idle_ones() {
    served(|options| {
        let options = Options { connections: 60, active_connections: 6, runs: 2, ..options };
        let report = passes(Workload::Connections, &options);
        assert!(figure(&report, "opened_per_s") > 0.0, "{}", report.to_json());
        for way in ["alone", "beside"] {
            assert!(figure(&report, &format!("{way}_transactions_per_s")) > 0.0, "{way}");
            assert!(figure(&report, &format!("{way}_update_p999_ms")) > 0.0, "{way}");
        }
        assert!(figure(&report, "beside_to_alone_transactions_ratio") > 0.0);
        let all_busy = Options { active_connections: 60, ..options.clone() };
        let error = run(Workload::Connections, &all_busy, &Silent).unwrap_err().to_string();
        assert!(error.contains("at least one idle"), "{error}");
    });
    let no_server = Options { connections: 2, active_connections: 1, ..options() };
    assert!(run(Workload::Connections, &no_server, &Silent).unwrap_err().to_string().contains("--url"));
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let nobody = Options { url: Some("postgres://bench@127.0.0.1:1/coeval".to_owned()), ..options() };
    let error = run(Workload::Tpcc, &nobody, &Silent).unwrap_err().to_string();
    assert!(error.contains("connecting to server"), "{error}");
    assert!(run(Workload::Load, &nobody, &Silent).unwrap_err().to_string().contains("not on a server"));
}

#[test]
fn tpcc_runs_through_the_typed_api() {
    let report = passes(Workload::Tpcc, &options());
    assert!(figure(&report, "transactions_per_s") > 0.0);
    assert!((figure(&report, "new_order_share") - 0.45).abs() < 0.1);
}

#[test]
fn tpcc_runs_through_prepared_sql() {
    for update_reads in [UpdateReads::Locking, UpdateReads::Plain] {
        let report = passes(Workload::Tpcc, &Options { api: Api::Sql, update_reads, ..options() });
        assert!(figure(&report, "transactions_per_s") > 0.0);
        assert!(report.to_json().contains(update_reads.name()));
    }
}

#[test]
fn tpcc_on_one_warehouse_commits_without_an_abort_at_read_committed() {
    let options = Options {
        api: Api::Sql,
        isolation: Isolation::ReadCommitted,
        warehouses: 1,
        threads: 8,
        seconds: 2.0,
        ..options()
    };
    let report = passes(Workload::Tpcc, &options);
    assert!(figure(&report, "transactions_per_s") > 0.0);
    assert_eq!(figure(&report, "conflicts"), 0.0, "{}", report.to_json());
}

#[test]
fn tpcc_goes_on_with_a_population_that_it_finds() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { dir: Some(directory.path().to_owned()), ..options() };
    passes(Workload::Tpcc, &options);
    passes(Workload::Tpcc, &Options { api: Api::Sql, ..options.clone() });
    let other = Options { warehouses: 3, ..options };
    assert!(run(Workload::Tpcc, &other, &Silent).unwrap_err().to_string().contains("another one"));
}

#[test]
fn chbench_answers_queries_while_terminals_run() {
    let report = passes(Workload::Chbench, &Options { seconds: 3.0, ..options() });
    assert!(figure(&report, "queries") > 0.0);
    assert!(figure(&report, "transactions_per_s") > 0.0);
    assert!(figure(&report, "snapshot_checks") > 0.0);
}

#[test]
fn rss_compares_readers_and_no_safe_reader_has_part_in_an_abort() {
    let report = passes(Workload::Rss, &Options { seconds: 1.0, runs: 1, ..options() });
    for way in ["ssi", "deferrable", "rss"] {
        assert!(figure(&report, &format!("{way}_queries")) > 0.0, "{way}");
        assert!(figure(&report, &format!("{way}_transactions_per_s")) > 0.0, "{way}");
    }
    assert!(figure(&report, "rss_looks") > 0.0 && figure(&report, "rss_safe_worlds_made") > 0.0);
    assert!(figure(&report, "idle_age_max_ms") > figure(&report, "idle_bounded_age_max_ms"));
}

#[test]
fn sharing_has_terminals_streams_and_burners_beside_each_other() {
    let report = passes(Workload::Sharing, &Options { seconds: 2.0, ..options() });
    for phase in ["terminals", "one_beside", "all_beside", "burnt"] {
        assert!(figure(&report, &format!("{phase}_transactions_per_s")) > 0.0, "{phase}");
    }
    assert!(figure(&report, "one_queries") > 0.0);
    assert!(figure(&report, "one_beside_over_burnt_transactions_ratio") > 0.0);
    for name in ["one_beside_queries", "all_beside_queries", "crowded_queries"] {
        figure(&report, name);
    }
    assert!(figure(&report, "crowded_fair_ratio") > 1.0);
    assert!(report.to_json().contains("\"all_beside_over_one_beside_ratio_by_stream\":["));
}

#[test]
fn tpch_answers_all_queries_before_and_after_updates() {
    let report = passes(Workload::Tpch, &options());
    assert!(figure(&report, "geomean_ms") > 0.0 && figure(&report, "q22_ms") > 0.0);
    let report = passes(Workload::Tpch, &Options { update_fraction: 0.05, ..options() });
    for name in ["lineitem_delta_share_before", "orders_delta_share_before", "lineitem_delta_share_after"] {
        assert!(figure(&report, name) >= 0.05, "{name} in {}", report.to_json());
    }
}

#[test]
fn ycsb_runs_through_both_apis() {
    for api in [Api::Typed, Api::Sql] {
        let report = passes(Workload::Ycsb, &Options { api, ..options() });
        assert!(figure(&report, "transactions_per_s") > 0.0);
    }
}

#[test]
fn get_compares_base_and_delta_with_a_map() {
    let report = passes(Workload::Get, &options());
    assert!(figure(&report, "base_get_to_map_ratio") > 0.0 && figure(&report, "delta_select_ns") > 0.0);
}

#[test]
fn load_reads_parquet_through_both_apis() {
    for api in [Api::Typed, Api::Sql] {
        let report = passes(Workload::Load, &Options { api, ..options() });
        assert!(figure(&report, "rows_per_s") > 0.0);
    }
}

#[test]
fn recovery_replays_what_was_committed() {
    let report = passes(Workload::Recovery, &options());
    assert!(figure(&report, "replay_s") > 0.0 && figure(&report, "clean_open_and_get_ms") > 0.0);
}

#[test]
fn loads_on_many_nodes_are_measured_and_seen() {
    let report = passes(Workload::Cluster, &options());
    for name in ["commit_p50_ms", "commit_p99_ms", "messages_per_load", "one_replica_commit_p50_ms"] {
        assert!(figure(&report, &format!("protocol_{name}")) > 0.0);
    }
    assert!(report.to_json().contains("\"servers\":\"none"), "there is no program to start some of");
}

#[test]
fn options_that_make_no_sense_are_refused_by_name() {
    let refused = |workload, options: Options| run(workload, &options, &Silent).unwrap_err().to_string();
    assert!(refused(Workload::Tpcc, Options { warehouses: 0, ..options() }).contains("warehouse"));
    assert!(refused(Workload::Tpcc, Options { threads: 0, ..options() }).contains("thread"));
    assert!(refused(Workload::Tpcc, Options { seconds: 0.0, ..options() }).contains("second"));
    let lossy =
        Options { isolation: Isolation::ReadCommitted, update_reads: UpdateReads::Plain, ..options() };
    assert!(refused(Workload::Tpcc, lossy).contains("FOR NO KEY UPDATE"));
    assert!(
        refused(Workload::Tpch, Options { update_fraction: 2.0, ..options() }).contains("between 0 and 1")
    );
    assert!(refused(Workload::Get, Options { rows: 0, ..options() }).contains("row"));
}

#[test]
fn tique_counts_every_committed_increment_once() {
    let report = passes(Workload::Tique, &Options { rows: 500, ..options() });
    assert!(figure(&report, "point_reads_per_s_empty") > 0.0 && figure(&report, "increments_per_s") > 0.0);
    let refused = run(Workload::Tique, &Options { engine: "none".to_owned(), ..options() }, &Silent);
    assert!(refused.unwrap_err().to_string().contains("datafusion, duckdb, monetdb, postgresql"));
}

#[test]
fn tique_runs_tpcc_and_keeps_its_conditions_wherever_it_certifies() {
    for certification in [Certification::InEngine, Certification::InProcess] {
        let tique_part = TiquePart::Tpcc;
        let report =
            passes(Workload::Tique, &Options { tique_part, certification, seconds: 0.5, ..options() });
        // A transaction may take longer than each of them measures while the machine is busy.
        let committed =
            [1, 2, 4, 8].map(|count| figure(&report, &format!("transactions_per_s_{count}_clients")));
        assert!(committed.iter().sum::<f64>() > 0.0, "{}", report.to_json());
    }
}

#[test]
fn tique_draws_its_commits_and_lets_long_transactions_through() {
    let out = std::env::temp_dir().join(format!("coeval-commits-{}.svg", std::process::id()));
    let commits = Options { tique_part: TiquePart::Certification, out: Some(out.clone()), ..options() };
    let report = passes(Workload::Tique, &commits);
    assert!(figure(&report, "commit_ms_500_cached_100_rows") > 0.0, "{}", report.to_json());
    assert!(std::fs::read_to_string(&out).unwrap().matches("<path d=\"M").count() > 4);
    std::fs::remove_file(&out).unwrap();
    for certification in [Certification::InEngine, Certification::InProcess] {
        let long =
            Options { tique_part: TiquePart::Long, threads: 3, certification, seconds: 2.0, ..options() };
        let report = passes(Workload::Tique, &long);
        assert!(figure(&report, "long_refused_in_a_row_high") <= 1.0, "{}", report.to_json());
    }
}

#[test]
fn histories_are_recorded_and_have_what_their_level_promises() {
    let out = std::env::temp_dir().join(format!("coeval-history-{}.edn", std::process::id()));
    for isolation in [Isolation::Serializable, Isolation::Snapshot, Isolation::ReadCommitted] {
        let options =
            Options { transactions: 400, threads: 4, isolation, out: Some(out.clone()), ..options() };
        let report = passes(Workload::ListAppend, &options);
        assert!(figure(&report, "committed") > 0.0);
    }
    let read = coeval_bench::histories::History::from_edn(&std::fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(read.transactions.len(), 400);
    std::fs::remove_file(&out).unwrap();
}

#[test]
fn with_priority_a_long_transaction_loses_once_at_most() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let report = passes(Workload::Priority, &Options { threads: 3, isolation, ..options() });
        assert!(figure(&report, "with_long_transactions") > 0.0, "{}", report.to_json());
    }
}

#[test]
fn aosi_measures_memory_latency_ingestion_and_scans() {
    let options = Options { rows: 100_000, ..options() };
    let drawing = std::env::temp_dir().join(format!("aosi-memory-{}.svg", std::process::id()));
    let report = passes(Workload::AosiMemory, &Options { out: Some(drawing.clone()), ..options.clone() });
    assert!(std::fs::read_to_string(&drawing).unwrap().contains("<polyline"));
    std::fs::remove_file(&drawing).unwrap();
    let (peak, purged) =
        (figure(&report, "epochs_overhead_peak_ratio"), figure(&report, "epochs_overhead_after_purge_ratio"));
    assert!(peak > purged && purged > 0.0, "{}", report.to_json());
    let report = passes(Workload::AosiLatency, &options);
    assert!(figure(&report, "unpurged_ratio_bound") > 0.0 && figure(&report, "purged_loads_meanwhile") > 0.0);
    assert!(figure(&report, "unpurged_epochs_bytes") > figure(&report, "purged_epochs_bytes"));
    let report = passes(Workload::AosiIngest, &options);
    assert!(figure(&report, "narrow_append_rows_per_s") > 0.0 && figure(&report, "copy_rows_per_s") > 0.0);
    assert!(figure(&report, "load_route_p50_us") > 0.0 && figure(&report, "load_commit_p50_us") > 0.0);
    // A difference of two times: in so few loads noise may leave nothing of it.
    assert!(figure(&report, "load_parse_p99_us") >= 0.0);
    assert!(figure(&report, "watched_to_burnt_ratio") > 0.0 && figure(&report, "dashboards_queries") > 0.0);
    let report = passes(Workload::AosiScan, &options);
    assert!(figure(&report, "group_by_ms") > 0.0 && figure(&report, "pruned_sum_ms") > 0.0);
}
