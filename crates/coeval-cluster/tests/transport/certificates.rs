// SPDX-License-Identifier: Apache-2.0
//! Nodes that prove who they are by certificates, and those that cannot.

use crate::authority::{Authority, Validity};
use crate::nodes::{Node, ONE, Place, THREE, TWO, options, pair_with, place, wait_until};
use coeval_cluster::{
    Certificates, ConfigurationError, LinkError, NodeAddress, NodeId, Security, Transport, TransportOptions,
};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

/// The first node dials the second; what each of them says of it.
fn texts(change: impl Fn(&mut TransportOptions)) -> (LinkError, String) {
    let (one, two) = pair_with(&change);
    one.peers().send(TWO, "x").unwrap();
    let texts = (one.reason(TWO), two.refusal());
    assert_eq!(two.recorder.count(), 0);
    texts
}

fn assert_says(text: &impl ToString, words: &str) {
    let text = text.to_string();
    assert!(text.contains(words), "{text}");
}

/// All nodes have certificates of this authority, but this one has these files.
fn with(authority: &Authority, node: NodeId, files: Certificates) -> impl Fn(&mut TransportOptions) {
    move |options| {
        *options = authority.secured(options.clone());
        if options.node == node {
            options.security = Security::Certificates(files.clone());
        }
    }
}

#[test]
fn nodes_with_certificates_talk() {
    let authority = Authority::new();
    let (one, two) = pair_with(|options| *options = authority.secured(options.clone()));
    one.peers().send(TWO, vec![5; 3 << 20]).unwrap();
    two.peers().send(ONE, "back").unwrap();
    wait_until("frames arrive", || one.recorder.count() == 1 && two.recorder.count() == 1);
    assert_eq!(two.recorder.frames()[0], vec![5; 3 << 20]);
    assert_eq!(one.call(TWO, b"who").unwrap(), "n1");
    assert_eq!(one.peers().status().refused_connections, 0);
}

#[test]
fn names_count_as_hosts_too() {
    let authority = Authority::new();
    let places = [place(ONE), place(ONE)];
    let address =
        |place: &Place| format!("LocalHost:{}", place.address.port()).parse::<NodeAddress>().unwrap();
    let known = [(ONE, address(&places[0])), (TWO, address(&places[1]))];
    let [one, two] = places.map(|place| {
        let mut told = options(&place);
        told.address = address(&place);
        told.node = known.iter().find(|(_, known)| *known == told.address).unwrap().0;
        Node::start(authority.secured(told), place.listener, known.clone())
    });
    one.peers().send(TWO, "x").unwrap();
    wait_until("the frame arrives", || two.recorder.count() == 1);
}

#[test]
fn a_client_of_another_authority_is_refused_on_both_sides() {
    let (authority, other) = (Authority::new(), Authority::new());
    let mut files = other.certificate("127.0.0.1", Validity::Valid);
    files.authorities = authority.file();
    let (dialing, listening) = texts(with(&authority, ONE, files));
    assert_says(&dialing, "refuses this node's certificate");
    assert_says(&listening, "UnknownIssuer");
}

#[test]
fn a_server_of_another_authority_is_refused_on_both_sides() {
    let (authority, other) = (Authority::new(), Authority::new());
    let mut files = other.certificate("127.0.0.2", Validity::Valid);
    files.authorities = authority.file();
    let (dialing, listening) = texts(with(&authority, TWO, files));
    assert_says(&dialing, "UnknownIssuer");
    assert_says(&listening, "refuses this node's certificate");
}

#[test]
fn certificates_that_have_expired_are_refused_on_both_sides() {
    let authority = Authority::new();
    let expired = |host| authority.certificate(host, Validity::Expired);
    let (dialing, listening) = texts(with(&authority, ONE, expired("127.0.0.1")));
    assert_says(&dialing, "CertificateExpired");
    assert_says(&listening, "certificate expired");
    let (dialing, listening) = texts(with(&authority, TWO, expired("127.0.0.2")));
    assert_says(&dialing, "certificate expired");
    assert_says(&listening, "CertificateExpired");
}

#[test]
fn a_client_whose_certificate_is_for_another_host_is_refused_on_both_sides() {
    let authority = Authority::new();
    let (one, two, three) = (place(ONE), place(TWO), place(THREE));
    let known = [(ONE, one.address), (TWO, two.address.clone()), (THREE, three.address.clone())];
    let second = Node::start(authority.secured(options(&two)), two.listener, known.clone());
    // Node 3, with a good certificate, says to be n1.
    let impostor = TransportOptions { node: ONE, ..authority.secured(options(&three)) };
    let impostor = Node::start(impostor, three.listener, known);
    impostor.peers().send(TWO, "x").unwrap();
    let words = "the certificate of who says to be n1 is not for 127.0.0.1, where n2 knows that node";
    assert_says(&impostor.reason(TWO), words);
    assert_says(&second.refusal(), words);
    assert_eq!(second.recorder.count(), 0);
}

#[test]
fn a_server_whose_certificate_is_for_another_host_is_refused_on_both_sides() {
    let authority = Authority::new();
    let (one, two) = (place(ONE), place(TWO));
    // Node 2 is known at the place of n3, by a forwarded port: the certificate is for where it listens.
    let forwarded = std::net::TcpListener::bind("127.0.0.3:0").unwrap();
    let address: NodeAddress = forwarded.local_addr().unwrap().to_string().parse().unwrap();
    let _control = crate::proxy::lead(forwarded, two.listener.local_addr().unwrap());
    let known = [(ONE, one.address.clone()), (TWO, address)];
    let first = Node::start(authority.secured(options(&one)), one.listener, known.clone());
    let second = Node::start(authority.secured(options(&two)), two.listener, known);
    first.peers().send(TWO, "x").unwrap();
    let error = first.reason(TWO);
    assert!(matches!(error, LinkError::Tls { .. }), "{error}");
    assert_says(&error, "127.0.0.3");
    assert_says(&second.refusal(), "refuses this node's certificate");
}

#[test]
fn a_node_without_certificates_and_one_with_them_say_so_on_both_sides() {
    let authority = Authority::new();
    let (dialing, listening) = texts(|options| {
        if options.node == TWO {
            *options = authority.secured(options.clone());
        }
    });
    assert_says(&dialing, "n2 has certificates, and takes TLS only");
    assert_says(&listening, "it speaks without TLS, and this node has certificates");
    let (dialing, listening) = texts(|options| {
        if options.node == ONE {
            *options = authority.secured(options.clone());
        }
    });
    assert_says(&dialing, "the other side does not speak TLS: it has no certificates, or is no node");
    assert_says(&listening, "it speaks TLS, and this node has no certificates");
}

fn start(options: TransportOptions, listener: std::net::TcpListener) -> Result<(), ConfigurationError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let routes = tonic::service::Routes::default();
    Transport::start(options, listener, routes, runtime.handle(), |_| {
        Arc::new(crate::recorder::Recorder::default())
    })
    .map(|_| ())
}

#[test]
fn files_that_cannot_be_used_are_named_when_a_node_starts() {
    let authority = Authority::new();
    let good = authority.certificate("127.0.0.1", Validity::Valid);
    let other = authority.certificate("127.0.0.1", Validity::Valid);
    let refused = |files: Certificates| {
        let place = place(ONE);
        let options = TransportOptions { security: Security::Certificates(files), ..options(&place) };
        start(options, place.listener).unwrap_err().to_string()
    };
    let missing = refused(Certificates { authorities: "no-such-file".into(), ..good.clone() });
    assert_says(&missing, "cannot use no-such-file");
    let no_certificate = refused(Certificates { chain: good.key.clone(), ..good.clone() });
    assert_says(&no_certificate, "there is no certificate in it");
    let mismatched = refused(Certificates { key: other.key.clone(), ..good.clone() });
    assert_says(&mismatched, "cannot use");
    let elsewhere = refused(authority.certificate("127.0.0.2", Validity::Valid));
    assert_says(&elsewhere, "is not for 127.0.0.1, where the other nodes reach this one");
    set_permissions(&good.key, Permissions::from_mode(0o644)).unwrap();
    assert_says(&refused(good), "can be read by others (its mode is 644)");
}
