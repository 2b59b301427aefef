// SPDX-License-Identifier: Apache-2.0
//! The rooms of a crate, which are its top-level modules, and those of each folder in it; and who imports whom among them.
//!
//! Rooms that import each other, by whatever way round, cannot be read one after the other, nor changed one without the others.

use crate::sources::{SourceFile, Sources};
use std::collections::{BTreeMap, BTreeSet};

/// Names of modules, from the top of a crate.
type ModulePath = Vec<String>;

/// Whom each room imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The most rooms of a folder that import each other by some way round.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    /// The crate, and the modules that the folder is of: `coeval-x`, `coeval-x/a`.
    pub folder: String,
    /// In the order of their names.
    pub rooms: Vec<String>,
}

/// The largest ring of each folder of each crate that has one.
pub(crate) fn largest_rings(sources: &Sources) -> Vec<Ring> {
    crates(sources).into_iter().flat_map(|name| rings_of(sources, name)).collect()
}

/// The crates that have rooms, by their names.
fn crates(sources: &Sources) -> BTreeSet<&str> {
    let places =
        sources.rust_files().filter_map(|file| file.path.strip_prefix("crates/")?.split_once("/src/"));
    places.map(|(name, _)| name).collect()
}

/// A file of a crate, by the module that it is.
struct Module<'s> {
    path: ModulePath,
    file: &'s SourceFile,
}

impl Module<'_> {
    /// What it names, and the tests within it.
    fn used(&self) -> Vec<ModulePath> {
        let (code, tests) = self.file.text.split_at(self.file.production().len());
        let mut used = used_by(code, &self.path);
        used.extend(used_by(tests, &joined(&self.path, "tests".to_owned())));
        used
    }
}

fn rings_of(sources: &Sources, name: &str) -> Vec<Ring> {
    let modules = modules(sources, name);
    let used: Vec<(&[String], Vec<ModulePath>)> =
        modules.iter().map(|module| (&module.path[..], module.used())).collect();
    let depths = modules.iter().map(|module| (&module.path[..], 0..module.path.len()));
    let folders: BTreeSet<&[String]> =
        depths.flat_map(|(path, depths)| depths.map(move |depth| &path[..depth])).collect();
    let ring = |folder: &[String]| {
        let rooms = largest_ring(&imports(folder, &used));
        let names = std::iter::once(name).chain(folder.iter().map(String::as_str));
        (!rooms.is_empty()).then(|| Ring { folder: names.collect::<Vec<_>>().join("/"), rooms })
    };
    folders.into_iter().filter_map(ring).collect()
}

/// Tests in files of their own do not count. Those within a file are read with it.
fn modules<'s>(sources: &'s Sources, name: &str) -> Vec<Module<'s>> {
    let prefix = format!("crates/{name}/src/");
    let module = |file: &'s SourceFile| {
        let path = file.path.strip_prefix(&prefix)?.strip_suffix(".rs")?;
        let path = path.strip_suffix("/mod").unwrap_or(path);
        let is_room = !file.is_test() && path != "lib" && path != "main";
        is_room.then(|| Module { path: path.split('/').map(str::to_owned).collect(), file })
    };
    sources.rust_files().filter_map(module).collect()
}

/// Whom each room of a folder imports among the others.
fn imports(folder: &[String], used: &[(&[String], Vec<ModulePath>)]) -> Imports {
    let room_of = |path: &[String]| path.strip_prefix(folder)?.first().cloned();
    let rooms: BTreeSet<String> = used.iter().filter_map(|(path, _)| room_of(path)).collect();
    let mut imports: Imports = rooms.iter().map(|room| (room.clone(), BTreeSet::new())).collect();
    for (path, used) in used {
        let Some(room) = room_of(path) else { continue };
        let others = used.iter().filter_map(|other| room_of(other));
        let others = others.filter(|other| *other != room && rooms.contains(other));
        imports.entry(room.clone()).or_default().extend(others);
    }
    imports
}

/// The most rooms that import each other by some way round, in the order of their names; none if nobody does.
fn largest_ring(imports: &Imports) -> Vec<String> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|room| (room.as_str(), reached_from(room, imports))).collect();
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

/// What a module names by paths from the top of its crate, or from a module around it. What a comment links to does not count.
fn used_by(text: &str, module: &[String]) -> Vec<ModulePath> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    let mut used = Vec::new();
    let mut rest = 0;
    while let Some((start, first)) = next_path(&code, rest) {
        let mut at = start + first.len();
        let mut path: ModulePath = match first {
            "super::" => module[..module.len() - 1].to_vec(),
            _ => Vec::new(),
        };
        while first == "super::" && code[at..].starts_with("super::") {
            path.pop();
            at += "super::".len();
        }
        at += push_names(&code[at..], &mut path);
        match code[at..].strip_prefix('{') {
            Some(group) => used.extend(heads(group).into_iter().map(|head| joined(&path, head))),
            None => used.push(path),
        }
        rest = at;
    }
    used
}

/// Where the next path begins, and with which word.
fn next_path(code: &str, from: usize) -> Option<(usize, &'static str)> {
    let begins = |start: usize| !code[..start].ends_with(|letter: char| is_of_word(letter) || letter == ':');
    let find = |word: &'static str| {
        let mut found = code[from..].match_indices(word).map(|(start, _)| from + start);
        found.find(|&start| begins(start)).map(|start| (start, word))
    };
    [find("crate::"), find("super::")].into_iter().flatten().min()
}

/// Adds the names that a path goes on with; how long that is.
fn push_names(code: &str, path: &mut ModulePath) -> usize {
    let mut at = 0;
    loop {
        let name = word(&code[at..]);
        at += name.len();
        let is_end = name.is_empty() || !code[at..].starts_with("::");
        if !name.is_empty() {
            path.push(name);
        }
        if is_end {
            return at;
        }
        at += "::".len();
    }
}

fn joined(path: &[String], name: String) -> ModulePath {
    let mut path = path.to_vec();
    path.push(name);
    path
}

/// The first words of the members of a group, up to its end.
fn heads(group: &str) -> Vec<String> {
    let mut heads = vec![word(group.trim_start())];
    let mut depth = 1_usize;
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => break,
            '}' => depth -= 1,
            ',' if depth == 1 => heads.push(word(group[at + 1..].trim_start())),
            _ => {}
        }
    }
    heads
}

fn word(text: &str) -> String {
    text.chars().take_while(|&letter| is_of_word(letter)).collect()
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(files: &[(&str, &str)]) -> Vec<Ring> {
        let file = |(path, text): &(&str, &str)| SourceFile::new(&format!("crates/x/src/{path}"), text);
        largest_rings(&Sources::new(files.iter().map(file).collect()))
    }

    fn ring(folder: &str, rooms: &[&str]) -> Ring {
        Ring { folder: folder.to_owned(), rooms: rooms.iter().map(|&room| room.to_owned()).collect() }
    }

    #[test]
    fn rooms_that_import_each_other_by_some_way_round_are_a_ring() {
        let (a, b) = (("a.rs", "use crate::b::B;\n"), ("b/c.rs", "use crate::{\n    c::C,\n    d,\n};\n"));
        assert!(rings(&[a, b, ("c.rs", "use crate::b2::B;\n"), ("d.rs", "")]).is_empty());
        let through_c = [a, b, ("c.rs", "fn f() { crate::a::f() }\n"), ("d.rs", "")];
        assert_eq!(rings(&through_c), [ring("x", &["a", "b", "c"])]);
        let through_d = [a, b, ("c.rs", ""), ("d.rs", "use crate::{e::{F, a}, a};\n")];
        assert_eq!(rings(&through_d), [ring("x", &["a", "b", "d"])]);
    }

    #[test]
    fn rooms_of_a_folder_are_found_by_paths_from_the_top_and_from_around() {
        let a = ("r/a.rs", "use super::b::{self, B};\n");
        let back = |text| rings(&[("r.rs", "mod a;\n"), a, ("r/b/c.rs", text)]);
        assert!(back("use super::a::A;\nuse crate::a;\nuse self::a;\n").is_empty());
        assert_eq!(back("fn f() { super::super::a::f() }\n"), [ring("x/r", &["a", "b"])]);
        assert_eq!(back("use crate::r::a::A;\n"), [ring("x/r", &["a", "b"])]);
        assert_eq!(back("use crate::r::{d, a};\n"), [ring("x/r", &["a", "b"])]);
    }

    #[test]
    fn comments_files_of_tests_and_a_room_itself_are_no_imports() {
        let a = ("a.rs", "use crate::b::B;\nuse crate::a::c;\n");
        assert!(rings(&[a, ("b.rs", "/// As [`crate::a::A`].\nfn b() {}\n")]).is_empty());
        assert!(rings(&[a, ("b.rs", ""), ("b/tests.rs", "use crate::a::A;\n")]).is_empty());
        let tested = "fn b() {}\n#[cfg(test)]\nmod tests {\n    use super::a;\n    use crate::a::A;\n}\n";
        assert_eq!(rings(&[a, ("b.rs", tested)]), [ring("x", &["a", "b"])]);
        let own = "fn a() {}\n#[cfg(test)]\nmod tests {\n    use super::a;\n}\n";
        assert!(rings(&[a, ("b.rs", own)]).is_empty());
    }
}
