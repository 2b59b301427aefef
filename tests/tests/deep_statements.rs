// SPDX-License-Identifier: Apache-2.0
//! Statements whose syntax tree is deep: run where the stack is large enough, refused where it is not.
#![allow(clippy::unwrap_used)]

use coeval::{Database, Error, STATEMENT_STACK_BYTES, SqlState};

/// Chains that lean to the left, of this many operators, and the rows each of them gives.
fn chains(operators: usize) -> Vec<String> {
    let chain = |first: &str, next: &str| format!("{first}{}", next.repeat(operators));
    vec![
        chain("SELECT 1", " + 1"),
        chain("SELECT 1 FROM t WHERE n = 1", " OR n = 1"),
        chain("SELECT 'a'", " || 'b'"),
        chain("UPDATE t SET n = n", " - 1"),
    ]
}

/// Runs each statement on a thread with a stack of this size.
fn run(stack_bytes: usize, statements: Vec<String>) -> Vec<Result<u64, Error>> {
    let on_thread = move || {
        let db = Database::in_memory().unwrap();
        let mut session = db.session();
        session.execute("CREATE TABLE t (n bigint PRIMARY KEY)").unwrap();
        session.execute("INSERT INTO t VALUES (1)").unwrap();
        statements.iter().map(|statement| session.execute(statement)).collect()
    };
    std::thread::Builder::new().stack_size(stack_bytes).spawn(on_thread).unwrap().join().unwrap()
}

#[test]
fn a_long_chain_runs_on_a_thread_for_statements() {
    for outcome in run(STATEMENT_STACK_BYTES, chains(300)) {
        assert_eq!(outcome.unwrap(), 1);
    }
}

/// `n - 3 + 5 - 3 + 5 ...` of this many operators, and what it adds to `n`.
fn seesaw(operators: usize) -> (String, i64) {
    let terms = ["- 3", "+ 5"].into_iter().cycle().take(operators);
    let sum = [-3, 5].into_iter().cycle().take(operators).sum();
    (format!("n {}", terms.collect::<Vec<_>>().join(" ")), sum)
}

#[test]
fn a_chain_gives_the_same_however_long_it_is() {
    for operators in [1, 2, 15, 16, 17, 18, 33, 100, 1_000] {
        let (chain, sum) = seesaw(operators);
        // Once of a constant, once of a column.
        let statements = vec![
            format!("SELECT 1 FROM (VALUES (CAST(7 AS bigint))) v(n) WHERE {chain} = {}", 7 + sum),
            format!("SELECT 1 FROM t WHERE {chain} = {}", 1 + sum),
        ];
        for outcome in run(STATEMENT_STACK_BYTES, statements) {
            assert_eq!(outcome.unwrap(), 1, "{operators} operators");
        }
    }
}

#[test]
fn a_long_chain_overflows_where_a_short_one_does() {
    let (chain, sum) = seesaw(101);
    let almost = i64::MAX - sum.max(0);
    let statement = |n: i64| format!("SELECT 1 FROM (SELECT n + {n} AS n FROM t) t WHERE {chain} > 0");
    let outcomes = run(STATEMENT_STACK_BYTES, vec![statement(almost - 10), statement(almost)]);
    assert_eq!(*outcomes[0].as_ref().unwrap(), 1);
    assert_eq!(outcomes[1].as_ref().unwrap_err().state(), SqlState::NumericValueOutOfRange);
}

#[test]
fn a_chain_that_is_too_long_for_any_thread_is_refused() {
    for outcome in run(STATEMENT_STACK_BYTES, chains(100_000)) {
        assert_eq!(outcome.unwrap_err().state(), SqlState::StatementTooComplex);
    }
}

#[test]
fn too_many_operators_before_one_operand_are_refused_as_too_deep() {
    for operator in ["NOT ", "- ", "+ ", "~ "] {
        for operators in [150, 199, 400, 6_000] {
            let statement = format!("SELECT {}n FROM t", operator.repeat(operators));
            let outcome = run(STATEMENT_STACK_BYTES, vec![statement]).pop().unwrap();
            let error = outcome.unwrap_err();
            assert_eq!(error.state(), SqlState::StatementTooComplex, "{operators} x {operator}: {error}");
        }
    }
}

#[test]
fn on_a_small_stack_a_chain_is_refused_before_it_overflows() {
    for operators in [100, 200, 300, 3_200] {
        for outcome in run(2 << 20, chains(operators)) {
            match outcome {
                Ok(rows) => assert_eq!(rows, 1),
                Err(error) => assert_eq!(error.state(), SqlState::StatementTooComplex, "{error}"),
            }
        }
    }
}

#[test]
fn long_lists_are_not_deep() {
    let list: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    let statement = format!("SELECT n FROM t WHERE n IN ({})", list.join(", "));
    let values: Vec<String> = (2..20_000).map(|number| format!("({number} + 1)")).collect();
    let insert = format!("INSERT INTO t VALUES {}", values.join(", "));
    let outcomes = run(2 << 20, vec![statement, insert]);
    let rows: Vec<u64> = outcomes.into_iter().map(Result::unwrap).collect();
    assert_eq!(rows, [1, 19_998]);
}
