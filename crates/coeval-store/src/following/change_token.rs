// SPDX-License-Identifier: Apache-2.0
//! Tokens of a feed of changes: a short text that stands for a place between two transactions.
//!
//! ```text
//! 3-8f21c5d09a7b4e16-1a2b3c-2f0[-2]
//! |  |                |      |    |
//! |  |                |      |    behind so many transactions of the batch with that version; behind all of it if not given
//! |  |                |      behind the batch of this version
//! |  |                the log has that up to here
//! |  the id of the term in which it was given
//! the number of the term
//! ```
//! Without the last part it is the token of a snapshot, as `coeval_snapshot_token()` gives it: the feed goes on behind what the
//! snapshot has.

use crate::log::Lsn;
use coeval_txn::Version;
use std::fmt;
use std::str::FromStr;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeToken {
    /// The number of the term.
    pub number: u64,
    /// The id of the term.
    pub term: u64,
    /// The log has what it stands for up to here.
    pub end: Lsn,
    /// It stands behind the batch of this version.
    pub version: Version,
    /// Or behind so many transactions of it, at least one and not all.
    pub transactions: Option<u32>,
}

/// The text is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no token of a feed or of a snapshot, as coeval feed and coeval_snapshot_token() give them"
)]
pub struct MalformedToken(String);

impl ChangeToken {
    /// The newest version whose world has nothing of what lies behind the token.
    #[must_use]
    pub fn world_before(&self) -> Version {
        self.place().world_before()
    }

    /// How tokens of one history are ordered.
    pub(super) fn place(&self) -> FeedPlace {
        FeedPlace { version: self.version, transactions: self.transactions.unwrap_or(WHOLE) }
    }
}

impl FromStr for ChangeToken {
    type Err = MalformedToken;

    fn from_str(text: &str) -> Result<Self, MalformedToken> {
        let malformed = || MalformedToken(text.to_owned());
        let parts: Option<Vec<u64>> =
            text.trim().split('-').map(|part| u64::from_str_radix(part, 16).ok()).collect();
        let parts = parts.ok_or_else(malformed)?;
        let (head, transactions) = match parts.as_slice() {
            [number, term, end, version] => ([*number, *term, *end, *version], None),
            [number, term, end, version, count] => {
                let count = u32::try_from(*count).ok().filter(|count| (1..WHOLE).contains(count));
                ([*number, *term, *end, *version], Some(count.ok_or_else(malformed)?))
            }
            _ => return Err(malformed()),
        };
        let [number, term, end, version] = head;
        Ok(Self { number, term, end: Lsn::new(end), version: Version::new(version), transactions })
    }
}

impl fmt::Display for ChangeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, term, end, version, transactions } = self;
        write!(f, "{number:x}-{term:016x}-{:x}-{:x}", end.get(), version.get())?;
        match transactions {
            Some(count) => write!(f, "-{count:x}"),
            None => Ok(()),
        }
    }
}

/// Behind all transactions of a batch.
const WHOLE: u32 = u32::MAX;

/// A place between transactions of one history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FeedPlace {
    version: Version,
    /// Behind so many of the version's batch.
    transactions: u32,
}

impl FeedPlace {
    /// Behind a batch.
    pub(super) fn behind(version: Version) -> Self {
        Self { version, transactions: WHOLE }
    }

    /// Behind the transaction at this position of a batch of `count`, and the same as in a token.
    pub(super) fn behind_one(version: Version, position: u32, count: u32) -> (Self, Option<u32>) {
        let behind = position + 1;
        if behind < count {
            (Self { version, transactions: behind }, Some(behind))
        } else {
            (Self::behind(version), None)
        }
    }

    /// The newest version whose world has nothing behind the place.
    pub(super) fn world_before(self) -> Version {
        if self.transactions == WHOLE {
            self.version
        } else {
            Version::new(self.version.get().saturating_sub(1))
        }
    }

    pub(super) fn version(self) -> Version {
        self.version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let whole = ChangeToken {
            number: 3,
            term: 0x8f21_c5d0_9a7b_4e16,
            end: Lsn::new(0x1a_2b3c),
            version: Version::new(752),
            transactions: None,
        };
        let part = ChangeToken { transactions: Some(18), ..whole };
        assert_eq!(whole.to_string(), "3-8f21c5d09a7b4e16-1a2b3c-2f0");
        assert_eq!(part.to_string(), "3-8f21c5d09a7b4e16-1a2b3c-2f0-12");
        for token in [whole, part] {
            assert_eq!(token.to_string().parse(), Ok(token));
        }
        let wrong =
            ["", "3", "3-8-1", "3-8-1-x", "3-8-1-2-0", "3-8-1-2-ffffffff", "3-8-1-2-3-4", "-1-2-3-4", "now"];
        for wrong in wrong {
            assert!(wrong.parse::<ChangeToken>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn places_are_ordered_as_transactions_are() {
        let version = Version::new;
        let (first, count) = FeedPlace::behind_one(version(7), 0, 3);
        let (second, _) = FeedPlace::behind_one(version(7), 1, 3);
        let (last, none) = FeedPlace::behind_one(version(7), 2, 3);
        assert_eq!((count, none, last), (Some(1), None, FeedPlace::behind(version(7))));
        assert!(FeedPlace::behind(version(6)) < first && first < second && second < last);
        assert_eq!((first.world_before(), last.world_before()), (version(6), version(7)));
    }
}
