// SPDX-License-Identifier: Apache-2.0
//! Requests and their answers, whole and in parts.

use crate::nodes::{Node, ONE, THREE, TWO, options, pair, pair_with, place, wait_until};
use crate::recorder::part;
use bytes::Bytes;
use coeval_cluster::{CallError, LinkError};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// For calls that are not answered. Those that are get their answer within it.
const CALL: Duration = Duration::from_secs(2);

#[test]
fn a_request_is_answered_or_it_is_said_why_not() {
    let (one, two) = pair();
    assert_eq!(one.call(TWO, b"who").unwrap(), "n1");
    assert_eq!(two.call(ONE, b"who").unwrap(), "n2");
    assert_eq!(one.call(TWO, b"").unwrap(), "");
    let large = one.call(TWO, b"length 50000000").unwrap();
    assert!(large.len() == 50_000_000 && large.iter().all(|byte| *byte == 7));
    let refused = one.call(TWO, b"refuse").unwrap_err();
    assert!(matches!(refused, CallError::Refused { .. }), "{refused}");
    assert_eq!(refused.to_string(), "n2 refuses: brick 7 is not here");
    assert!(matches!(one.call(THREE, b"who"), Err(CallError::Unknown(THREE))));
    let counters = one.shown(TWO).counters;
    assert_eq!((counters.calls_sent, counters.calls_failed), (4, 1));
    assert_eq!((counters.answer_bytes_received, counters.calls_received), (50_000_002, 1));
    assert_eq!(two.shown(ONE).counters.answer_bytes_sent, 50_000_002);
}

#[test]
fn a_handler_that_hangs_or_panics_costs_its_own_request_alone() {
    let (one, two) = pair_with(|options| options.timeouts.call = CALL);
    let begin = Instant::now();
    let error = one.call(TWO, b"hang").unwrap_err();
    assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
    assert!((CALL..CALL * 8).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    wait_until("the request is given up", || two.recorder.answering.load(Ordering::SeqCst) == 0);
    let error = one.call(TWO, b"panic").unwrap_err();
    assert!(matches!(error, CallError::Cut { .. }), "{error}");
    assert_eq!(one.call(TWO, b"who").unwrap(), "n1");
}

#[test]
fn what_is_longer_than_may_be_is_refused_on_either_side() {
    let (one, _two) = pair_with(|options| options.bounds.call_bytes = 1_000);
    let long = one.runtime.block_on(one.peers().call(TWO, vec![0; 1_001])).unwrap_err();
    assert!(matches!(long, CallError::TooLong { bytes: 1_001, limit: 1_000 }), "{long}");
    let error = one.call(TWO, b"length 1001").unwrap_err();
    assert!(matches!(error, CallError::Cut { .. }) && error.to_string().contains("1001"), "{error}");
    assert_eq!(one.call(TWO, b"length 1000").unwrap().len(), 1_000);
}

#[test]
fn many_requests_at_once_go_by_one_connection() {
    let (one, two) = pair();
    one.runtime.block_on(async {
        let calls = (0..500_u32).map(|number| one.peers().call(TWO, number.to_be_bytes().to_vec()));
        for (number, answer) in (0..500_u32).zip(futures::future::join_all(calls).await) {
            assert_eq!(answer.unwrap(), number.to_be_bytes()[..]);
        }
    });
    assert_eq!(two.shown(ONE).counters.connections_received, 1);
}

#[test]
fn a_node_that_is_not_there_is_said_at_once_and_reached_when_it_is() {
    let (one, two) = (place(ONE), place(TWO));
    let known = [(ONE, one.address.clone()), (TWO, two.address.clone())];
    let address = two.listener.local_addr().unwrap();
    let second = options(&two);
    drop(two);
    // Whoever waited for a connection, or for an answer, would wait for longer than the test allows.
    let mut first = options(&one);
    first.timeouts.connect = Duration::from_secs(60);
    let node = Node::start(first, one.listener, known.clone());
    let begin = Instant::now();
    let error = node.call(TWO, b"who").unwrap_err();
    assert!(matches!(error, CallError::NotConnected(LinkError::Unreachable { .. })), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let start = || Node::start(second.clone(), std::net::TcpListener::bind(address).unwrap(), known.clone());
    let there = start();
    assert_eq!(node.call(TWO, b"who").unwrap(), "n1");
    // It goes, and comes again.
    drop(there);
    wait_until("the connection is found to be gone", || node.call(TWO, b"who").is_err());
    let _there = start();
    wait_until("it is reached again", || node.call(TWO, b"who").is_ok());
}

/// Takes the whole of an answer.
async fn taken(node: &Node, request: &'static str) -> (u32, Option<CallError>) {
    let mut answer = node.peers().fetch(TWO, request).await.unwrap();
    let mut count = 0;
    while let Some(next) = answer.next().await {
        match next {
            Ok(found) => assert!(found == part(count), "part {count}"),
            Err(error) => {
                assert!(answer.next().await.is_none());
                return (count, Some(error));
            }
        }
        count += 1;
    }
    assert!(answer.next().await.is_none());
    (count, None)
}

#[test]
fn an_answer_in_parts_is_whole_or_it_is_said_that_it_is_not() {
    let (one, two) = pair_with(|options| options.timeouts.call = CALL);
    let take = |request| one.runtime.block_on(taken(&one, request));
    assert!(matches!(take("0 end"), (0, None)));
    assert!(matches!(take("100 end"), (100, None)));
    let (count, Some(error)) = take("3 refuse") else { panic!() };
    assert_eq!((count, error.to_string().as_str()), (3, "n2 refuses: brick 7 is gone"));
    let (count, Some(error)) = take("3 panic") else { panic!() };
    assert!(count == 3 && error.to_string().contains("given up"), "{error}");
    let (count, Some(error)) = take("3 hang") else { panic!() };
    assert!(count == 3 && matches!(error, CallError::TimedOut { .. }), "{error}");
    wait_until("the answer is given up", || two.recorder.answering.load(Ordering::SeqCst) == 0);
}

#[test]
fn parts_are_given_as_fast_as_they_are_taken_and_frames_pass_them_by() {
    let (one, two) = pair();
    one.runtime.block_on(async {
        let mut answer = one.peers().fetch(TWO, "1000 end").await.unwrap();
        answer.next().await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let given = two.recorder.parts_given.load(Ordering::SeqCst);
        assert!(given < 100, "{given} parts of 256 KiB were given, and one was taken");
        // Another answer, and frames, do not wait for whoever does not take this one.
        assert_eq!(one.peers().call(TWO, Bytes::from_static(b"who")).await.unwrap(), "n1");
        one.peers().send(TWO, "frame").unwrap();
        wait_until("the frame arrives", || two.recorder.count() == 1);
    });
    wait_until("the answer is given up", || two.recorder.answering.load(Ordering::SeqCst) == 0);
}

#[test]
fn many_answers_that_nobody_takes_leave_room_for_one_that_somebody_does() {
    let (one, _two) = pair();
    one.runtime.block_on(async {
        let answers = (0..40).map(|_| one.peers().fetch(TWO, "1000 end"));
        let answers: Vec<_> =
            futures::future::join_all(answers).await.into_iter().map(Result::unwrap).collect();
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(one.peers().call(TWO, "length 3000000").await.unwrap().len(), 3_000_000);
        drop(answers);
    });
}
