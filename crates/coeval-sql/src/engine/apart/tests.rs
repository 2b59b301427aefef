// SPDX-License-Identifier: Apache-2.0
#![allow(clippy::unwrap_used)]

use super::THREADS_MAX;
use crate::cancel::CancelHandle;
use crate::memory::run_with;
use crate::{Engine, QueryMemory, SqlState};
use coeval_store::{Store, StoreOptions};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

#[test]
fn whoever_waits_for_work_that_looks_at_nothing_hears_of_a_request_at_once_and_the_work_of_his_going() {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let handle = CancelHandle::new();
    let (go_on, wait) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let _running = handle.begin();
            engine.runtime().apart(move || {
                tell.send(None).unwrap();
                wait.recv().unwrap();
                tell.send(Some(crate::cancel::check())).unwrap();
                Ok(())
            })
        });
        assert_eq!(told.recv().unwrap(), None, "the work has begun");
        handle.cancel();
        let error = waiting.join().unwrap().unwrap_err();
        assert_eq!(error.state, SqlState::QueryCanceled);
    });
    // The session's next statement forgets the request.
    let _next = handle.begin();
    go_on.send(()).unwrap();
    let looked = told.recv().unwrap().unwrap();
    assert_eq!(looked.unwrap_err().state, SqlState::QueryCanceled);
}

#[test]
fn work_that_was_left_behind_has_so_many_threads_and_no_more() {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let (go_on, wait) = shared_channel();
    for _ in 0..THREADS_MAX {
        let (handle, wait) = (CancelHandle::new(), wait.clone());
        let (begun, has_begun) = mpsc::channel();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let _running = handle.begin();
                engine.runtime().apart(move || {
                    begun.send(()).unwrap();
                    wait.lock().recv().unwrap();
                    Ok(())
                })
            });
            has_begun.recv().unwrap();
            handle.cancel();
            assert_eq!(waiting.join().unwrap().unwrap_err().state, SqlState::QueryCanceled);
        });
    }
    let handle = CancelHandle::new();
    let (begun, has_begun) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let _running = handle.begin();
            engine.runtime().apart(move || {
                begun.send(()).unwrap();
                Ok(())
            })
        });
        let begins = has_begun.recv_timeout(Duration::from_millis(100));
        assert!(begins.is_err(), "it waits for a place");
        for _ in 0..THREADS_MAX {
            go_on.send(()).unwrap();
        }
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn work_that_was_left_behind_counts_the_syntax_that_it_holds_until_its_end() {
    let memory = QueryMemory { bytes: Some(16 << 20), ..QueryMemory::default() };
    let engine = Engine::with_memory(Store::in_memory(StoreOptions::default()), &memory).unwrap();
    // Some nine million bytes.
    let text = format!("SELECT {}'{}'", "1,".repeat(9_000), "x".repeat(1 << 18));
    let keep = || engine.queries.keep_syntax(&text);
    let (handle, (go_on, wait)) = (CancelHandle::new(), mpsc::channel::<()>());
    let (begun, has_begun) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let (_running, syntax) = (handle.begin(), keep().unwrap());
            let _syntax = run_with(syntax.as_ref());
            engine.runtime().apart(move || {
                begun.send(()).unwrap();
                wait.recv().unwrap();
                Ok(())
            })
        });
        has_begun.recv().unwrap();
        handle.cancel();
        assert_eq!(waiting.join().unwrap().unwrap_err().state, SqlState::QueryCanceled);
    });
    assert_eq!(keep().unwrap_err().state, SqlState::OutOfMemory);
    go_on.send(()).unwrap();
    let begun = Instant::now();
    while keep().is_err() {
        assert!(begun.elapsed() < Duration::from_secs(10), "it is given back");
        std::thread::yield_now();
    }
}

type Waiting = Arc<parking_lot::Mutex<mpsc::Receiver<()>>>;

fn shared_channel() -> (mpsc::Sender<()>, Waiting) {
    let (sender, receiver) = mpsc::channel();
    (sender, Arc::new(parking_lot::Mutex::new(receiver)))
}
