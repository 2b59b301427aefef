// SPDX-License-Identifier: Apache-2.0
//! The rooms of a crate, which are its top-level modules, and who imports whom among them.
//!
//! Rooms that import each other, by whatever way round, cannot be read one after the other, nor changed one without the others.

use crate::sources::{SourceFile, Sources};
use std::collections::{BTreeMap, BTreeSet};

/// Whom each room imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The crates that have rooms, by their names.
pub(crate) fn crates(sources: &Sources) -> BTreeSet<&str> {
    let places =
        sources.rust_files().filter_map(|file| file.path.strip_prefix("crates/")?.split_once("/src/"));
    places.map(|(name, _)| name).collect()
}

/// The most rooms of a crate that import each other by some way round, in the order of their names; none if nobody does.
pub(crate) fn largest_ring(sources: &Sources, name: &str) -> Vec<String> {
    let imports = imports(sources, name);
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|room| (room.as_str(), reached_from(room, &imports))).collect();
    let ring_of = |room: &str| -> Vec<String> {
        let back = reached[room].iter().filter(|other| reached[**other].contains(room));
        back.map(|other| (*other).to_owned()).collect()
    };
    imports.keys().map(|room| ring_of(room)).max_by_key(Vec::len).unwrap_or_default()
}

/// The rooms that are imported by this one, and by those, and so on.
fn reached_from<'i>(room: &str, imports: &'i Imports) -> BTreeSet<&'i str> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&str> = imports[room].iter().map(String::as_str).collect();
    while let Some(next) = waiting.pop() {
        if reached.insert(next) {
            waiting.extend(imports[next].iter().map(String::as_str));
        }
    }
    reached
}

/// Tests in files of their own do not count, nor does what a comment links to. Those within a file are read with it.
fn imports(sources: &Sources, name: &str) -> Imports {
    let prefix = format!("crates/{name}/src/");
    let room_of = |file: &SourceFile| {
        let room = file.path.strip_prefix(&prefix)?.split(['/', '.']).next()?;
        (!file.is_test() && room != "lib" && room != "main").then(|| room.to_owned())
    };
    let files: Vec<(String, &SourceFile)> =
        sources.rust_files().filter_map(|file| Some((room_of(file)?, file))).collect();
    let rooms: BTreeSet<String> = files.iter().map(|(room, _)| room.clone()).collect();
    let mut imports: Imports = rooms.iter().map(|room| (room.clone(), BTreeSet::new())).collect();
    for (room, file) in files {
        let used = used_by(&file.text).into_iter();
        let others = used.filter(|used| *used != room && rooms.contains(used));
        imports.entry(room.clone()).or_default().extend(others);
    }
    imports
}

/// What stands behind each `crate::`.
fn used_by(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    let mut used = Vec::new();
    for (at, path) in code.match_indices("crate::") {
        let behind = &code[at + path.len()..];
        match behind.strip_prefix('{') {
            Some(group) => used.extend(heads(group)),
            None => used.push(word(behind)),
        }
    }
    used
}

/// The first words of the members of a group, up to its end.
fn heads(group: &str) -> Vec<String> {
    let mut heads = vec![word(group)];
    let mut depth = 1_usize;
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => break,
            '}' => depth -= 1,
            ',' if depth == 1 => heads.push(word(&group[at + 1..])),
            _ => {}
        }
    }
    heads
}

fn word(text: &str) -> String {
    text.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| SourceFile::new(&format!("crates/x/src/{path}"), text);
        largest_ring(&Sources::new(files.iter().map(file).collect()), "x")
    }

    #[test]
    fn rooms_that_import_each_other_by_some_way_round_are_a_ring() {
        let (a, b) = (("a.rs", "use crate::b::B;\n"), ("b/c.rs", "use crate::{\n    c::C,\n    d,\n};\n"));
        assert!(ring(&[a, b, ("c.rs", "use crate::b2::B;\n"), ("d.rs", "")]).is_empty());
        assert_eq!(ring(&[a, b, ("c.rs", "fn f() { crate::a::f() }\n"), ("d.rs", "")]), ["a", "b", "c"]);
        assert_eq!(ring(&[a, b, ("c.rs", ""), ("d.rs", "use crate::{e::{F, a}, a};\n")]), ["a", "b", "d"]);
    }

    #[test]
    fn comments_files_of_tests_and_a_room_itself_are_no_imports() {
        let a = ("a.rs", "use crate::b::B;\nuse crate::a::c;\n");
        assert!(ring(&[a, ("b.rs", "/// As [`crate::a::A`].\nfn b() {}\n")]).is_empty());
        assert!(ring(&[a, ("b.rs", ""), ("b/tests.rs", "use crate::a::A;\n")]).is_empty());
        let tested = "fn b() {}\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n";
        assert_eq!(ring(&[a, ("b.rs", tested)]), ["a", "b"]);
    }

    #[test]
    fn crates_are_found_by_their_sources() {
        let file = |path: &str| SourceFile::new(path, "");
        let files = ["crates/b/src/a.rs", "crates/a/src/b/c.rs", "crates/c/tests/a.rs", "tests/src/lib.rs"];
        let sources = Sources::new(files.map(file).into());
        assert_eq!(crates(&sources).into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }
}
