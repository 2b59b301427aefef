// SPDX-License-Identifier: Apache-2.0
//! Whether a client is still there while its statement runs.
//!
//! A statement runs on the thread of its connection's task, which reads nothing meanwhile: that the client has gone would be noticed
//! when it ends. So one thread of the process looks, every [`LOOK`], at those connections whose statement has run for as long as
//! `client_connection_check_interval` says, asks the system whether the client has closed its side, and has such statements end.
//!
//! - The system is asked for the state of the connection and not for bytes: what the client has sent ahead stays to be read, and
//!   hides nothing. Beneath TLS it is the same connection. (Where a system does not tell that state, a look at the next byte has to
//!   do, which sees no end behind what was sent ahead.)
//! - A client that has closed its half only, and waits for the answer, looks like one that has gone. It gets the answers of statements that
//!   are shorter than the setting; who needs more sets it to 0.
//! - It is a thread of its own and no task of a runtime: statements may keep all threads of those busy.
//!
//! **Why nobody is ended who is there.** A statement is ended only if, at the same look, it was seen to run and the client's side was
//! seen closed. A closed side stays closed. The statement may have ended between the two, and another one begun: that one
//! belongs to the same client, whose side is as closed. **Why whoever has gone is found.** What is due is stored before the
//! statement begins and taken back behind it, so each look during it sees it; the place in the list is there as long as the connection.
//!
//! # Locking
//! `CLIENTS` is a leaf: it is held to change the list and for a look, which waits for nothing, and not while a statement is told to
//! end. A client's `due` guards nothing.

use crate::stream::Stream;
use coeval_sql::{CancelHandle, CancelReason};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two looks: what a client's end is noticed later than the setting says.
const LOOK: Duration = Duration::from_millis(200);

/// No statement runs.
const NEVER: u64 = u64::MAX;

static CLIENTS: Mutex<Clients> = Mutex::new(Clients { list: BTreeMap::new(), next: 0, has_thread: false });
/// There is a client again.
static CAME: Condvar = Condvar::new();

/// What times are counted from.
static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The clients of all sessions of the process.
struct Clients {
    list: BTreeMap<u64, Arc<Client>>,
    next: u64,
    has_thread: bool,
}

#[derive(Debug)]
struct Client {
    /// Another handle on its connection.
    socket: OwnedFd,
    cancel: CancelHandle,
    /// When it is looked for, in milliseconds; [`NEVER`]: its session waits for it, and hears of it by itself.
    due: AtomicU64,
}

impl Client {
    fn is_missed(&self, now: u64) -> bool {
        self.due.load(Ordering::Acquire) <= now && is_closed(&self.socket)
    }
}

/// A session's client. It is not looked for any more when this is dropped.
#[derive(Debug)]
pub(crate) struct Presence {
    number: u64,
    client: Arc<Client>,
}

impl Presence {
    /// The client behind a connection, with what ends its statements. `None` if the system has no room for another handle on the
    /// connection, or no thread: its end is noticed as late as that of its statement then.
    pub(crate) fn behind(stream: &Stream, cancel: CancelHandle) -> Option<Self> {
        let client = Client { socket: stream.another_handle().ok()?, cancel, due: AtomicU64::new(NEVER) };
        let client = Arc::new(client);
        let mut clients = CLIENTS.lock();
        if !clients.has_thread {
            let thread = thread::Builder::new().name("coeval-presence".to_owned());
            thread.spawn(look_for_clients).ok()?;
            clients.has_thread = true;
        }
        let number = clients.next;
        clients.next += 1;
        clients.list.insert(number, Arc::clone(&client));
        drop(clients);
        CAME.notify_one();
        Some(Self { number, client })
    }

    /// A statement of the session runs until what this gives is dropped. If it runs for this long, its client is looked for.
    #[must_use]
    pub(crate) fn watched(&self, interval: Duration) -> Watched {
        self.client.due.store(now().saturating_add(milliseconds(interval)), Ordering::Release);
        Watched(Arc::clone(&self.client))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        CLIENTS.lock().list.remove(&self.number);
    }
}

/// While this lives, a statement runs.
#[derive(Debug)]
pub(crate) struct Watched(Arc<Client>);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.due.store(NEVER, Ordering::Release);
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(NEVER)
}

/// The time, as [`Client::due`] counts it.
fn now() -> u64 {
    milliseconds(BEGINNING.elapsed())
}

/// What the thread does, for as long as the process lives.
fn look_for_clients() {
    loop {
        let mut clients = CLIENTS.lock();
        while clients.list.is_empty() {
            CAME.wait(&mut clients);
        }
        let now = now();
        let missed: Vec<_> = clients.list.values().filter(|client| client.is_missed(now)).cloned().collect();
        drop(clients);
        for client in missed {
            client.cancel.cancel_for(CancelReason::ClientGone);
        }
        thread::sleep(LOOK);
    }
}

/// Whether the other side of a connection has closed it, or it is broken, whatever bytes are there to be read.
#[cfg(target_os = "linux")]
fn is_closed(socket: &OwnedFd) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;

    // A state that the library has no name for; broken connections are told of without being asked for.
    let closed = PollFlags::from_bits_retain(nix::libc::POLLRDHUP);
    poll(&mut [PollFd::new(socket.as_fd(), closed)], PollTimeout::ZERO).is_ok_and(|count| count > 0)
}

/// The same, as far as that can be seen before the bytes that are there have been read.
#[cfg(not(target_os = "linux"))]
fn is_closed(socket: &OwnedFd) -> bool {
    use socket2::SockRef;
    use std::io::ErrorKind::{Interrupted, WouldBlock};
    use std::mem::MaybeUninit;

    // The connection's own handle does not block, and this one is as it is.
    match SockRef::from(socket).peek(&mut [MaybeUninit::uninit()]) {
        Ok(count) => count == 0,
        Err(error) => !matches!(error.kind(), Interrupted | WouldBlock),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    /// Waits for what the system tells a moment later.
    fn becomes_closed(socket: &OwnedFd) -> bool {
        let began = Instant::now();
        while !is_closed(socket) {
            if began.elapsed() > Duration::from_secs(10) {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_end_of_a_client_is_seen_behind_what_it_sent_and_that_stays_to_be_read() {
        for half in [Some(Shutdown::Write), None] {
            let (mut client, mut server) = pair();
            let socket = OwnedFd::from(server.try_clone().unwrap());
            client.write_all(b"sent ahead").unwrap();
            thread::sleep(Duration::from_millis(20));
            assert!(!is_closed(&socket), "bytes are no end");
            match half {
                Some(half) => client.shutdown(half).unwrap(),
                None => drop(client),
            }
            assert!(becomes_closed(&socket), "{half:?}");
            let mut read = Vec::new();
            server.read_to_end(&mut read).unwrap();
            assert_eq!(read, b"sent ahead", "a look takes nothing");
        }
    }

    #[test]
    fn the_end_of_a_client_of_this_process_is_seen() {
        let (client, server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let socket = OwnedFd::from(server);
        assert!(!is_closed(&socket));
        drop(client);
        assert!(becomes_closed(&socket));
    }
}
