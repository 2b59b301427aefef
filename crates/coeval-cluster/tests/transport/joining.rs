// SPDX-License-Identifier: Apache-2.0
//! Who asks to be a node: what does not fit is refused by name, as between nodes.

use crate::authority::{Authority, Validity};
use crate::nodes::{Node, ONE, Place, options, place};
use coeval_cluster::{
    AskOptions, ClusterId, FormatVersion, Formats, JoinError, Membership, NodeAddress, ProtocolVersions,
    Security, TransportOptions,
};
use std::net::TcpListener;
use std::time::Duration;

/// A node that has no other, and answers nobody; what somebody at 127.0.0.2 is told who asks it.
fn told(secured: impl Fn(TransportOptions) -> TransportOptions, change: impl Fn(&mut AskOptions)) -> String {
    let one: Place = place(ONE);
    let seeds = [one.address.clone()];
    let node = Node::start(secured(options(&one)), one.listener, []);
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let address: NodeAddress = listener.local_addr().unwrap().to_string().parse().unwrap();
    let mut asked = AskOptions::new(address, Formats::up_to(FormatVersion::new(9)));
    asked.timeouts = options(&place(ONE)).timeouts;
    change(&mut asked);
    let directory = tempfile::tempdir().unwrap();
    let joined = Membership::join(directory.path(), &asked, &seeds, Duration::ZERO);
    match node.runtime.block_on(joined) {
        Err(JoinError::Unanswered { last, .. }) => {
            assert_eq!(node.recorder.count(), 0);
            last
        }
        other => panic!("{other:?}"),
    }
}

fn assert_says(text: &str, words: &[&str]) {
    assert!(words.iter().all(|word| text.contains(word)), "{text} without one of {words:?}");
}

fn plain(options: TransportOptions) -> TransportOptions {
    options
}

#[test]
fn who_fits_is_heard_and_the_handler_answers() {
    assert_says(&told(plain, |_| {}), &["this node takes no others"]);
    assert_says(&told(plain, |asked| asked.cluster = Some(ClusterId::new(77))), &["takes no others"]);
}

#[test]
fn who_wants_to_be_of_another_cluster_is_refused() {
    let text = told(plain, |asked| asked.cluster = Some(ClusterId::new(78)));
    assert_says(&text, &["n1 is of cluster 77", "cluster 78"]);
}

#[test]
fn who_speaks_another_version_is_refused() {
    let text = told(plain, |asked| asked.versions = ProtocolVersions { oldest: 5, newest: 6 });
    assert_says(&text, &["n1 speaks version 4 of", "speaks versions 5 to 6"]);
}

#[test]
fn who_writes_a_newer_format_is_refused() {
    let text = told(plain, |asked| asked.formats = Formats::up_to(FormatVersion::new(10)));
    assert_says(&text, &["reads up to format 9", "writes format 10"]);
}

#[test]
fn with_certificates_who_asks_has_one_for_where_it_is() {
    let authority = Authority::new();
    let secured = |options| authority.secured(options);
    let certificate = |host: &str| Security::Certificates(authority.certificate(host, Validity::Valid));
    let text = told(secured, |asked| asked.security = certificate("127.0.0.2"));
    assert_says(&text, &["this node takes no others"]);
    let text = told(secured, |_| {});
    assert_says(&text, &["n1 has certificates, and takes TLS only"]);
    let text = told(plain, |asked| asked.security = certificate("127.0.0.2"));
    assert_says(&text, &["does not speak TLS"]);
}
