// SPDX-License-Identifier: Apache-2.0
//! Connections that have come and are nobody's yet: how many there may be, in all and of one address.
//!
//! Whoever comes is let in. When there are too many, the one that has waited for longest of the address that has most
//! has to go: an address that only opens connections pushes out its own, and others always find the door open.
//!
//! ```text
//! enter --the client proves who it is--> settled (no place any more)
//!       --its time is over, it goes----> left
//!       --too many of its address------> pushed out
//! ```

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tokio::sync::Notify;

/// Bits of an IPv6 address that say whose it is; a client chooses the others.
const IPV6_NETWORK_MASK: u128 = !0 << 64;

/// Whose connections are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Peer(IpAddr);

impl Peer {
    pub(crate) fn of(address: SocketAddr) -> Self {
        Self(match address.ip().to_canonical() {
            IpAddr::V6(ip) if !ip.is_loopback() => {
                IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & IPV6_NETWORK_MASK))
            }
            other => other,
        })
    }
}

/// How many connections there may be that are nobody's yet.
#[derive(Clone, Copy, Debug)]
pub struct DoorwayLimits {
    /// In all.
    pub all: usize,
    /// Of one address; of IPv6 of one network, whose addresses a client chooses.
    pub each_peer: usize,
}

/// The places of connections that are nobody's yet. Whoever comes gets one; when there are too many, the one that has waited for
/// longest of the address that has most has to go.
///
/// # Locking
/// `waiting` is a leaf, held for a step in its maps.
#[derive(Debug)]
pub struct Doorway {
    limits: DoorwayLimits,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    last_number: u64,
    count: usize,
    /// Those of each peer by number, which is the order in which they came.
    by_peer: HashMap<Peer, BTreeMap<u64, Arc<Notify>>>,
    /// How many each peer has: the one that has most is the last.
    by_count: BTreeSet<(usize, Peer)>,
}

impl Waiting {
    fn add(&mut self, peer: Peer, pushed_out: Arc<Notify>) -> u64 {
        self.last_number += 1;
        let theirs = self.by_peer.entry(peer).or_default();
        self.by_count.remove(&(theirs.len(), peer));
        theirs.insert(self.last_number, pushed_out);
        self.by_count.insert((theirs.len(), peer));
        self.count += 1;
        self.last_number
    }

    fn remove(&mut self, peer: Peer, number: u64) -> Option<Arc<Notify>> {
        let theirs = self.by_peer.get_mut(&peer)?;
        let before = theirs.len();
        let removed = theirs.remove(&number)?;
        self.by_count.remove(&(before, peer));
        if theirs.is_empty() {
            self.by_peer.remove(&peer);
        } else {
            self.by_count.insert((before - 1, peer));
        }
        self.count -= 1;
        Some(removed)
    }

    /// Pushes out the oldest of a peer.
    fn push_out(&mut self, peer: Peer) {
        let oldest = self.by_peer.get(&peer).and_then(|theirs| theirs.keys().next().copied());
        if let Some(pushed_out) = oldest.and_then(|oldest| self.remove(peer, oldest)) {
            pushed_out.notify_one();
        }
    }

    fn greediest(&self) -> Option<Peer> {
        self.by_count.last().map(|(_, peer)| *peer)
    }
}

impl Doorway {
    /// A doorway without anybody in it.
    ///
    /// # Panics
    /// If a limit is zero.
    #[must_use]
    pub fn new(limits: DoorwayLimits) -> Arc<Self> {
        assert!(limits.all > 0 && limits.each_peer > 0, "somebody can come in");
        Arc::new(Self { limits, waiting: Mutex::default() })
    }

    /// Gives a connection from this address a place, and pushes out another one if there are too many.
    pub fn enter(self: &Arc<Self>, address: SocketAddr) -> Place {
        let (peer, pushed_out) = (Peer::of(address), Arc::new(Notify::new()));
        let mut waiting = self.waiting.lock();
        let theirs = waiting.by_peer.get(&peer).map_or(0, BTreeMap::len);
        if theirs >= self.limits.each_peer {
            waiting.push_out(peer);
        } else if waiting.count >= self.limits.all
            && let Some(greediest) = waiting.greediest()
        {
            waiting.push_out(greediest);
        }
        let number = waiting.add(peer, Arc::clone(&pushed_out));
        drop(waiting);
        Place { doorway: Arc::clone(self), peer, number, pushed_out }
    }

    /// Pushes out the oldest connection of the peer that has most: the system has no room for another.
    pub fn make_room(&self) {
        let mut waiting = self.waiting.lock();
        if let Some(greediest) = waiting.greediest() {
            waiting.push_out(greediest);
        }
    }

    /// How many connections have a place.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.waiting.lock().count
    }
}

/// A connection's place; dropping it gives it back.
#[derive(Debug)]
pub struct Place {
    doorway: Arc<Doorway>,
    peer: Peer,
    number: u64,
    pushed_out: Arc<Notify>,
}

impl Place {
    /// Ready once the connection has to go.
    pub async fn pushed_out(&self) {
        self.pushed_out.notified().await;
    }

    /// Who has it.
    pub(crate) fn peer(&self) -> Peer {
        self.peer
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Whoever was pushed out has none any more.
        let _ = self.doorway.waiting.lock().remove(self.peer, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn address(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 1)
    }

    fn is_pushed_out(place: &Place) -> bool {
        pin!(place.pushed_out()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn an_address_that_has_too_many_loses_its_oldest_and_others_lose_none() {
        let doorway = Doorway::new(DoorwayLimits { all: 5, each_peer: 3 });
        let other = doorway.enter(address("10.0.0.2"));
        let greedy: Vec<Place> = (0..4).map(|_| doorway.enter(address("10.0.0.1"))).collect();
        let gone: Vec<bool> = greedy.iter().map(is_pushed_out).collect();
        assert_eq!((gone, is_pushed_out(&other)), (vec![true, false, false, false], false));
        // Nobody has too many, but all together do: who has most makes room.
        let third = doorway.enter(address("10.0.0.3"));
        let fourth = doorway.enter(address("10.0.0.4"));
        assert!(is_pushed_out(&greedy[1]) && !is_pushed_out(&greedy[2]));
        assert!(![&other, &third, &fourth].into_iter().any(is_pushed_out));
        assert_eq!(doorway.count(), 5);
        drop((other, greedy, third, fourth));
        assert_eq!(doorway.count(), 0);
        assert!(doorway.waiting.lock().by_peer.is_empty() && doorway.waiting.lock().by_count.is_empty());
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one_client() {
        let peer = |text: &str| Peer::of(address(text));
        assert_eq!(peer("2001:db8:1:2::1"), peer("2001:db8:1:2:ffff::2"));
        assert_ne!(peer("2001:db8:1:2::1"), peer("2001:db8:1:3::1"));
        assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
        assert_ne!(peer("10.0.0.1"), peer("10.0.0.2"));
    }

    #[test]
    fn room_is_made_even_when_there_is_some() {
        let doorway = Doorway::new(DoorwayLimits { all: 5, each_peer: 3 });
        doorway.make_room();
        let place = doorway.enter(address("10.0.0.1"));
        doorway.make_room();
        assert!(is_pushed_out(&place));
        assert_eq!(doorway.count(), 0);
    }
}
