// SPDX-License-Identifier: Apache-2.0
//! What stands before a port of a node: connections through it are cut, refused, and held up.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a connection looks what it is to do.
const LOOK: Duration = Duration::from_millis(20);

/// What becomes of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// They go through.
    Open,
    /// No byte goes through, and nobody is told.
    Stalled,
    /// There are none, and new ones end at once.
    Closed,
}

/// Shared with the threads of connections.
struct State {
    way: Way,
    /// Both sides of each, by a number.
    streams: BTreeMap<u64, [TcpStream; 2]>,
    next: u64,
}

/// See the module. Its threads end with their connections; the one that listens, with the process.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
}

impl Proxy {
    /// Listens at an address, and leads to another port of it.
    pub(crate) fn start(host: Ipv4Addr, to: u16) -> Self {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = State { way: Way::Open, streams: BTreeMap::new(), next: 0 };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                if shared.lock().unwrap().way == Way::Closed {
                    continue;
                }
                let Ok(far) = TcpStream::connect((host, to)) else { continue };
                // A connection that has ended already is no loss.
                let _ = lead(&shared, near, far);
            }
        });
        Self { port, state }
    }

    pub(crate) fn set(&self, way: Way) {
        self.state.lock().unwrap().way = way;
        if way == Way::Closed {
            self.cut();
        }
    }

    /// Ends all connections, wherever they are in a message.
    pub(crate) fn cut(&self) {
        let streams = std::mem::take(&mut self.state.lock().unwrap().streams);
        streams.into_values().flatten().for_each(|stream| end(&stream));
    }
}

fn end(stream: &TcpStream) {
    // It may have ended by itself.
    let _ = stream.shutdown(Shutdown::Both);
}

/// Has the bytes of a connection go both ways.
fn lead(state: &Arc<Mutex<State>>, near: TcpStream, far: TcpStream) -> std::io::Result<()> {
    for stream in [&near, &far] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
    }
    let ways = [(near.try_clone()?, far.try_clone()?), (far.try_clone()?, near.try_clone()?)];
    let number = {
        let mut state = state.lock().unwrap();
        let number = state.next;
        state.next += 1;
        state.streams.insert(number, [near, far]);
        number
    };
    for (from, into) in ways {
        let state = Arc::clone(state);
        std::thread::spawn(move || {
            forward(&from, &into, &state);
            end(&from);
            end(&into);
            state.lock().unwrap().streams.remove(&number);
        });
    }
    Ok(())
}

/// Until one of both has ended.
fn forward(mut from: &TcpStream, mut into: &TcpStream, state: &Mutex<State>) {
    let mut bytes = vec![0; 16 << 10];
    loop {
        if state.lock().unwrap().way == Way::Stalled {
            std::thread::sleep(LOOK);
            continue;
        }
        match from.read(&mut bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Ok(read) if read > 0 && into.write_all(&bytes[..read]).is_ok() => {}
            _ => return,
        }
    }
}
