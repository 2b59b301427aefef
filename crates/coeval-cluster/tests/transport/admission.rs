// SPDX-License-Identifier: Apache-2.0
//! Who is let in: nodes of this cluster, that are known, and whose programs fit. Both sides say why not.

use crate::nodes::{Node, ONE, THREE, TWO, options, pair, pair_with, place, wait_until};
use coeval_cluster::{
    CallError, ClusterId, ConfigurationError, FormatVersion, Formats, Incarnation, LinkError, NodeId,
    ProtocolVersions, Security, Transport, TransportOptions,
};
use std::net::TcpListener;

/// The second of two nodes is told something else; what each side says of it then.
fn texts(change: impl Fn(&mut TransportOptions)) -> [String; 2] {
    let (one, two) = pair_with(|options| {
        if options.node == TWO {
            change(options);
        }
    });
    one.peers().send(TWO, "x").unwrap();
    let texts = [one.reason(TWO).to_string(), two.refusal()];
    assert_eq!(two.recorder.count(), 0);
    let error = one.call(TWO, b"who").unwrap_err();
    assert!(matches!(error, CallError::NotConnected(_)), "{error}");
    assert_eq!(two.peers().status().last_refused[0].node, Some(ONE));
    // And the other way round.
    two.peers().send(ONE, "x").unwrap();
    two.reason(ONE);
    one.refusal();
    assert_eq!(one.recorder.count(), 0);
    texts
}

fn assert_all_say(texts: &[String], words: &[&str]) {
    for text in texts {
        assert!(words.iter().all(|word| text.contains(word)), "{text} without one of {words:?}");
    }
}

#[test]
fn another_cluster_is_refused_by_name_on_both_sides() {
    let texts = texts(|options| options.cluster = ClusterId::new(78));
    assert_all_say(&texts, &["n1 is of cluster 77", "n2 is of cluster 78"]);
}

#[test]
fn another_version_is_refused_by_name_on_both_sides() {
    let texts = texts(|options| options.versions = ProtocolVersions { oldest: 5, newest: 6 });
    assert_all_say(&texts, &["n1 speaks version 4 of", "n2 speaks versions 5 to 6"]);
}

#[test]
fn a_newer_format_is_refused_by_name_on_both_sides() {
    let texts = texts(|options| options.formats = Formats::up_to(FormatVersion::new(10)));
    assert_all_say(&texts, &["n2 writes format 10", "n1 reads up to format 9"]);
}

#[test]
fn a_wider_range_of_versions_fits() {
    let (one, two) = pair_with(|options| {
        if options.node == TWO {
            options.versions = ProtocolVersions { oldest: 1, newest: 4 };
        }
    });
    one.peers().send(TWO, "x").unwrap();
    wait_until("the frame arrives", || two.recorder.count() == 1);
}

#[test]
fn a_node_that_is_not_known_is_refused_by_name_on_both_sides() {
    let (one, two, three) = (place(ONE), place(TWO), place(THREE));
    let known = [(ONE, one.address.clone()), (TWO, two.address.clone())];
    let _one = Node::start(options(&one), one.listener, known.clone());
    let second = Node::start(options(&two), two.listener, known.clone());
    let stranger = Node::start(options(&three), three.listener, known);
    stranger.peers().send(TWO, "x").unwrap();
    let texts = [stranger.reason(TWO).to_string(), second.refusal()];
    assert_all_say(&texts, &["n3 is not among the nodes that n2 knows"]);
    assert!(matches!(stranger.reason(TWO), LinkError::Refused { .. }));
}

#[test]
fn a_connection_that_reaches_another_node_is_refused_on_both_sides() {
    let (one, two) = (place(ONE), place(TWO));
    let wrong = [(THREE, two.address.clone())];
    let right = [(ONE, one.address.clone())];
    let first = Node::start(options(&one), one.listener, wrong);
    let second = Node::start(options(&two), two.listener, right);
    first.peers().send(THREE, "x").unwrap();
    let texts = [first.reason(THREE).to_string(), second.refusal()];
    assert_all_say(&texts, &["n1 wanted n3 and has reached n2"]);
}

#[test]
fn a_node_that_says_to_be_elsewhere_is_refused_on_both_sides() {
    let elsewhere = place(NodeId::new(9)).address;
    let (one, two) = pair();
    let own = two.shown(ONE).address;
    two.peers().set_nodes([(ONE, elsewhere.clone())]).unwrap();
    one.peers().send(TWO, "x").unwrap();
    let texts = [one.reason(TWO).to_string(), two.refusal()];
    let said = format!("n1 says to be at {own}, and n2 knows it at {elsewhere}");
    assert_all_say(&texts, &[&said]);
}

#[test]
fn an_older_process_of_a_node_is_out_once_a_newer_one_was_met() {
    let (one, old, new) = (place(ONE), place(TWO), TcpListener::bind("127.0.0.23:0").unwrap());
    let known = [(ONE, one.address.clone()), (TWO, old.address.clone())];
    let first = Node::start(options(&one), one.listener, known.clone());
    let newer = TransportOptions { incarnation: Incarnation::new(2), ..options(&old) };
    let old = Node::start(options(&old), old.listener, known.clone());
    old.peers().send(ONE, "old").unwrap();
    wait_until("it is heard", || first.recorder.count() == 1);
    // Its successor, of the same number and address, while it is still there.
    let new = Node::start(newer, new, known);
    assert_eq!(new.call(ONE, b"who").unwrap(), "n2");
    wait_until("the old one's connection is ended", || old.shown(ONE).last_error.is_some());
    new.peers().send(ONE, "new").unwrap();
    wait_until("it is heard", || first.recorder.count() == 2);
    assert_eq!(first.shown(TWO).incarnation, Some(Incarnation::new(2)));
    // The old one gets no other connection.
    wait_until("the old one is refused", || {
        let _ = old.peers().send(ONE, "old");
        old.shown(ONE).last_error.is_some_and(|(_, error)| matches!(error, LinkError::Refused { .. }))
    });
    let words = "n2 was met in incarnation 2, and this is incarnation 1";
    assert_all_say(&[old.reason(ONE).to_string(), first.refusal()], &[words]);
    assert_eq!(first.recorder.count(), 2);
}

#[test]
fn without_certificates_nodes_stay_within_the_machine_unless_it_is_allowed() {
    let start = |security: Security| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let place = place(ONE);
        let options = TransportOptions { security, ..options(&place) };
        let everywhere = TcpListener::bind("0.0.0.0:0").unwrap();
        let routes = tonic::service::Routes::default();
        Transport::start(options, everywhere, routes, runtime.handle(), |_| {
            std::sync::Arc::new(crate::recorder::Recorder::default())
        })
        .map(|_| ())
    };
    let refused = start(Security::LoopbackOnly).unwrap_err();
    assert!(matches!(refused, ConfigurationError::NotLoopback(_)), "{refused}");
    start(Security::Insecure).unwrap();
    // Nor do they go out. The address is one of those that lead nowhere, kept for documents.
    let place = place(ONE);
    let node = Node::start(options(&place), place.listener, [(TWO, "192.0.2.1:7001".parse().unwrap())]);
    node.peers().send(TWO, "x").unwrap();
    assert!(matches!(node.reason(TWO), LinkError::NotLoopback { .. }), "{}", node.reason(TWO));
}
