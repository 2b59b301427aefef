// SPDX-License-Identifier: Apache-2.0
//! What the `regex` crate can say of a pattern that looks around or refers back, which it does not do itself.
//!
//! | asked for | written |
//! |---|---|
//! | [whether](deciding) a text has a match, of a pattern that looks around at its ends alone | `(?<=a)b(?!c)` as `(?:a)b(?:\z\|[^c])` |
//! | [where](outline) no match begins | what is to stand around left out, a back reference as what its group may be |

use super::syntax::{Atom, Choice, Letters, Look, Piece, Syntax, Times, Way};
use super::written::{push_branch, push_choice, push_times};
use crate::stack::with_room;

/// How long an outline may be: a back reference to a group with back references may stand for much.
const OUTLINE_BYTES_MAX: usize = 4 << 10;

/// A pattern of the crate that has a match in the same texts, if at others of their places; `None` if this looks around within, or
/// refers back.
pub(super) fn deciding(syntax: &Syntax) -> Option<String> {
    let mut out = String::new();
    for (place, branch) in syntax.top.branches.iter().enumerate() {
        if place > 0 {
            out.push('|');
        }
        push_deciding(branch, &mut out)?;
    }
    Some(out)
}

/// Writes a branch with what is to stand before and behind it as parts of it.
fn push_deciding(branch: &[Piece], out: &mut String) -> Option<()> {
    let (before, rest) = match branch {
        [Piece { atom: Atom::Look(look), .. }, rest @ ..] if look.way == Way::Behind => (Some(look), rest),
        rest => (None, rest),
    };
    let (between, behind) = match rest {
        [between @ .., Piece { atom: Atom::Look(look), .. }] if look.way == Way::Ahead => {
            (between, Some(look))
        }
        between => (between, None),
    };
    if let Some(look) = before {
        push_look(look, out)?;
    }
    push_branch(between, out)?;
    if let Some(look) = behind {
        push_look(look, out)?;
    }
    Some(())
}

/// Writes what is to stand beside a match. In the place of a letter that is not to, there is another one, or none.
fn push_look(look: &Look, out: &mut String) -> Option<()> {
    out.push_str("(?:");
    if look.is_wanted {
        push_choice(&look.inside, out)?;
    } else {
        let [branch] = look.inside.branches.as_slice() else { return None };
        let [Piece { atom: Atom::Letters(letters), times }] = branch.as_slice() else { return None };
        if *times != Times::ONCE || matches!(letters, Letters::Any) {
            return None;
        }
        let end = if look.way == Way::Behind { r"\A" } else { r"\z" };
        out.push_str(&format!("{end}|[^{}]", letters.written()));
    }
    out.push(')');
    Some(())
}

/// A pattern of the crate of which a match begins wherever one of this does; `None` if it would be long.
pub(super) fn outline(syntax: &Syntax) -> Option<String> {
    let mut out = String::new();
    push_outline(&syntax.top, Within::End, &mut out)?;
    Some(out)
}

/// Where a part of a pattern is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    /// Nothing is behind it: what it looks ahead for may be taken as a part of it.
    End,
    Middle,
    /// In what a back reference may be. What was to stand around its group may not stand here.
    Reference,
}

fn push_outline(choice: &Choice, within: Within, out: &mut String) -> Option<()> {
    for (place, branch) in choice.branches.iter().enumerate() {
        if place > 0 {
            out.push('|');
        }
        for (place, piece) in branch.iter().enumerate() {
            let is_last = place + 1 == branch.len() && piece.times == Times::ONCE;
            let within = if within == Within::End && !is_last { Within::Middle } else { within };
            if !piece.is_nothing() {
                push_outline_of_piece(piece, within, out)?;
            }
        }
    }
    (out.len() <= OUTLINE_BYTES_MAX).then_some(())
}

fn push_outline_of_piece(piece: &Piece, within: Within, out: &mut String) -> Option<()> {
    match &piece.atom {
        Atom::Letters(letters) => out.push_str(&letters.written()),
        Atom::Group { inside, .. } => push_group(inside, within, out)?,
        Atom::Back { inside, .. } => push_group(inside, Within::Reference, out)?,
        Atom::Look(look) if look.is_wanted && look.way == Way::Ahead && within == Within::End => {
            push_group(&look.inside, within, out)?;
        }
        Atom::Place(place) if within != Within::Reference => out.push_str(place.written()),
        // Constraints have no quantifier.
        Atom::Place(_) | Atom::Look(_) => return Some(()),
    }
    push_times(piece.times, out);
    Some(())
}

fn push_group(inside: &Choice, within: Within, out: &mut String) -> Option<()> {
    out.push_str("(?:");
    if out.len() > OUTLINE_BYTES_MAX {
        return None;
    }
    with_room(|| push_outline(inside, within, out))?;
    out.push(')');
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Options;
    use super::super::syntax::parsed;
    use super::*;

    #[test]
    fn what_stands_beside_a_match_decides_whether_there_is_one() {
        for (pattern, expected) in [
            ("foo(?=bar)", "foo(?:bar)"),
            ("(?<=^|,)x+", "(?:^|,)x+"),
            ("(?<=a)b(?=c)|d", "(?:a)b(?:c)|d"),
            (r"(?<![a-c])(d)(?!\d)", r"(?:\A|[^[a-c]])(d)(?:\z|[^\d])"),
            ("(?<!-)(?=a)", r"(?:\A|[^\-])(?:a)"),
        ] {
            let syntax = parsed(pattern, Options::default()).unwrap();
            assert_eq!(deciding(&syntax).as_deref(), Some(expected), "{pattern}");
        }
        for pattern in [
            "a(?=b)c",
            "(?=a)b",
            "a(?<=b)",
            "(?<=a)(?<=b)c",
            "(a(?=b))",
            "a(?!bc)",
            "a(?!b*)",
            "a(?!b|c)",
            "a(?!.)",
            "a(?=b(?=c)d)",
            r"(?<=a)(b)\1",
        ] {
            assert_eq!(deciding(&parsed(pattern, Options::default()).unwrap()), None, "{pattern}");
        }
    }

    #[test]
    fn an_outline_has_what_a_back_reference_may_be_and_leaves_out_what_stands_around() {
        for (pattern, expected) in [
            (r"(\w+) \1", r"(?:\w+) (?:\w+)"),
            (r"^(^a|b){0,2}\1*?c", "^(?:^a|b){0,2}(?:a|b)*?c"),
            ("(?<=a)b(?=c)", "b(?:c)"),
            ("a(?=b)c(?!d)", "ac"),
            ("a(b(?=c(?=d)))", "a(?:b(?:c(?:d)))"),
            ("(a(?=b))*", "(?:a)*"),
            ("(a){0}b", "b"),
        ] {
            let syntax = parsed(pattern, Options::default()).unwrap();
            assert_eq!(outline(&syntax).as_deref(), Some(expected), "{pattern}");
        }
        // Each group is as long as two of the one before.
        let mut pattern = "(a)".to_owned();
        (1..20).for_each(|number| pattern.push_str(&format!(r"(\{number}\{number})")));
        assert_eq!(outline(&parsed(&pattern, Options::default()).unwrap()), None);
    }
}
