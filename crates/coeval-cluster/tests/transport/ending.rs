// SPDX-License-Identifier: Apache-2.0
//! The end of a transport: at once, and with all its tasks.

use crate::frames::frame;
use crate::nodes::{ONE, TWO, pair, pair_with, wait_until};
use coeval_cluster::{CallError, SendError};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(40);

#[test]
fn a_transport_that_is_dropped_while_all_is_busy_leaves_no_task_and_no_handler() {
    // What is waited for in vain is waited for so long.
    let (one, two) = pair_with(|options| {
        (options.timeouts.silence, options.timeouts.call) = (LONG, LONG);
    });
    two.recorder.frame_ms.store(20, Ordering::SeqCst);
    // Everything at once: frames both ways that wait, calls and answers that hang.
    for number in 0..2_000 {
        let _ = one.peers().send(TWO, frame(number, 50_000));
        let _ = two.peers().send(ONE, frame(number, 50_000));
    }
    let (peers, others) = (one.peers().clone(), two.peers().clone());
    let hanging = one.runtime.spawn(async move { peers.call(TWO, "hang").await });
    let hanging_here = two.runtime.spawn(async move { others.call(ONE, "hang").await });
    let peers = one.peers().clone();
    let mut answer = one.runtime.block_on(peers.fetch(TWO, "100000 end")).unwrap();
    wait_until("requests are being answered", || {
        one.recorder.answering.load(Ordering::SeqCst) == 1
            && two.recorder.answering.load(Ordering::SeqCst) == 2
    });
    wait_until("frames arrive", || two.recorder.count() > 2);
    let begin = Instant::now();
    drop(one.transport);
    let called = one.runtime.block_on(hanging).unwrap();
    assert!(matches!(called, Err(CallError::Closed)), "{called:?}");
    let metrics = one.runtime.metrics();
    wait_until("all tasks end", || metrics.num_alive_tasks() == 0);
    assert!(begin.elapsed() < LONG / 4, "{:?}", begin.elapsed());
    assert_eq!(Arc::strong_count(&one.recorder), 1);
    assert_eq!(peers.send(TWO, "x"), Err(SendError::Closed));
    assert!(matches!(one.runtime.block_on(peers.call(TWO, "who")), Err(CallError::Closed)));
    let rest = one.runtime.block_on(async {
        while let Some(part) = answer.next().await {
            part?;
        }
        Ok::<_, CallError>(())
    });
    assert!(matches!(rest, Err(CallError::Cut { .. })), "{rest:?}");
    // The other side learns of it at once.
    let called = two.runtime.block_on(hanging_here).unwrap();
    assert!(matches!(called, Err(CallError::Cut { .. })), "{called:?}");
    wait_until("it gives up answers that nobody takes", || {
        two.recorder.answering.load(Ordering::SeqCst) == 0
    });
    assert!(begin.elapsed() < LONG / 2, "{:?}", begin.elapsed());
}

#[test]
fn a_transport_can_be_dropped_from_within_its_runtime_and_its_port_is_free_then() {
    let (one, two) = pair();
    one.peers().send(TWO, "x").unwrap();
    wait_until("nodes talk", || two.recorder.count() == 1);
    let address = two.shown(ONE).address;
    let transport = one.transport;
    one.runtime.block_on(async move { drop(transport) });
    wait_until("the port is free", || std::net::TcpListener::bind((address.host(), address.port())).is_ok());
}
