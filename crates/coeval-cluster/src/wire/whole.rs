// SPDX-License-Identifier: Apache-2.0
//! A record that stands for many.

use super::joining::{get_start, put_start};
use super::succession::{get_recoveries, put_recoveries};
use super::views::{get_lives, get_nodes, put_lives, put_nodes};
use super::writer::{put_len, put_list};
use super::{Malformed, Reader, Wire};
use coeval_txn::Epoch;
use coeval_txn::cluster::{
    CommittedEpoch, Incarnation, KeeperPlace, KnownNode, NodeId, ViewNumber, WholeView,
};
use std::collections::BTreeMap;
use std::sync::Arc;

type Known = BTreeMap<NodeId, KnownNode>;
type Closed = BTreeMap<NodeId, (Incarnation, Epoch)>;

fn put_known(out: &mut Vec<u8>, known: &Known) {
    put_len(out, known.len());
    for (node, KnownNode { address, start }) in known {
        node.put(out);
        address.put(out);
        put_start(out, *start);
    }
}

fn put_closed(out: &mut Vec<u8>, closed: &Closed) {
    put_len(out, closed.len());
    for (node, (life, below)) in closed {
        node.put(out);
        life.put(out);
        below.put(out);
    }
}

/// Values by keys, which ascend.
fn get_map<K: Wire + Ord, V>(
    from: &mut Reader,
    value: impl Fn(&mut Reader) -> Result<V, Malformed>,
) -> Result<BTreeMap<K, V>, Malformed> {
    let mut map = BTreeMap::new();
    for _ in 0..from.len()? {
        let key = K::take(from)?;
        if map.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return Err(Malformed::Contradiction("what is listed ascends"));
        }
        let value = value(from)?;
        map.insert(key, value);
    }
    Ok(map)
}

fn get_known_node(from: &mut Reader) -> Result<KnownNode, Malformed> {
    let address = <Arc<str>>::take(from)?;
    Ok(KnownNode { address, start: get_start(from)? })
}

fn get_closed_lives(from: &mut Reader) -> Result<(Incarnation, Epoch), Malformed> {
    Ok((Incarnation::take(from)?, Epoch::take(from)?))
}

fn get_committed(from: &mut Reader, latest: Epoch) -> Result<BTreeMap<Epoch, CommittedEpoch>, Malformed> {
    let committed: Vec<CommittedEpoch> = from.list()?;
    let mut last = latest;
    for decided in &committed {
        if decided.epoch <= last {
            return Err(Malformed::Contradiction("what is committed ascends, above LCE"));
        }
        last = decided.epoch;
    }
    Ok(committed.into_iter().map(|decided| (decided.epoch, decided)).collect())
}

impl Wire for WholeView {
    fn put(&self, out: &mut Vec<u8>) {
        self.layout.put(out);
        for lives in [&self.members, &self.placed, &self.unclosed, &self.newest] {
            put_lives(out, lives);
        }
        put_known(out, &self.known);
        for nodes in [&self.drained, &self.removed, &self.given_up] {
            put_nodes(out, nodes);
        }
        match &self.keeper {
            None => out.push(0),
            Some(keeper) => {
                out.push(1);
                keeper.put(out);
            }
        }
        put_recoveries(out, &self.recoveries);
        put_closed(out, &self.closed);
        self.latest.put(out);
        put_list(out, &self.committed.values().cloned().collect::<Vec<_>>());
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let layout = ViewNumber::take(from)?;
        let (members, placed) = (get_lives(from)?, get_lives(from)?);
        let (unclosed, newest) = (get_lives(from)?, get_lives(from)?);
        let known = get_map(from, get_known_node)?;
        let (drained, removed, given_up) = (get_nodes(from)?, get_nodes(from)?, get_nodes(from)?);
        let keeper = match from.byte()? {
            0 => None,
            1 => Some(KeeperPlace::take(from)?),
            kind => return Err(Malformed::Kind { what: "keeper", kind }),
        };
        let recoveries = get_recoveries(from)?;
        let closed = get_map(from, get_closed_lives)?;
        let latest = Epoch::take(from)?;
        let committed = get_committed(from, latest)?;
        Ok(Self {
            layout,
            members,
            placed,
            unclosed,
            newest,
            known,
            drained,
            removed,
            given_up,
            keeper,
            recoveries,
            closed,
            latest,
            committed,
        })
    }
}
