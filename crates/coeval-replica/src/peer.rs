// SPDX-License-Identifier: Apache-2.0
//! Other machines that have the database: who is asked for promises, and who might be the primary.

use crate::address::{PrimaryAddress, without_password};
use crate::error::ReplicaError;
use crate::link::{Identity, Link};
use coeval_store::{LogStanding, Promise};
use std::thread;
use std::time::Duration;

/// How long to wait for each answer of a peer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Another machine that has the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// What it is called where replicas are listed.
    pub name: String,
    /// Where it is, and as whom to go there.
    pub address: PrimaryAddress,
}

impl Peer {
    /// Reads `name=... host=...` and what else [`PrimaryAddress::parse`] reads, with spaces or commas between. `own` is what
    /// the peer is to show of this machine.
    ///
    /// # Errors
    /// [`ReplicaError::Address`].
    pub fn parse(text: &str, own: &str) -> Result<Self, ReplicaError> {
        let words = text.split([' ', ',', '\t', '\n']).filter(|word| !word.is_empty());
        let (names, others): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with("name="));
        let [name] = names.as_slice() else {
            let what = "name=... says what it is called where replicas are listed, once".to_owned();
            return Err(ReplicaError::Address { text: without_password(text), what });
        };
        let mut address = PrimaryAddress::parse(&others.join(","))?;
        if !own.is_empty() {
            own.clone_into(&mut address.application_name);
        }
        Ok(Self { name: name.trim_start_matches("name=").to_owned(), address })
    }

    /// What it says of itself.
    pub(crate) fn identify(&self) -> Result<Identity, ReplicaError> {
        let mut link = Link::open_within(&self.address, PATIENCE)?;
        let found = link.identify();
        link.say_goodbye();
        found
    }

    /// Asks it for a promise.
    pub(crate) fn ask_for(&self, promise: Promise) -> Result<LogStanding, ReplicaError> {
        let mut link = Link::open_within(&self.address, PATIENCE)?;
        let answer = link.ask_for(promise);
        link.say_goodbye();
        answer
    }
}

/// Asks all of them at once. The answers are in their order.
pub(crate) fn ask_all<T: Send>(peers: &[Peer], ask: impl Fn(&Peer) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let asked: Vec<_> = peers.iter().map(|peer| scope.spawn(|| ask(peer))).collect();
        let answer = |asked: thread::ScopedJoinHandle<'_, T>| {
            asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        asked.into_iter().map(answer).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_a_name_and_an_address() {
        let peer = Peer::parse("name=south,host=db2,user=copy,password=secret", "north").unwrap();
        assert_eq!((peer.name.as_str(), peer.address.host.as_str()), ("south", "db2"));
        assert_eq!(peer.address.application_name, "north");
        for wrong in ["host=db2,user=copy", "name=a,name=b,host=c,user=d", "name=a,host=b,password=secret"] {
            let message = Peer::parse(wrong, "north").unwrap_err().to_string();
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
