// SPDX-License-Identifier: Apache-2.0
//! A proxy in front of a node: connections through it can be cut, stalled and delayed.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What a proxy does to connections.
#[derive(Default)]
pub(crate) struct Control {
    /// Connections that go through it.
    streams: Mutex<Vec<TcpStream>>,
    /// No byte goes through.
    stalled: AtomicBool,
    /// No byte goes through connections up to this number, ever.
    dead: AtomicUsize,
    /// Each piece waits as long.
    delay_ms: AtomicU64,
    /// Connections are cut as they come.
    closed: AtomicBool,
    /// Connections that were made.
    made: AtomicUsize,
}

impl Control {
    /// Cuts all connections: what is under way is lost.
    pub(crate) fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn stall(&self) {
        self.stalled.store(true, Ordering::SeqCst);
    }

    /// Lets those that are there say nothing any more, not even that they end.
    pub(crate) fn forget_connections(&self) {
        self.dead.store(self.made(), Ordering::SeqCst);
    }

    pub(crate) fn go_on(&self) {
        self.stalled.store(false, Ordering::SeqCst);
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }

    pub(crate) fn set_delay_ms(&self, delay: u64) {
        self.delay_ms.store(delay, Ordering::SeqCst);
    }

    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }
}

/// Leads connections of a listener to a place. Its threads end with their connections; the one that listens, with the process.
pub(crate) fn lead(listener: TcpListener, to: SocketAddr) -> Arc<Control> {
    let control = Arc::new(Control::default());
    let shared = Arc::clone(&control);
    thread::spawn(move || {
        for near in listener.incoming() {
            let near = near.unwrap();
            shared.made.fetch_add(1, Ordering::SeqCst);
            if shared.closed.load(Ordering::SeqCst) {
                continue;
            }
            let Ok(far) = TcpStream::connect(to) else { continue };
            for stream in [&near, &far] {
                stream.set_nodelay(true).unwrap();
                shared.streams.lock().unwrap().push(stream.try_clone().unwrap());
            }
            let number = shared.made();
            pump(&shared, number, near.try_clone().unwrap(), far.try_clone().unwrap());
            pump(&shared, number, far, near);
        }
    });
    control
}

fn pump(control: &Arc<Control>, number: usize, mut from: TcpStream, mut to: TcpStream) {
    let control = Arc::clone(control);
    thread::spawn(move || {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let read = from.read(&mut buffer).unwrap_or(0);
            while control.stalled.load(Ordering::SeqCst) || number <= control.dead.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(control.delay_ms.load(Ordering::SeqCst)));
            if read == 0 || to.write_all(&buffer[..read]).is_err() {
                let _ = to.shutdown(Shutdown::Both);
                let _ = from.shutdown(Shutdown::Both);
                return;
            }
        }
    });
}
