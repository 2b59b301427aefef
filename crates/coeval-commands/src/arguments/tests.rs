// SPDX-License-Identifier: Apache-2.0
//! Tests of the command line.

use super::{Arguments, BenchArguments, Command, DemoArguments, SqlArguments};
use clap::CommandFactory;
use clap::error::ErrorKind;
use coeval::{Durability, Isolation};
use coeval_bench::{Api, KeyChoice, Population, ProcessId, Sending, UpdateReads, Workload, YcsbMix};
use std::path::PathBuf;

fn parse(line: &str) -> Result<Command, ErrorKind> {
    let words = std::iter::once("coeval").chain(line.split_whitespace());
    Arguments::read(words).map(|arguments| arguments.command).map_err(|error| error.kind())
}

fn bench(line: &str) -> Box<BenchArguments> {
    match parse(&format!("bench {line}")).unwrap() {
        Command::Bench(arguments) => arguments,
        other => panic!("{other:?}"),
    }
}

fn sql(line: &str) -> SqlArguments {
    match parse(&format!("sql {line}")).unwrap() {
        Command::Sql(arguments) => arguments,
        other => panic!("{other:?}"),
    }
}

fn demo(line: &str) -> DemoArguments {
    match parse(&format!("demo {line}")).unwrap() {
        Command::Demo(arguments) => arguments,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_description_of_the_command_line_is_sound() {
    Arguments::command().debug_assert();
}

#[test]
fn addresses_have_a_port() {
    for line in ["--listen 127.0.0.1:5433", "--listen [::1]:0", "--console 8432", "--metrics :9100"] {
        assert!(parse(&format!("serve d {line}")).is_ok(), "{line}");
    }
    for line in ["--listen 127.0.0.1", "--listen 5433", "--console h", "--metrics h:99999"] {
        assert_eq!(parse(&format!("serve d {line}")).unwrap_err(), ErrorKind::ValueValidation, "{line}");
    }
}

#[test]
fn every_workload_has_its_name() {
    for workload in Workload::ALL {
        assert_eq!(bench(workload.name()).workload, workload);
    }
    assert_eq!(parse("bench tpcx").unwrap_err(), ErrorKind::InvalidValue);
    assert_eq!(parse("bench").unwrap_err(), ErrorKind::MissingRequiredArgument);
}

#[test]
fn options_of_a_workload_are_handed_on() {
    let options = bench(
        "tpcc --dir d --warehouses 4 --threads 16 --seconds 2.5 --durability none --api sql --seed 7 --tiny",
    )
    .options();
    assert_eq!(options.dir, Some(PathBuf::from("d")));
    assert_eq!((options.warehouses, options.threads, options.seconds, options.seed), (4, 16, 2.5, 7));
    assert_eq!((options.durability, options.api), (Durability::None, Api::Sql));
    assert_eq!(options.population, Population::Tiny);
    let options = bench("ycsb --mix insert --keys uniform --rows 10 --isolation serializable").options();
    assert_eq!(
        (options.ycsb_mix, options.key_choice, options.rows),
        (YcsbMix::Insert, KeyChoice::Uniform, 10)
    );
    assert_eq!(options.isolation, Isolation::Serializable);
    assert_eq!(bench("get").options().rows, 1_000_000);
    assert_eq!(bench("cluster").options().rows, 100_000_000);
    let options = bench("cluster --rows 5 --rounds 7").options();
    assert_eq!((options.rows, options.runs), (5, 7));
}

#[test]
fn a_server_is_measured_instead_of_a_database_here() {
    let options = bench(
        "tpcc --url postgres://me@host/db --server-process 7 --terminals 8 --isolation repeatable-read",
    )
    .options();
    assert_eq!(options.url.as_deref(), Some("postgres://me@host/db"));
    assert_eq!((options.server_process, options.threads), (Some(ProcessId(7)), 8));
    assert_eq!(options.isolation, Isolation::Snapshot);
    assert_eq!(options.sending, Sending::Batched);
    let options = bench("tpcc --url postgres://me@host/db --one-by-one").options();
    assert_eq!(options.sending, Sending::OneByOne);
    assert_eq!(options.update_reads, UpdateReads::Locking);
    assert_eq!(bench("tpcc --plain-reads").options().update_reads, UpdateReads::Plain);
    assert_eq!(parse("bench tpcc --server-process 7").unwrap_err(), ErrorKind::MissingRequiredArgument);
    let both = parse("bench tpcc --url postgres://me@host/db --durability none").unwrap_err();
    assert_eq!(both, ErrorKind::ArgumentConflict);
}

#[test]
fn what_is_not_said_is_as_the_workloads_have_it() {
    let (options, defaults) = (bench("tpch").options(), super::defaults());
    assert_eq!(format!("{options:?}"), format!("{defaults:?}"));
}

#[test]
fn a_server_has_a_share_for_transactions_of_a_half_or_what_is_said() {
    let share = |line: &str| match parse(&format!("serve --in-memory {line}")) {
        Ok(Command::Serve(arguments)) => Ok(arguments.transactions_share),
        Ok(other) => panic!("{other:?}"),
        Err(kind) => Err(kind),
    };
    assert_eq!(share(""), Ok(50));
    assert_eq!(share("--transactions-share 75"), Ok(75));
    assert_eq!(share("--transactions-share 4"), Err(ErrorKind::ValueValidation));
    assert_eq!(share("--transactions-share 96"), Err(ErrorKind::ValueValidation));
}

#[test]
fn impossible_numbers_are_refused() {
    for line in ["tpcc --threads 0", "tpcc --seconds -1", "tpcc --warehouses 0", "tpch --update-fraction 2"] {
        let kind = parse(&format!("bench {line}")).unwrap_err();
        assert!(matches!(kind, ErrorKind::ValueValidation | ErrorKind::UnknownArgument), "{line}: {kind:?}");
    }
}

#[test]
fn a_shell_has_one_database_and_any_number_of_scripts() {
    let arguments = sql("d -c one -c two -f a.sql -f -");
    assert_eq!(arguments.dir, Some(PathBuf::from("d")));
    assert_eq!(
        (arguments.commands, arguments.files),
        (vec!["one".into(), "two".into()], vec!["a.sql".to_owned(), "-".to_owned()])
    );
    assert!(sql("--in-memory").in_memory);
    assert_eq!(sql("").dir, None);
    assert_eq!(parse("sql d --in-memory").unwrap_err(), ErrorKind::ArgumentConflict);
}

/// `coeval sql :memory:` made a directory of that name.
#[test]
fn a_database_in_memory_has_its_name_of_other_databases() {
    let arguments = sql(":memory: -c one");
    assert_eq!((arguments.dir, arguments.in_memory), (None, true));
    let Ok(Command::Serve(arguments)) = parse("serve :memory: --listen 127.0.0.1:0") else {
        panic!("it is a server");
    };
    assert_eq!((arguments.dir, arguments.in_memory), (None, true));
    assert_eq!(sql("./:memory:").dir, Some(PathBuf::from("./:memory:")));
    assert_eq!(sql("-c :memory:").commands, [":memory:"]);
    for command in ["sql", "serve"] {
        let both = parse(&format!("{command} :memory: --in-memory")).unwrap_err();
        assert_eq!(both, ErrorKind::ArgumentConflict);
    }
}

#[test]
fn what_needs_a_directory_is_refused_in_memory_by_either_name() {
    for (command, options) in [
        ("sql", &["--salvage"][..]),
        (
            "serve",
            &[
                "--salvage",
                "--archive a",
                "--replica-of host=db1",
                "--synchronous-standby-names south",
                "--cluster 127.0.0.1:7001",
            ][..],
        ),
    ] {
        for option in options {
            assert!(parse(&format!("{command} d {option}")).is_ok(), "{command} {option}");
            let by_option = parse(&format!("{command} --in-memory {option}")).unwrap_err();
            let refusals = [ErrorKind::ArgumentConflict, ErrorKind::MissingRequiredArgument];
            assert!(refusals.contains(&by_option), "{command} {option}: {by_option:?}");
            let by_name = parse(&format!("{command} :memory: {option}")).unwrap_err();
            assert_eq!(by_name, ErrorKind::ArgumentConflict, "{command} {option}");
        }
    }
}

#[test]
fn what_outlasts_the_program_is_not_in_memory() {
    for line in [
        "demo --dir :memory:",
        "init :memory:",
        "promote :memory:",
        "backup :memory: archive",
        "backup d :memory:",
        "restore archive :memory:",
        "restore :memory: d",
        "serve d --archive :memory:",
        "feed host=db1 --state :memory:",
        "cluster status :memory:",
        "bench tpcc --dir :memory:",
        "check :memory:",
        "check --archive :memory:",
        "doctor :memory:",
    ] {
        assert_eq!(parse(line).unwrap_err(), ErrorKind::ValueValidation, "{line}");
    }
}

#[test]
fn the_demo_runs_without_any_argument() {
    let arguments = demo("");
    assert_eq!((arguments.dir.clone(), arguments.warehouses), (None, None));
    assert_eq!(arguments.population(), Population::Full);
    assert!(!arguments.fresh);
    assert_eq!(demo("--warehouses 3").warehouses, Some(3));
    assert!(!arguments.ingest && demo("--ingest --rate 5000").rate == 5_000);
    assert_eq!(parse("demo --ingest --warehouses 3").unwrap_err(), ErrorKind::ArgumentConflict);
    assert_eq!(demo("--cluster 3").cluster, Some(3));
    assert_eq!(parse("demo --cluster 3 --replicas 2").unwrap_err(), ErrorKind::ArgumentConflict);
    assert!(parse("demo --cluster 1").is_err(), "each brick is on two");
}

#[test]
fn a_backup_may_be_asked_for_from_a_server() {
    let Ok(Command::Backup(arguments)) =
        parse("backup d archive --user app --password-file secret --keep-days 3")
    else {
        panic!("it is a backup");
    };
    assert_eq!((arguments.asked.user.as_deref(), arguments.asked.server), (Some("app"), None));
    assert_eq!(arguments.asked.password_file, Some(PathBuf::from("secret")));
    let Ok(Command::Backup(arguments)) = parse("backup d archive --server host=db1,user=me") else {
        panic!("it is a backup");
    };
    assert_eq!(arguments.asked.server.as_deref(), Some("host=db1,user=me"));
    assert_eq!(parse("backup d").unwrap_err(), ErrorKind::MissingRequiredArgument);
}

#[test]
fn a_directory_is_needed_to_check_one() {
    assert_eq!(parse("check").unwrap_err(), ErrorKind::MissingRequiredArgument);
    assert!(
        matches!(parse("check d").unwrap(), Command::Check(arguments) if arguments.dir.as_deref() == Some(std::path::Path::new("d")))
    );
}

#[test]
fn a_demo_has_a_few_replicas_and_they_take_no_firehose() {
    assert_eq!(demo("").replicas, None);
    assert_eq!(demo("--replicas 2").replicas, Some(2));
    assert_eq!(parse("demo --replicas 0").unwrap_err(), ErrorKind::ValueValidation);
    assert_eq!(parse("demo --replicas 9").unwrap_err(), ErrorKind::ValueValidation);
    assert_eq!(parse("demo --replicas 2 --ingest").unwrap_err(), ErrorKind::ArgumentConflict);
}
