// SPDX-License-Identifier: Apache-2.0
//! What a link makes of a primary that says something else than ours.

use super::*;
use crate::copying::copy_database;
use crate::wire::{SILENCE, Wire};
use coeval_store::{FormerPrimary, Term};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[kind], length.to_be_bytes().as_slice(), body].concat()
}

fn row(values: &[&str]) -> Vec<u8> {
    let count = i16::try_from(values.len()).unwrap();
    let mut body = count.to_be_bytes().to_vec();
    for value in values {
        body.extend_from_slice(&i32::try_from(value.len()).unwrap().to_be_bytes());
        body.extend_from_slice(value.as_bytes());
    }
    message(b'D', &body)
}

/// A server that lets one client in, answers one command with this row, and tells what it hears behind it.
pub(crate) fn primary_that_says(values: &[&str]) -> (PrimaryAddress, JoinHandle<Vec<u8>>) {
    primary_that_answers([row(values), message(b'C', b"IDENTIFY_SYSTEM\0")].concat())
}

/// The same, with these messages.
fn primary_that_answers(messages: Vec<u8>) -> (PrimaryAddress, JoinHandle<Vec<u8>>) {
    primary_that_sends([messages, message(b'Z', b"I")].concat())
}

/// The same, and it does not take another command.
pub(crate) fn primary_that_sends(answer: Vec<u8>) -> (PrimaryAddress, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let ready = message(b'Z', b"I");
    let thread = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut heard = [0; 1024];
        assert!(socket.read(&mut heard).unwrap() > 0);
        socket.write_all(&[message(b'R', &[0; 4]), ready].concat()).unwrap();
        assert!(socket.read(&mut heard).unwrap() > 0);
        socket.write_all(&answer).unwrap();
        let mut rest = Vec::new();
        socket.read_to_end(&mut rest).unwrap();
        rest
    });
    (PrimaryAddress::parse(&format!("host=127.0.0.1,port={port},user=coeval")).unwrap(), thread)
}

/// A server that lets one client in, answers one command with this row, and tells the command.
fn primary_that_tells_its_command(values: &[&str]) -> (PrimaryAddress, JoinHandle<String>) {
    let answer = [row(values), message(b'C', b"\0"), message(b'Z', b"I")].concat();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut heard = [0; 1024];
        assert!(socket.read(&mut heard).unwrap() > 0);
        socket.write_all(&[message(b'R', &[0; 4]), message(b'Z', b"I")].concat()).unwrap();
        let length = socket.read(&mut heard).unwrap();
        socket.write_all(&answer).unwrap();
        // A kind and a length come before the text, a zero behind it.
        String::from_utf8(heard[5..length - 1].to_vec()).unwrap()
    });
    (PrimaryAddress::parse(&format!("host=127.0.0.1,port={port},user=coeval")).unwrap(), thread)
}

/// Fails without a thread that speaks: whoever takes long with what came would be taken for gone.
#[test]
fn who_is_busy_is_heard_of_and_says_nothing_new() {
    let (address, primary) = primary_that_says(&[""]);
    let mut link = Link::open(&address).unwrap();
    link.row("TERM_HISTORY").unwrap();
    let wire = Wire::new(link);
    wire.send_status([3, 2, 1].map(Lsn::new), Answer::Unneeded).unwrap();
    wire.while_heard(|| std::thread::sleep(SILENCE * 6));
    drop(wire);
    let heard = primary.join().unwrap();
    let places = [3u64, 2, 1].map(u64::to_be_bytes).concat();
    // A message, within it that of replication: the places, a time, and whether an answer is wanted.
    let statuses: Vec<_> = heard.chunks(5 + 1 + 24 + 8 + 1).collect();
    assert!(statuses.len() > 2, "{heard:?}");
    assert!(
        statuses.iter().all(|status| status[..6] == *b"d\0\0\0\x26r" && status[6..30] == places),
        "{heard:?}"
    );
}

#[test]
fn a_primary_says_its_terms_unless_its_program_is_older() {
    let asked = |(address, primary): (PrimaryAddress, JoinHandle<Vec<u8>>)| {
        let found = Link::open(&address).unwrap().term_history();
        primary.join().unwrap();
        found
    };
    let terms = TermHistory::of(&[(1, 11, 0), (2, 12, 26)].map(Term::from));
    assert_eq!(asked(primary_that_says(&[&terms.to_line()])).unwrap(), Some(terms));
    let malformed = asked(primary_that_says(&["2:000c:0/1A 1:000b:0/0"]));
    assert!(matches!(malformed, Err(ReplicaError::Protocol(_))), "{malformed:?}");
    let unknown = message(b'E', b"SERROR\0C42601\0M\"TERM_HISTORY\" is no command of replication\0\0");
    assert_eq!(asked(primary_that_answers(unknown)).unwrap(), None);
}

/// As in PostgreSQL: the last byte of a status, behind three places and a time.
#[test]
fn a_status_says_whether_an_answer_is_wanted() {
    for (answer, last) in [(Answer::Unneeded, 0), (Answer::Wanted, 1)] {
        let (address, primary) = primary_that_says(&["1:000b:0/0"]);
        let mut link = Link::open(&address).unwrap();
        link.row("TERM_HISTORY").unwrap();
        link.send_status([Lsn::new(3), Lsn::new(2), Lsn::new(1)], answer).unwrap();
        drop(link);
        let heard = primary.join().unwrap();
        assert_eq!((heard.len(), heard[5], heard[13], heard.last()), (39, b'r', 3, Some(&last)), "{heard:?}");
    }
}

#[test]
fn nothing_is_taken_from_a_program_that_writes_a_newer_format() {
    let identity = |format| ["7", "1", "0/100", "", "0000000000000001", "1", "1", "primary", format];
    let newer = (FORMAT_VERSION + 1).to_string();
    let (address, primary) = primary_that_says(&identity(&newer));
    let dir = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let error = copy_database(&address, &dir.path().join("copy"), &stop, &mut |_| {}).unwrap_err();
    assert!(
        matches!(error, ReplicaError::NewerFormat { found, supported } if found == supported + 1),
        "{error}"
    );
    assert!(!error.is_final(), "the primary may be another one when it is asked again");
    assert_eq!(primary.join().unwrap(), b"", "nothing more is asked for");

    // An older one, or one that does not say, is followed.
    for format in ["1", ""] {
        let (address, primary) = primary_that_says(&identity(format));
        let found = Link::open(&address).unwrap().identify_source().unwrap();
        assert_eq!((found.database, found.role), (7, Role::Primary));
        primary.join().unwrap();
    }
}

/// Fails, after ten minutes, if it is not looked whether the copy is still wanted: a feed that was told to stop copied to the end, or waited for
/// a server that stood still.
#[test]
fn a_copy_that_is_not_wanted_any_more_is_given_up() {
    let identity = ["7", "1", "0/100", "", "0000000000000001", "1", "1", "primary", "1"];
    let (address, primary) = primary_that_says(&identity);
    let dir = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let given_up = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            stop.store(true, Ordering::Relaxed);
        });
        copy_database(&address, &dir.path().join("copy"), &stop, &mut |_| {})
    });
    assert!(matches!(given_up, Err(ReplicaError::Stopped)), "{given_up:?}");
    primary.join().unwrap();
}

/// Of a program that does not say whose its timeline is, the terms of its log do.
#[test]
fn a_timeline_is_its_candidates_whoever_says_so() {
    let second = Term::from(((1 << 32) + 1, 0xab, 80));
    let number = second.number.to_string();
    let identity = ["7", "2", "0/100", "", "00ab", &number, "2", "primary", "7", "00bb"];
    let (address, primary) = primary_that_says(&identity);
    let found = Link::open(&address).unwrap().identify().unwrap();
    let timeline = Timeline::new(2).of_candidate(0xbb);
    assert_eq!(
        (found.timeline, found.standing.timeline, found.promised),
        (timeline, timeline, Timeline::new(2))
    );
    assert_eq!(found.compares, Compares::Candidates);
    primary.join().unwrap();

    let terms = TermHistory::of(&[Term::from((1, 11, 0)), second]).to_line();
    let done = message(b'C', b"\0");
    let answers = [row(&identity[..9]), done.clone(), message(b'Z', b"I"), row(&[&terms]), done];
    let (address, primary) = primary_that_answers(answers.concat());
    let found = Link::open(&address).unwrap().identify().unwrap();
    assert_eq!(found.timeline, Timeline::new(2).of_candidate(0xab));
    assert_eq!(found.compares, Compares::Numbers);
    primary.join().unwrap();
}

/// Fails without the sign: whoever is asked takes the candidate for one of an older program then, and promises a number alone, or nothing.
#[test]
fn who_asks_for_a_promise_says_that_it_tells_candidates_apart() {
    let (address, commands) = primary_that_tells_its_command(&["1", "0/100", "0000000000000000"]);
    let promise = Promise::of(Timeline::new(3), 0xbb);
    let standing = Link::open(&address).unwrap().ask_for(promise).unwrap();
    assert_eq!(standing, LogStanding::new(1, 0, Lsn::new(0x100)));
    let heard = commands.join().unwrap();
    assert_eq!(heard, "PROMISE_TIMELINE 3 '+00000000000000bb'");
    // As a program reads it that does not know of the sign.
    assert_eq!(u64::from_str_radix("+00000000000000bb", 16), Ok(promise.candidate));
}

/// Fails if it is taken for a primary: a former primary was put aside for it, and a replica tried to follow it in the place of the right one.
#[test]
fn nothing_is_taken_from_one_that_is_served_with_salvage() {
    let identity = ["7", "1", "0/0", "", "000000000000000b", "1", "1", "salvaged", "8", "0000000000000000"];
    let (address, served) = primary_that_says(&identity);
    let refused = Link::open(&address).unwrap().identify_source().unwrap_err();
    assert!(matches!(refused, ReplicaError::Salvaged(_)) && !refused.is_final(), "{refused}");
    served.join().unwrap();
    let terms = TermHistory::of(&[Term::from((1, 7, 0)), Term::from((2, 12, 100))]);
    let (end, checkpoint, promised) = (Lsn::new(300), Lsn::new(50), Timeline::FIRST);
    let former = FormerPrimary { terms, end, checkpoint, promised };
    let (address, served) = primary_that_says(&identity);
    let kinship = crate::rejoining::kinship(&address, &former);
    assert!(matches!(kinship, Err(ReplicaError::Salvaged(_))), "{kinship:?}");
    served.join().unwrap();
}

/// It was told "the histories part" by who only lacked the end, and "term ... is not part of this history" by who lacked a term.
#[test]
fn a_replica_that_has_less_is_behind_and_another_history_is_not() {
    let terms = [(1, 11, 0), (2, 12, 100), (3, 13, 250)].map(Term::from);
    let own = TermHistory::of(&terms);
    let address = PrimaryAddress::parse("host=db1,user=coeval").unwrap();
    let found = |role, term_id, durable| {
        let standing = LogStanding::new(1, 0, Lsn::new(durable));
        let (timeline, promised) = (Timeline::FIRST, Timeline::FIRST);
        let (database, format, compares) = (11, 0, Compares::Candidates);
        let identity = Identity { database, standing, term_id, timeline, promised, role, format, compares };
        match identity.check_not_behind(&own, Lsn::new(300), &address) {
            Ok(()) => false,
            Err(error) => {
                assert!(matches!(error, ReplicaError::ReplicaBehind { .. }) && !error.is_final(), "{error}");
                true
            }
        }
    };
    for (term, durable) in [(None, 0), (Some(11), 50), (Some(12), 250), (Some(13), 299)] {
        assert!(found(Role::Replica, term, durable), "{term:?} {durable}");
        // Who writes the log gets nothing more of it from anybody.
        assert!(!found(Role::Primary, term, durable) && !found(Role::Superseded, term, durable));
    }
    for (term, durable) in [(Some(13), 300), (Some(14), 310), (Some(12), 251), (Some(99), 50)] {
        assert!(!found(Role::Replica, term, durable), "{term:?} {durable}");
    }
}
