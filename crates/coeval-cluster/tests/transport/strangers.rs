// SPDX-License-Identifier: Apache-2.0
//! Other protocols on the port, and nodes that reach the port of another program.

use crate::authority::Authority;
use crate::nodes::{Node, ONE, TWO, options, pair_with, place, wait_until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// What may come in, and what a node without certificates calls it.
const STRANGERS: [(&[u8], &str); 5] = [
    (b"GET / HTTP/1.1\r\nHost: n1\r\n\r\n", "it speaks HTTP/1"),
    (b"\x00\x00\x00\x08\x04\xd2\x16\x2f", "it speaks the protocol of PostgreSQL"),
    (b"\x00\x00\x00\x15\x00\x03\x00\x00user\x00postgres\x00\x00", "it speaks the protocol of PostgreSQL"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "it speaks HTTP/2 without a greeting"),
    (
        b"\xa7\x13\x99\x00\xff\x42\x17\x08\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a",
        "it does not begin with a greeting",
    ),
];

/// Sends bytes to a node, and reads to the end of the connection.
fn answer_to(node: &Node, port: u16, bytes: &[u8]) -> Vec<u8> {
    let before = node.peers().status().refused_connections;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = stream.read_to_end(&mut answer);
    drop(stream);
    wait_until("it is refused", || node.peers().status().refused_connections > before);
    answer
}

fn last_refusal(node: &Node) -> String {
    node.peers().status().last_refused.last().unwrap().error.to_string()
}

#[test]
fn other_protocols_are_named_and_let_no_node_wait() {
    // Whoever waited for a greeting would do so for this long.
    let (one, two) = pair_with(|options| options.timeouts.connect = Duration::from_secs(60));
    for (bytes, what) in STRANGERS {
        let begin = Instant::now();
        answer_to(&one, two.shown(ONE).address.port(), bytes);
        assert!(last_refusal(&one).contains(what), "{}", last_refusal(&one));
        assert!(begin.elapsed() < Duration::from_secs(10), "{what}: {:?}", begin.elapsed());
    }
    two.peers().send(ONE, "x").unwrap();
    wait_until("nodes talk as ever", || one.recorder.count() == 1);
    assert_eq!(one.peers().status().refused_connections, 5);
}

#[test]
fn other_protocols_are_named_by_a_node_with_certificates_too() {
    let authority = Authority::new();
    let place = place(ONE);
    let port = place.address.port();
    let options = authority.secured(options(&place));
    let node = Node::start(options, place.listener, []);
    for (bytes, what) in STRANGERS {
        answer_to(&node, port, bytes);
        assert!(last_refusal(&node).contains(what), "{}", last_refusal(&node));
    }
    answer_to(&node, port, b"\x16\x03\x01\x00\x05hello");
    assert!(last_refusal(&node).starts_with("TLS with"), "{}", last_refusal(&node));
}

#[test]
fn whoever_says_nothing_is_sent_away_in_time_and_many_of_them_hold_up_nobody() {
    let (one, two) = pair_with(|options| options.timeouts.connect = Duration::from_secs(5));
    let port = two.shown(ONE).address.port();
    let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    two.peers().send(ONE, "x").unwrap();
    wait_until("nodes talk as ever", || one.recorder.count() == 1);
    assert_eq!(one.peers().status().refused_connections, 0, "all of them are there still");
    wait_until("all are sent away", || one.peers().status().refused_connections == 100);
    assert!(last_refusal(&one).contains("was waited for, for 5000 ms"), "{}", last_refusal(&one));
    for mut stream in silent {
        assert_eq!(stream.read(&mut [0; 64]).unwrap_or(0), 0);
    }
}

#[test]
fn a_node_that_reaches_another_program_names_it() {
    for (answer, what) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "it speaks HTTP/1"),
        (b"E\x00\x00\x00\x20SFATAL", "it does not begin with a greeting"),
        (b"", "it has closed the connection without a word"),
    ] {
        let (one, two) = (place(ONE), TcpListener::bind("127.0.0.2:0").unwrap());
        let address = two.local_addr().unwrap().to_string().parse().unwrap();
        let node = Node::start(options(&one), one.listener, [(TWO, address)]);
        node.peers().send(TWO, "x").unwrap();
        let (mut stream, _) = two.accept().unwrap();
        let mut greeting = [0; 64];
        let length = stream.read(&mut greeting).unwrap();
        assert!(greeting[..length].starts_with(b"coeval cluster\n\0"));
        stream.write_all(answer).unwrap();
        drop(stream);
        let error = node.reason(TWO).to_string();
        assert!(error.contains(what), "{error}");
    }
}
