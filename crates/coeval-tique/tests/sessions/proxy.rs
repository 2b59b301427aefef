// SPDX-License-Identifier: Apache-2.0
//! A network between a client and a server that breaks on the client's side alone.

use parking_lot::Mutex;
use std::io::copy;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;

/// Hands connections on to a server. As long as it lives, those to the server stay open whatever becomes of the client's.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    pairs: Arc<Mutex<Vec<Pair>>>,
}

struct Pair {
    client: TcpStream,
    _server: TcpStream,
}

impl Proxy {
    pub(crate) fn before(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let pairs = Arc::new(Mutex::new(Vec::new()));
        let accepted = Arc::clone(&pairs);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let other = |stream: &TcpStream| stream.try_clone().unwrap();
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (mut from, mut to) = (other(from), other(to));
                    // It ends with one of the two, which the other side does not see.
                    std::thread::spawn(move || drop(copy(&mut from, &mut to)));
                }
                accepted.lock().push(Pair { client, _server: server });
            }
        });
        Self { port, pairs }
    }

    /// Breaks the connection that was made last, for the client. The server goes on with what it was told.
    pub(crate) fn cut_last(&self) {
        self.pairs.lock().last().unwrap().client.shutdown(Shutdown::Both).unwrap();
    }
}
