// SPDX-License-Identifier: Apache-2.0
//! Numbers that name things for ever: tables, indexes, sequences, views.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(u32);

        impl $name {
            /// The id with this number.
            #[must_use]
            pub const fn new(number: u32) -> Self {
                Self(number)
            }

            /// The number itself, for the log and the files.
            #[must_use]
            pub const fn get(self) -> u32 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id! {
    /// A table or an index: anything that holds keys. Never used twice in one database, so a key space in
    /// a write set or in the log always means the same thing.
    SpaceId
}
id! {
    /// A sequence.
    SequenceId
}

/// The key space that holds the definitions of all catalog objects: its keys are what DDL certifies on.
pub const CATALOG_SPACE: SpaceId = SpaceId::new(0);
