// SPDX-License-Identifier: Apache-2.0
//! How often a statement outside a block is run: again by itself while nobody was told anything of it.

use super::block::BlockOptions;
use crate::error::SqlError;

/// How often it is run before its conflict is reported.
const ATTEMPTS_MAX: usize = 100;

/// How often it is run again because a node of a cluster has gone with a part of its answer. Those that are asked next are others; what
/// fails again and again so mostly fails by itself.
const LOST_NODES_MAX: usize = 2;

/// Those of one statement that have failed.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    lost: usize,
    lost_nodes: usize,
}

impl Attempts {
    /// Whether somebody else's transaction was in its way: the next attempt begins on what that has left.
    pub(super) fn have_lost(&self) -> bool {
        self.lost > 0
    }

    /// Whether a statement of these options is run again after this error, which is noted then.
    pub(super) fn go_on(&mut self, options: BlockOptions, error: &SqlError) -> bool {
        if error.has_lost_node() {
            self.lost_nodes += 1;
            return self.lost_nodes <= LOST_NODES_MAX;
        }
        self.lost += 1;
        options.may_run_again(error) && self.lost < ATTEMPTS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::SqlState;
    use crate::settings::Settings;

    #[test]
    fn a_statement_runs_again_for_few_lost_nodes_and_for_many_conflicts() {
        let options = BlockOptions::of(&Settings::default()).unwrap();
        let conflict = SqlError::new(SqlState::SerializationFailure, "lost");
        let lost_node = SqlError::new(SqlState::CannotConnectNow, "gone").of_lost_node();
        let away = SqlError::new(SqlState::CannotConnectNow, "nobody answers");

        let mut attempts = Attempts::default();
        assert!(attempts.go_on(options, &lost_node) && attempts.go_on(options, &lost_node));
        assert!(!attempts.have_lost(), "it begins as if it was new");
        assert!(attempts.go_on(options, &conflict) && attempts.have_lost());
        assert!(!attempts.go_on(options, &lost_node));

        let mut attempts = Attempts::default();
        assert_eq!((0..200).take_while(|_| attempts.go_on(options, &conflict)).count(), ATTEMPTS_MAX - 1);
        assert!(!Attempts::default().go_on(options, &away), "it has waited for that already");
    }
}
