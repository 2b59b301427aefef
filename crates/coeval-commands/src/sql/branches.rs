// SPDX-License-Identifier: Apache-2.0
//! `\if`, `\elif`, `\else` and `\endif`: which statements of a text are run.

/// A command that begins or ends a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turning {
    If,
    Elif,
    Else,
    Endif,
}

impl Turning {
    /// The one that a command is; `None` for other commands.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "\\if" => Some(Self::If),
            "\\elif" => Some(Self::Elif),
            "\\else" => Some(Self::Else),
            "\\endif" => Some(Self::Endif),
            _ => None,
        }
    }
}

/// What has become of the condition of an `\if` or `\elif`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Holds,
    Fails,
}

impl From<bool> for Condition {
    fn from(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Fails }
    }
}

/// The branch of an `\if` that a text is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Branch {
    /// It is run.
    Run,
    /// It is not, and neither was one before.
    Awaited,
    /// It is not, as one before was, or what is around it is not run.
    Passed,
    /// The last one, and it is run.
    ElseRun,
    /// The last one, and it is not run.
    ElsePassed,
}

/// The branches that a text is in, from the outermost on.
#[derive(Debug, Default)]
pub(super) struct Branches {
    within: Vec<Branch>,
}

impl Branches {
    /// Whether statements are run here. What is around a branch that is run is run, too.
    pub(super) fn is_run(&self) -> bool {
        self.within.last().is_none_or(|branch| matches!(branch, Branch::Run | Branch::ElseRun))
    }

    /// Whether some `\if` has no `\endif` yet.
    pub(super) fn is_open(&self) -> bool {
        !self.within.is_empty()
    }

    /// Leaves the innermost `\if`.
    pub(super) fn leave(&mut self) {
        self.within.pop();
    }

    /// Whether the condition of `\if` or `\elif` makes a difference here: if not, it is not looked at.
    pub(super) fn asks(&self, turning: Turning) -> bool {
        match turning {
            Turning::If => self.is_run(),
            Turning::Elif => self.within.last() == Some(&Branch::Awaited),
            Turning::Else | Turning::Endif => false,
        }
    }

    /// Turns into another branch. The condition counts where it [makes a difference](Self::asks).
    ///
    /// # Errors
    /// If there is no `\if` for it.
    pub(super) fn turn(&mut self, turning: Turning, condition: Condition) -> Result<(), String> {
        let begun = match condition {
            Condition::Holds => Branch::Run,
            Condition::Fails => Branch::Awaited,
        };
        if turning == Turning::If {
            self.within.push(if self.is_run() { begun } else { Branch::Passed });
            return Ok(());
        }
        let branch = self.within.last_mut();
        match (turning, branch) {
            (Turning::If, _) => {}
            (Turning::Elif, None) => return Err("\\elif: no matching \\if".to_owned()),
            (Turning::Else, None) => return Err("\\else: no matching \\if".to_owned()),
            (Turning::Endif, None) => return Err("\\endif: no matching \\if".to_owned()),
            (Turning::Elif, Some(Branch::ElseRun | Branch::ElsePassed)) => {
                return Err("\\elif: cannot occur after \\else".to_owned());
            }
            (Turning::Else, Some(Branch::ElseRun | Branch::ElsePassed)) => {
                return Err("\\else: cannot occur after \\else".to_owned());
            }
            (Turning::Elif, Some(branch)) => {
                *branch = if *branch == Branch::Awaited { begun } else { Branch::Passed };
            }
            (Turning::Else, Some(branch)) => {
                *branch = if *branch == Branch::Awaited { Branch::ElseRun } else { Branch::ElsePassed };
            }
            (Turning::Endif, Some(_)) => self.leave(),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_branch_whose_condition_holds_is_run() {
        for (conditions, run) in [([true, true], 0), ([false, true], 1), ([false, false], 2)] {
            let mut branches = Branches::default();
            let mut seen = Vec::new();
            branches.turn(Turning::If, conditions[0].into()).unwrap();
            seen.push(branches.is_run());
            branches.turn(Turning::Elif, conditions[1].into()).unwrap();
            seen.push(branches.is_run());
            branches.turn(Turning::Else, Condition::Fails).unwrap();
            seen.push(branches.is_run());
            branches.turn(Turning::Endif, Condition::Fails).unwrap();
            assert!(branches.is_run() && !branches.is_open());
            assert_eq!(seen.iter().position(|is_run| *is_run), Some(run));
            assert_eq!(seen.iter().filter(|is_run| **is_run).count(), 1);
        }
    }

    #[test]
    fn nothing_is_run_or_asked_within_what_is_not_run() {
        let mut branches = Branches::default();
        branches.turn(Turning::If, Condition::Fails).unwrap();
        assert!(!branches.asks(Turning::If) && branches.asks(Turning::Elif));
        branches.turn(Turning::If, Condition::Holds).unwrap();
        assert!(!branches.is_run() && !branches.asks(Turning::Elif));
        branches.turn(Turning::Else, Condition::Fails).unwrap();
        assert!(!branches.is_run());
        branches.turn(Turning::Endif, Condition::Fails).unwrap();
        branches.turn(Turning::Else, Condition::Fails).unwrap();
        assert!(branches.is_run());
        assert!(
            branches.turn(Turning::Else, Condition::Fails).is_err()
                && branches.turn(Turning::Elif, Condition::Holds).is_err()
        );
    }

    #[test]
    fn what_belongs_to_no_if_is_refused() {
        let mut branches = Branches::default();
        for turning in [Turning::Elif, Turning::Else, Turning::Endif] {
            assert!(
                branches
                    .turn(turning, Condition::Holds)
                    .is_err_and(|said| said.ends_with("no matching \\if"))
            );
        }
    }
}
