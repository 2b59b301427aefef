// SPDX-License-Identifier: Apache-2.0
//! Whether the `regex` crate finds the same match of a pattern as PostgreSQL.
//!
//! It takes the first alternative that fits, and PostgreSQL the longest text, or the shortest. That is the same in two cases:
//!
//! - Nothing prefers the shortest, and each letter of a text can be taken in one way only, as in `\d+-(\d+)`: then all matches that begin
//!   at a place begin with the same steps, and going on comes before ending. (In the words of the field: the automaton of Glushkov is
//!   deterministic.)
//! - One set of letters is repeated, and all else has one length, as in `"(.*?)"`: then a match has the length that the repetition has,
//!   and the crate tries these in the order that PostgreSQL prefers.
//!
//! PostgreSQL divides a branch at its groups: first what precedes the first one is as long as it can be with what follows, then the
//! group, and so on. So does the crate where each of these parts by itself is one of the two cases. Then both find the same if every
//! match ends with the text, as those of `^(?:www\.)?([^/]+)/.*$` do.
//!
//! Where it is not known to be so, as in `a|ab` and `(.*)x+`, the [search](super::search) of this module finds the match.

use super::letters::LetterSet;
use super::pattern::Options;
use super::syntax::{Atom, Choice, Letters, Piece, Place, Prefers, Syntax, Times};

/// The most letters of a pattern, copies of what is repeated included; with more it is not looked at.
const LETTERS_MAX: usize = 64;

/// The most atoms of it: repeated within each other, what has no letters may have any number of copies.
const ATOMS_MAX: usize = 1 << 10;

/// Whether the crate finds the same matches, with the same groups.
pub(super) fn is_settled(syntax: &Syntax) -> bool {
    let options = syntax.options;
    if takes_one_way(options, |leaves| leaves.of_choice(&syntax.top)) {
        return true;
    }
    let [branch] = syntax.top.branches.as_slice() else { return false };
    if varies_in_one_place(branch) {
        return true;
    }
    let has_groups = |piece: &Piece| piece.atom_traits().has_groups;
    let mut parts = branch.chunk_by(|one, next| !has_groups(one) && !has_groups(next));
    let finds_same =
        |part: &[Piece]| varies_in_one_place(part) || takes_one_way(options, |leaves| leaves.of_branch(part));
    ends_with_text(syntax, branch) && parts.all(finds_same)
}

/// Whether every match that PostgreSQL takes ends where the text does; the pattern has this branch alone.
fn ends_with_text(syntax: &Syntax, branch: &[Piece]) -> bool {
    let options = syntax.options;
    let Some(Piece { atom, times }) = branch.last() else { return false };
    match atom {
        Atom::Place(Place::TextEnd) => true,
        Atom::Place(Place::End) => !options.anchors_at_lines,
        Atom::Letters(Letters::Any) => {
            !options.stops_at_lines
                && times.most.is_none()
                && times.prefers == Some(Prefers::Longest)
                && syntax.top.traits.prefers == Some(Prefers::Longest)
        }
        _ => false,
    }
}

/// Whether at most one set of letters is repeated in a part, and all else has one length.
fn varies_in_one_place(part: &[Piece]) -> bool {
    places_that_vary(part).is_some_and(|places| places <= 1)
}

/// How many sets of letters are repeated as their quantifiers prefer; `None` if something else may have several lengths, or prefer one.
fn places_that_vary(part: &[Piece]) -> Option<usize> {
    part.iter().try_fold(0, |places, piece| {
        let of_piece = match &piece.atom {
            Atom::Letters(_) => usize::from(piece.times.prefers.is_some()),
            Atom::Place(_) => 0,
            Atom::Group { inside, .. } if piece.times == Times::ONCE => match inside.branches.as_slice() {
                [branch] => places_that_vary(branch)?,
                _ => return None,
            },
            _ => return None,
        };
        Some(places + of_piece)
    })
}

/// Whether each letter of a text can be taken in one way only by a part of a pattern.
fn takes_one_way(options: Options, part: impl FnOnce(&mut Leaves) -> Option<Shape>) -> bool {
    let mut leaves = Leaves { options, sets: Vec::new(), next: Vec::new(), atoms: 0 };
    let Some(shape) = part(&mut leaves) else { return false };
    leaves.are_apart(&shape.first) && leaves.next.iter().all(|next| leaves.are_apart(next))
}

/// The letters of a pattern, each place of one by itself.
struct Leaves {
    options: Options,
    sets: Vec<LetterSet>,
    /// Those that may follow each.
    next: Vec<Vec<usize>>,
    /// How many atoms were looked at.
    atoms: usize,
}

/// The letters at the ends of a part.
#[derive(Default)]
struct Shape {
    may_be_empty: bool,
    first: Vec<usize>,
    last: Vec<usize>,
}

impl Shape {
    fn empty() -> Self {
        Self { may_be_empty: true, ..Self::default() }
    }
}

/// `None` of a part: it is not known to be settled.
impl Leaves {
    fn of_choice(&mut self, choice: &Choice) -> Option<Shape> {
        let mut shape = Shape::default();
        for (place, branch) in choice.branches.iter().enumerate() {
            let branch_shape = self.of_branch(branch)?;
            let is_last = place + 1 == choice.branches.len();
            // An empty branch would come before those behind it.
            if branch_shape.may_be_empty && !is_last {
                return None;
            }
            shape.may_be_empty |= branch_shape.may_be_empty;
            shape.first.extend(branch_shape.first);
            shape.last.extend(branch_shape.last);
        }
        Some(shape)
    }

    fn of_branch(&mut self, pieces: &[Piece]) -> Option<Shape> {
        pieces.iter().try_fold(Shape::empty(), |before, piece| {
            let behind = self.of_piece(piece)?;
            Some(self.joined(before, behind))
        })
    }

    fn of_piece(&mut self, piece: &Piece) -> Option<Shape> {
        let Piece { atom, times } = piece;
        let has_groups = piece.atom_traits().has_groups;
        if piece.is_nothing() {
            return (!has_groups).then(Shape::empty);
        }
        if times.prefers == Some(Prefers::Shortest) {
            return None;
        }
        // PostgreSQL forgets what the groups had in the turn before.
        let has_inner_groups = matches!(atom, Atom::Group { inside, .. } if inside.traits.has_groups);
        if has_inner_groups && times.most != Some(1) {
            return None;
        }
        self.of_times(atom, *times)
    }

    fn of_times(&mut self, atom: &Atom, times: Times) -> Option<Shape> {
        let mut shape = Shape::empty();
        for turn in 1..=times.least {
            let mut copy = self.of_atom(atom)?;
            if turn == times.least && times.most.is_none() {
                copy = self.looped(copy)?;
            }
            shape = self.joined(shape, copy);
        }
        let Some(most) = times.most else {
            if times.least > 0 {
                return Some(shape);
            }
            let copy = self.of_atom(atom)?;
            return Some(Shape { may_be_empty: true, ..self.looped(copy)? });
        };
        let mut rest = Shape::empty();
        for _ in times.least..most {
            let copy = self.of_atom(atom)?;
            if copy.may_be_empty {
                return None;
            }
            rest = Shape { may_be_empty: true, ..self.joined(copy, rest) };
        }
        Some(self.joined(shape, rest))
    }

    fn of_atom(&mut self, atom: &Atom) -> Option<Shape> {
        self.atoms += 1;
        if self.atoms > ATOMS_MAX {
            return None;
        }
        match atom {
            Atom::Letters(letters) => self.of_letters(letters),
            Atom::Group { inside, .. } => self.of_choice(inside),
            Atom::Place(_) => Some(Shape::empty()),
            Atom::Back { .. } | Atom::Look(_) => None,
        }
    }

    fn of_letters(&mut self, letters: &Letters) -> Option<Shape> {
        let leaf = self.sets.len();
        if leaf == LETTERS_MAX {
            return None;
        }
        self.sets.push(LetterSet::of(letters, self.options).ok()?);
        self.next.push(Vec::new());
        Some(Shape { may_be_empty: false, first: vec![leaf], last: vec![leaf] })
    }

    /// One behind the other.
    fn joined(&mut self, mut before: Shape, mut behind: Shape) -> Shape {
        for leaf in &before.last {
            self.next[*leaf].extend(&behind.first);
        }
        if before.may_be_empty {
            before.first.extend(&behind.first);
        }
        if behind.may_be_empty {
            behind.last.extend(&before.last);
        }
        Shape {
            may_be_empty: before.may_be_empty && behind.may_be_empty,
            first: before.first,
            last: behind.last,
        }
    }

    /// Any number of it, but once at least.
    fn looped(&mut self, shape: Shape) -> Option<Shape> {
        if shape.may_be_empty {
            return None;
        }
        for leaf in &shape.last {
            self.next[*leaf].extend(&shape.first);
        }
        Some(shape)
    }

    /// Whether no letter is in the sets of two of these.
    fn are_apart(&self, leaves: &[usize]) -> bool {
        let sets = |place: usize| &self.sets[leaves[place]];
        (0..leaves.len()).all(|place| (0..place).all(|other| !sets(place).meets(sets(other))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::syntax::parsed;
    use super::*;

    #[test]
    fn a_pattern_is_settled_if_each_letter_is_taken_in_one_way_or_one_place_varies() {
        let is_so = |pattern| is_settled(&parsed(pattern, Options::default()).unwrap());
        for pattern in [
            "abc",
            r"\d+",
            r"^(\w+)@(\w+)\.com$",
            r"(\d{2,4})-(\d{2})",
            "(a|b)+",
            "(,|$)",
            "a(bc)?",
            r"[^,]*,(x|)",
            r"\mfoo\M",
            "",
            r"^https?://(?:www\.)?([^/]+)/.*$",
            r"(\w+) (.*)",
            "^(.*)x(.*)$",
            r"a[^\s\S]|b",
            "(.*)x",
            r"\w+x",
            "a*?",
            r#"key="(.*?)""#,
            r"\[.{2,5}?\]",
            "^((a.)b*?)c{3}$",
            r".*/([^?]+)\?.*",
            r"^(.*?)://([^/]*/).*x$",
        ] {
            assert!(is_so(pattern), "{pattern}");
        }
        for pattern in [
            "a|ab",
            "(.*)x+",
            "a*?b*?",
            "a?(ab)?",
            "(|a)b",
            "(a*)*",
            "((a)|b)+",
            r"\w+x?",
            "(a(?=b))",
            r"(a)\1",
            "(a){0}",
            "(?:a{65})+",
            "(a.*?){1,1}",
            "(a(b|c).*?)",
            // It is the shortest that is taken of `.*` here, too.
            "a(.*?)(b).*",
            // Without a bound on its atoms it would be looked at for years.
            "(?:(?:(?:(?:(?:^){255}){255}){255}){255}){255}a",
        ] {
            assert!(!is_so(pattern), "{pattern}");
        }
    }
}
