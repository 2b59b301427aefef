// SPDX-License-Identifier: Apache-2.0
//! Dashboards: a declared session on each node, which looks at all there is, again and again.

use crate::ledger::Ledger;
use crate::loads::{CLIENT, ROWS, SUM, TOGETHER};
use crate::nodes::ANSWER;
use crate::session::{At, Refused, Session};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(150);
/// For so long a look may take. A node looks for half a minute for somebody who has a brick.
const PATIENCE: Duration = Duration::from_secs(40);

/// What a query of [`shown`] answers if all is well: the loads, their rows, and those that are not whole.
pub(crate) fn whole(loads: u64) -> [String; 3] {
    [loads, loads * ROWS, 0].map(|number| number.to_string())
}

/// Asks for the number of loads, for that of their rows, and for how many loads are not whole: by their count, their sum or their texts.
pub(crate) fn shown() -> String {
    format!(
        "SELECT count(*)::text, coalesce(sum(l.found), 0)::text, coalesce(sum(CASE \
         WHEN l.found = {ROWS} AND l.amount = {SUM} AND l.first_note = l.last_note THEN 0 ELSE 1 END), 0)::text \
         FROM (SELECT batch, count(*) AS found, sum(n) AS amount, min(note) AS first_note, max(note) AS last_note \
         FROM hits GROUP BY batch) AS l"
    )
}

/// Asks for the number of loads whose rows were committed before them, and are not there.
fn without_their_rows() -> String {
    format!(
        "SELECT count(*)::text FROM (SELECT DISTINCT batch FROM hits WHERE batch / {CLIENT} % 2 = 1) AS l \
         LEFT JOIN announced AS a ON a.batch = l.batch WHERE a.batch IS NULL"
    )
}

/// Asks for the number of rows that are one transaction with a load, and are there without it.
fn without_their_loads() -> String {
    format!(
        "SELECT count(*)::text FROM announced AS a LEFT JOIN (SELECT DISTINCT batch FROM hits) AS l ON l.batch = a.batch \
         WHERE a.batch / {CLIENT} = {TOGETHER} AND l.batch IS NULL"
    )
}

/// The same in a declared block, so that all of it is of one snapshot.
pub(crate) fn declared(queries: &[String]) -> String {
    format!("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY; {}; COMMIT", queries.join("; "))
}

/// One on each node, until they are told to stop.
pub(crate) fn begin(nodes: &[At], stop: &Arc<AtomicBool>, ledger: &Ledger) -> Vec<JoinHandle<()>> {
    nodes
        .iter()
        .map(|at| {
            let (at, stop, ledger) = (*at, Arc::clone(stop), ledger.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(session) = Session::open(at, ANSWER) {
                        look_on(&session, at, &stop, &ledger);
                    }
                    std::thread::sleep(PAUSE);
                }
            })
        })
        .collect()
}

/// Looks again and again, over one connection, until that ends.
fn look_on(session: &Session, at: At, stop: &AtomicBool, ledger: &Ledger) {
    let block = declared(&[shown(), shown(), without_their_rows(), without_their_loads()]);
    let mut last = 0;
    while !stop.load(Ordering::Relaxed) {
        match session.rows(&block, PATIENCE) {
            Ok(rows) => match looked(&rows, last) {
                Ok(loads) => {
                    let mut told = ledger.told();
                    told.looks += 1;
                    told.most = told.most.max(loads);
                    last = loads;
                }
                Err(what) => ledger.note_broken(format!("a snapshot of {at:?} has {what}: {rows:?}")),
            },
            // The node is away, or has been; the same session may look again.
            Err(refused) if ["40001", "57P03"].contains(&refused.state()) => {
                if session.rows("ROLLBACK", ANSWER).is_err() {
                    return;
                }
            }
            Err(refused) => {
                let state = refused.state();
                let is_ended = state.is_empty() || state.starts_with("57") || state.starts_with("08");
                if !is_ended {
                    ledger.note_broken(format!("a look at {at:?}: {refused:?}"));
                }
                return;
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// How many loads a look has found; or what is wrong with it, if its session has seen so many before.
fn looked(rows: &[Vec<String>], before: u64) -> Result<u64, &'static str> {
    let [first, again, without, alone] = rows else { return Err("not four answers") };
    let loads = first.first().and_then(|loads| loads.parse::<u64>().ok()).ok_or("no number of loads")?;
    if first != again {
        return Err("changed");
    }
    if first.as_slice() != whole(loads).as_slice() {
        return Err("a part of a load");
    }
    if without.first().map(String::as_str) != Some("0") {
        return Err("a load without the row from before it");
    }
    if alone.first().map(String::as_str) != Some("0") {
        return Err("a row without the load that it is one transaction with");
    }
    if loads < before {
        return Err("less than its session has seen");
    }
    Ok(loads)
}

/// The numbers of all loads that a node shows, in this way.
pub(crate) fn numbers_of(at: At, query: &str) -> Result<Vec<u64>, Refused> {
    let rows = Session::open(at, ANSWER)?.rows(query, PATIENCE)?;
    let numbers = rows.iter().filter_map(|row| row.first()?.parse().ok());
    Ok(numbers.collect())
}
