// SPDX-License-Identifier: Apache-2.0
//! Tests of reading histories.

use super::super::{Ending, History, Operation, Transaction};

fn error(text: &str) -> String {
    History::from_edn(text).unwrap_err().to_string()
}

#[test]
fn what_is_written_is_read_again() {
    let operations = [Operation::Append { key: 1, value: 2 }, Operation::Read { key: 3, list: vec![4, 5] }];
    let of = |(process, ending)| {
        let operations = operations.iter().map(|operation| match operation {
            Operation::Append { key, .. } => Operation::Append { key: *key, value: process as u64 },
            read => read.clone(),
        });
        Transaction { process, operations: operations.collect(), ending }
    };
    let endings = [Ending::Committed, Ending::Aborted, Ending::Unknown];
    let history = History { transactions: endings.into_iter().enumerate().map(of).collect() };
    let read = History::from_edn(&history.to_edn()).unwrap();
    assert_eq!(format!("{read:?}"), format!("{history:?}"));
}

#[test]
fn what_jepsen_writes_is_read() {
    let text = "; a comment\n\
        [{:type :invoke, :f :txn, :value [[:r 1 nil] [:append 1 2]], :process 0, :time 12}\n\
         #jepsen.history.Op{:type :ok, :f :txn, :value [[:r 1 nil] [:append 1 2] [:r 1 [2]]] :process 0}\n\
         {:type :info, :f :kill, :value \"n1 \\\" down\", :process :nemesis}]";
    let history = History::from_edn(text).unwrap();
    assert_eq!(history.transactions.len(), 1);
    let expected = [Operation::Append { key: 1, value: 2 }, Operation::Read { key: 1, list: vec![2] }];
    assert_eq!(history.transactions[0].operations, expected);
}

#[test]
fn what_is_no_history_is_told_with_its_line() {
    assert!(
        error("\n\n{:type :ok, :process 0, :value [[:append 1]]}").starts_with("line 3: an operation is")
    );
    assert!(error("{:type :maybe}").contains(":type"));
    assert!(error("{:type :ok, :process 1, :value nil}").contains("vector of operations"));
    assert!(error("{:type :ok").contains("ends within brackets"));
    assert!(error("]").contains("not opened"));
    assert!(error("\"abc").contains("within a string"));
    assert!(error("{:type}").contains("no value"));
    assert!(error(&"[".repeat(100_000)).contains("nested too deeply"));
    assert!(error(&"#a ".repeat(100_000)).contains("nested too deeply"));
    let twice =
        "{:type :ok, :process 1, :value [[:append 1 7]]}\n{:type :ok, :process 2, :value [[:append 1 7]]}";
    assert_eq!(error(twice), "line 2: 7 is appended to 1 for the second time");
    assert!(error("{:type :ok, :process 1, :value [[:append -1 7]]}").contains("operation"));
}

/// Whatever the bytes, the reader says what is wrong or gives a history.
#[test]
fn no_text_makes_it_panic() {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    let mut random = StdRng::seed_from_u64(7);
    let pieces = [
        "{", "}", "[", "]", "(", ")", ":type", ":ok", ":value", ":r", ":append", "1", "nil", "\"", "#", ";",
        "\n", "ä", "-9",
    ];
    for _ in 0..20_000 {
        let count = random.random_range(0..30);
        let text: Vec<_> = (0..count).map(|_| pieces[random.random_range(0..pieces.len())]).collect();
        let _ = History::from_edn(&text.join(" "));
    }
}
