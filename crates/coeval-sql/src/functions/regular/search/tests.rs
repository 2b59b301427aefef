// SPDX-License-Identifier: Apache-2.0
//! Matches as PostgreSQL 15 finds them.

use super::super::pattern::{Options, compiled};
use super::super::settled::is_settled;
use super::super::syntax::parsed;
use super::super::written::written;
use super::*;
use crate::allowance::Allowance;
use crate::carried::Carry;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;

type Expected = &'static [Option<&'static str>];

/// A pattern, a text, and what PostgreSQL 15 finds: the match and the groups, or nothing.
const OF_POSTGRESQL: &[(&str, &str, Expected)] = &[
    ("a|ab|abc", "abcd", &[Some("abc")]),
    ("(a|ab)(c|bcd)(d*)", "abcd", &[Some("abcd"), Some("ab"), Some("c"), Some("d")]),
    ("a?(ab)?", "ab", &[Some("ab"), Some("ab")]),
    (r"(.*)(\d+)", "abc0123", &[Some("abc0123"), Some("abc012"), Some("3")]),
    (r"(.*?)(\d+)", "abc0123", &[Some("abc0"), Some("abc"), Some("0")]),
    (r"(?:(.*?)(\d+)){1,1}", "abc0123", &[Some("abc0123"), Some("abc"), Some("0123")]),
    ("^(l*)(.*)(f*)$", "llmmmfff", &[Some("llmmmfff"), Some("ll"), Some("mmmfff"), Some("")]),
    ("^(l*){1,1}(.*)(f*)$", "llmmmfff", &[Some("llmmmfff"), Some("ll"), Some("mmmfff"), Some("")]),
    ("^(l*){1,1}?(.*)(f*)$", "llmmmfff", &[Some("llmmmfff"), Some(""), Some("llmmmfff"), Some("")]),
    ("^(l*){1,1}?(.*){1,1}?(f*)$", "llmmmfff", &[Some("llmmmfff"), Some(""), Some("llmmm"), Some("fff")]),
    ("^(l*?)(.*)(f*)$", "llmmmfff", &[Some("llmmmfff"), Some(""), Some("llmmmfff"), Some("")]),
    ("^(l*?){1,1}(.*)(f*)$", "llmmmfff", &[Some("llmmmfff"), Some("ll"), Some("mmmfff"), Some("")]),
    ("^(l*?){1,1}?(.*)(f*)$", "llmmmfff", &[Some("llmmmfff"), Some(""), Some("llmmmfff"), Some("")]),
    ("^(l*?){1,1}?(.*){1,1}?(f*)$", "llmmmfff", &[Some("llmmmfff"), Some(""), Some("llmmm"), Some("fff")]),
    (
        "^([^/]+?)(?:/([^/]+?))(?:/([^/]+?))?$",
        "foo/bar/baz",
        &[Some("foo/bar/baz"), Some("foo"), Some("bar"), Some("baz")],
    ),
    (r"(\w)(.*?\1)", "Programmer", &[Some("rogr"), Some("r"), Some("ogr")]),
    (r"^([bc])\1*$", "bbbb", &[Some("bbbb"), Some("b")]),
    (r"^([bc])\1*$", "bbc", &[]),
    (r"^(\w+)( \1)+$", "abc abc abc", &[Some("abc abc abc"), Some("abc"), Some(" abc")]),
    (r"()*\1", "a", &[Some(""), Some("")]),
    (r"()+\1", "a", &[Some(""), Some("")]),
    (r"(.){0}(\1)", "xxx", &[]),
    (r#" TO (([a-z0-9._]+|"([^"]+|"")+")+)"#, "asd TO foo", &[Some(" TO foo"), Some("foo"), Some("o"), None]),
    ("((a))+", "a", &[Some("a"), Some("a"), Some("a")]),
    ("((a)+)", "a", &[Some("a"), Some("a"), Some("a")]),
    ("a(?=b)b*(?=c)c*", "abc", &[Some("abc")]),
    ("a(?=b)b*", "a", &[]),
    ("a(?!b)b*", "ab", &[]),
    ("(?<=a)b*", "abb", &[Some("bb")]),
    ("a*(?<!a)b+", "ab", &[]),
    ("(?<=foo)b+", "foobar", &[Some("b")]),
    ("(?<![xy])yy+", "zyy", &[Some("yy")]),
    ("(?:..)*", "fooba", &[Some("foob")]),
    (".|...", "xyz", &[Some("xyz")]),
    ("(?:.|){99}", "foo", &[Some("foo")]),
    ("((a)|b)+", "ab", &[Some("ab"), Some("b"), None]),
    ("(a|ab|b)*", "abab", &[Some("abab"), Some("ab")]),
    ("(a|ab|b)+", "abab", &[Some("abab"), Some("b")]),
    ("(aa|a)*b", "aaab", &[Some("aaab"), Some("a")]),
    ("((|a)b)*c", "babc", &[Some("babc"), Some("ab"), Some("a")]),
    (r"(?i)(A)b\1", "xaBA", &[Some("aBA"), Some("a")]),
    (r"(é+)\1", "éééé", &[Some("éééé"), Some("éé")]),
    (r"\m\w+\M", "  fünf, ", &[Some("fünf")]),
    ("(?n)^b.*$", "a\nbc\nd", &[Some("bc")]),
    ("(?x) a  b # c", "xab", &[Some("ab")]),
    ("x{2,3}?", "xxxx", &[Some("xx")]),
    ("(a*)(a|aa)", "aaa", &[Some("aaa"), Some("aa"), Some("a")]),
];

fn meter() -> Meter {
    Meter::begin(&ConfigOptions::new(), "test")
}

/// The texts over these letters, up to a length.
fn texts(letters: &[char], length: usize) -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut begin = 0;
    for _ in 0..length {
        let end = texts.len();
        for place in begin..end {
            for letter in letters {
                let longer = format!("{}{letter}", texts[place]);
                texts.push(longer);
            }
        }
        begin = end;
    }
    texts
}

#[test]
fn a_match_and_its_groups_are_those_of_postgresql() {
    let meter = meter();
    for (pattern, text, expected) in OF_POSTGRESQL {
        let compiled = compiled(pattern, Options::default()).unwrap();
        let found = compiled.found_at(text, 0, &meter).unwrap();
        let part = |number| found.as_ref().and_then(|found| found.get(number)).map(|part| part.as_str());
        let parts: Vec<_> = (0..expected.len()).map(part).collect();
        assert_eq!(found.is_some(), !expected.is_empty(), "{pattern} in {text:?}");
        assert_eq!(&parts[..], *expected, "{pattern} in {text:?}");
        assert_eq!(compiled.is_match(text, &meter).unwrap(), !expected.is_empty(), "{pattern} in {text:?}");
    }
}

#[test]
fn where_the_crate_is_said_to_find_the_same_it_does() {
    let meter = meter();
    let mut compared = 0;
    let patterns = [
        "a",
        "a+b",
        "(a)+",
        "(a|b)*c",
        "a(bc)?",
        "^a*",
        "a$|b",
        "(a{1,2})(b{0,2})c",
        r"\ma\M",
        "[^a](a|)",
        "(b+)|a",
        "(a*)b",
        ".*?b",
        "a(.*?)c",
        "(b.{0,2}?a)b",
        "((a.)b+)$",
        "(.*?)(b*)c$",
        ".*a([^b]*?)c.*",
    ];
    for pattern in patterns {
        let syntax = parsed(pattern, Options::default()).unwrap();
        assert!(is_settled(&syntax), "{pattern}");
        let regex = regex::Regex::new(&format!("(?s){}", written(&syntax).unwrap())).unwrap();
        let machine = Machine::of(&syntax).unwrap();
        for text in texts(&['a', 'b', 'c'], 4) {
            let of_crate = regex.captures(&text).map(|found| -> Groups {
                found.iter().map(|group| group.map(|group| group.range())).collect()
            });
            let found = Search::new(&machine, &text, &meter).groups_from(0).unwrap();
            assert_eq!(found, of_crate, "{pattern} in {text:?}");
            compared += 1;
        }
    }
    assert!(compared > 1_000, "{compared}");
}

/// Numbers without an order, the same ones each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one_of(&mut self, texts: &[&'static str]) -> &'static str {
        let place = self.below(texts.len() as u64);
        texts[usize::try_from(place).unwrap()]
    }

    /// One or two branches, with parentheses within each other up to a depth.
    fn choice(&mut self, depth: u32) -> String {
        let mut choice = self.branch(depth);
        if self.below(3) == 0 {
            choice.push('|');
            choice.push_str(&self.branch(depth));
        }
        choice
    }

    fn branch(&mut self, depth: u32) -> String {
        (0..=self.below(3)).map(|_| self.piece(depth)).collect()
    }

    fn piece(&mut self, depth: u32) -> String {
        let open = match self.below(12) {
            0 => return self.one_of(&["^", "$", r"\y", r"\m"]).to_owned(),
            1 if depth > 0 => {
                let open = self.one_of(&["(?=", "(?!", "(?<=", "(?<!"]);
                return format!("{open}{})", self.choice(depth - 1));
            }
            2..=4 if depth > 0 => self.one_of(&["(", "(?:"]),
            _ => "",
        };
        let atom = match open {
            "" => self.one_of(&["a", "b", "c", ".", "[ab]", "[^b]", r"\w"]).to_owned(),
            open => format!("{open}{})", self.choice(depth - 1)),
        };
        let times = ["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}?", "{1,1}?"];
        atom + self.one_of(&times)
    }

    fn pattern(&mut self) -> String {
        match self.below(4) {
            0 => format!(r"({}){}\1{}", self.choice(1), self.branch(1), self.branch(0)),
            1 => format!("(?<{}{}){}", self.one_of(&["=", "!"]), self.choice(0), self.branch(1)),
            2 => format!("{}(?{}{})", self.branch(1), self.one_of(&["=", "!"]), self.choice(0)),
            _ => self.choice(2),
        }
    }
}

#[test]
fn who_looks_for_a_match_makes_no_difference() {
    let (meter, mut numbers) = (meter(), Numbers(0x9E37_79B9_7F4A_7C15));
    let texts = texts(&['a', 'b', 'c'], 3);
    let (mut compared, mut matched) = (0, 0);
    for _ in 0..250 {
        let pattern = numbers.pattern();
        let syntax = parsed(&pattern, Options::default()).unwrap();
        let machine = Machine::of(&syntax).unwrap();
        let compiled = compiled(&pattern, Options::default()).unwrap();
        for text in &texts {
            for from in 0..=text.len().min(1) {
                let expected = Search::new(&machine, text, &meter).groups_from(from).unwrap();
                let found = compiled.found_at(text, from, &meter).unwrap().map(|found| -> Groups {
                    let groups = (0..=syntax.groups).map(|number| found.get(number));
                    groups.map(|group| group.map(|part| part.start..part.end)).collect()
                });
                assert_eq!(found, expected, "{pattern} in {text:?} from {from}");
                compared += 1;
                matched += usize::from(expected.is_some());
                if from == 0 {
                    let is_match = compiled.is_match(text, &meter).unwrap();
                    assert_eq!(is_match, expected.is_some(), "{pattern} in {text:?}");
                }
            }
        }
    }
    assert!(compared > 10_000 && matched > 1_000, "{matched} of {compared}");
}

#[test]
fn the_first_match_from_a_place_on_knows_what_stands_before_it() {
    let meter = meter();
    for (pattern, from, expected) in [
        ("^a|b|ab", 0, Some(0..2)),
        ("^a|b|ab", 1, Some(1..2)),
        ("(?<=a)b", 1, Some(1..2)),
        (r"\mb", 1, None),
    ] {
        let machine = Machine::of(&parsed(pattern, Options::default()).unwrap()).unwrap();
        let groups = Search::new(&machine, "ab", &meter).groups_from(from).unwrap();
        assert_eq!(groups.and_then(|groups| groups[0].clone()), expected, "{pattern} from {from}");
        let is_match = Search::new(&machine, "ab", &meter).matches(from).unwrap();
        assert_eq!(is_match, expected.is_some(), "{pattern} from {from}");
    }
}

/// Each turn takes one letter before it takes two, and only thirty of two reach the end: there are 2^30 ways that do not.
#[test]
fn turns_that_cannot_reach_the_end_are_tried_once_from_each_place() {
    let meter = meter();
    let text = "a".repeat(60);
    let regex = compiled("^(?:(a{1,2}?)){0,30}$", Options::default()).unwrap();
    let found = regex.found_at(&text, 0, &meter).unwrap().unwrap();
    assert_eq!(found.whole().as_str(), text);
    assert_eq!(found.texts(), [Some("aa")]);
    let regex = compiled("(?:(a{1,2}?)){0,3}b", Options::default()).unwrap();
    assert_eq!(regex.found_at("aaaaab", 0, &meter).unwrap().unwrap().texts(), [Some("aa")]);
}

#[test]
fn a_search_counts_its_steps_and_refuses_too_many() {
    let meter = meter();
    let machine = Machine::of(&parsed("(a*)b", Options::default()).unwrap()).unwrap();
    let mut search = Search::new(&machine, "aab", &meter);
    assert!(search.count(STEPS_MAX).is_ok());
    assert_eq!(search.count(STEPS_BETWEEN_LOOKS + 1).unwrap_err().state, SqlState::StatementTooComplex);
    let refused = |pattern: &str| {
        let syntax = parsed(pattern, Options::default()).unwrap();
        Machine::of(&syntax).unwrap_err().state
    };
    assert_eq!(refused("((a{100}){100}){100}"), SqlState::InvalidRegularExpression);
    // Sets of letters of which each has as many ranges as `\w`.
    let sets: String = (0x2190..0x2290).map(|letter| format!(r"[\w\u{letter:04x}]")).collect();
    assert_eq!(refused(&sets), SqlState::InvalidRegularExpression);
}

#[test]
fn sets_of_states_within_each_other_are_accounted_for() {
    let environment = RuntimeEnvBuilder::new().with_memory_limit(8 << 20, 1.0).build().unwrap();
    let mut options = ConfigOptions::new();
    Allowance::of(&environment).carry_in(&mut options);
    let meter = Meter::begin(&options, "test");
    let searched = |looks: usize| {
        let pattern = format!("{}(?:a{{200}}){{100}}{}", "(?=".repeat(looks), ")".repeat(looks));
        let machine = Machine::of(&parsed(&pattern, Options::default()).unwrap()).unwrap();
        Search::new(&machine, "a", &meter).matches(0)
    };
    assert_eq!(searched(1), Ok(false));
    assert_eq!(searched(100).unwrap_err().state, SqlState::OutOfMemory);
}

/// In long texts the crate's automaton is stepped here; from where it has found a match on nothing else is.
#[test]
fn matches_in_long_texts_are_those_of_short_ones() {
    let meter = meter();
    let word = "a.b@c.de, é; (x@y) ";
    let text = word.repeat(20_000);
    for pattern in [r"[\w.]+@[\w.]+", r"([\w.]+)@([\w.]+)\.(\w+)", r"(?<=\()\w(?=@)", r"(\w)\.\w@\w\.de"] {
        let compiled = compiled(pattern, Options::default()).unwrap();
        let found = |text: &str, from: usize| {
            let found = compiled.found_at(text, from, &meter).unwrap()?;
            let groups: Vec<_> = found.texts().into_iter().map(|text| text.map(str::to_owned)).collect();
            Some((found.whole().start, found.whole().end, groups))
        };
        let short = found(word, 0).unwrap();
        let place = word.len() * 10_000;
        assert_eq!(found(&text, 0), Some(short.clone()), "{pattern}");
        let later = (place + short.0, place + short.1, short.2);
        assert_eq!(found(&text, place), Some(later), "{pattern}");
        assert!(compiled.is_match(&text, &meter).unwrap(), "{pattern}");
    }
}
