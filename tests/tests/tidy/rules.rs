// SPDX-License-Identifier: Apache-2.0
//! The rules.

use crate::sources::{SourceFile, Sources};
use std::fmt;

/// A place that breaks a rule.
#[derive(Debug, PartialEq)]
pub(crate) struct Violation {
    path: String,
    line: usize,
    what: String,
}

impl Violation {
    pub(crate) fn new(file: &SourceFile, line: usize, what: impl Into<String>) -> Self {
        Self { path: file.path.clone(), line, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

fn at(file: &SourceFile, line: usize, what: impl Into<String>) -> Violation {
    Violation::new(file, line, what)
}

fn per_line(file: &SourceFile, text: &str, check: impl Fn(&str) -> Option<String>) -> Vec<Violation> {
    let lines = text.lines().enumerate();
    lines.filter_map(|(number, line)| check(line).map(|what| at(file, number + 1, what))).collect()
}

/// One SPDX line opens each file.
pub(crate) fn licence(file: &SourceFile) -> Vec<Violation> {
    let is_there = file.text.starts_with("// SPDX-License-Identifier: Apache-2.0\n");
    if is_there { vec![] } else { vec![at(file, 1, "the first line is the licence (SPDX)")] }
}

/// Each module opens with a sentence; tests beside the code are named by their file.
pub(crate) fn module_doc(file: &SourceFile) -> Vec<Violation> {
    let is_module_of_tests = file.path.ends_with("/tests.rs") || file.path.contains("/tests/");
    let opens = file.text.lines().find(|line| !line.starts_with("// ") && !line.trim().is_empty());
    if is_module_of_tests || opens.is_some_and(|line| line.starts_with("//!")) {
        return vec![];
    }
    vec![at(file, 2, "a module opens with `//!`")]
}

/// Each library says what it owns, what it never does, its invariants, and where to start reading.
pub(crate) fn crate_doc(file: &SourceFile) -> Vec<Violation> {
    let is_library = file.path.ends_with("/src/lib.rs") && !file.path.starts_with("tests/");
    if !is_library {
        return vec![];
    }
    ["Owns", "Never does", "Invariants", "Start reading at"]
        .into_iter()
        .filter(|heading| !file.text.contains(&format!("//! # {heading}")))
        .map(|heading| at(file, 1, format!("no heading `# {heading}`")))
        .collect()
}

/// A file fits in the head.
pub(crate) fn file_length(file: &SourceFile) -> Vec<Violation> {
    const LINES_MAX: usize = 1_000;
    let lines = file.production().lines().count();
    if lines <= LINES_MAX {
        vec![]
    } else {
        vec![at(file, lines, format!("{lines} lines, more than {LINES_MAX}"))]
    }
}

/// Files are named for a thing.
pub(crate) fn file_name(file: &SourceFile) -> Vec<Violation> {
    let empty_names = ["utils", "util", "common", "helpers", "helper", "misc"];
    let is_empty = |part: &str| empty_names.contains(&part.trim_end_matches(".rs"));
    if file.path.split('/').any(is_empty) { vec![at(file, 1, "name the noun, not `utils`")] } else { vec![] }
}

/// In-file test modules stay short.
pub(crate) fn tests_beside_code(file: &SourceFile) -> Vec<Violation> {
    const LINES_MAX: usize = 120;
    let lines = file.text.lines().count() - file.production().lines().count();
    if lines <= LINES_MAX {
        return vec![];
    }
    vec![at(
        file,
        file.production().lines().count(),
        format!("{lines} lines of tests belong into a file beside"),
    )]
}

/// No FIXME, no code in comments.
pub(crate) fn unfinished(file: &SourceFile) -> Vec<Violation> {
    if file.path.starts_with("tests/tests/tidy/") {
        return vec![];
    }
    per_line(file, &file.text, |line| {
        let line = line.trim();
        let words = ["TODO", "FIXME", "XXX", "HACK", "todo!(", "unimplemented!("];
        if let Some(word) = words.iter().find(|word| line.contains(**word)) {
            return Some(format!("`{word}`"));
        }
        let comment = line.strip_prefix("// ")?;
        let is_code = comment.ends_with(';') && (comment.starts_with("let ") || comment.contains("("));
        is_code.then(|| "code in a comment".to_owned())
    })
}

/// Versions, epochs and the like have types of their own in public signatures.
pub(crate) fn bare_numbers(file: &SourceFile) -> Vec<Violation> {
    if file.is_test() {
        return vec![];
    }
    let names = ["version", "epoch", "begin", "transaction_id", "page", "brick", "lsn"];
    per_line(file, file.production(), |line| {
        let line = line.trim();
        if !line.starts_with("pub fn ") || line.contains("fn new(") {
            return None;
        }
        let is_bare =
            |name: &&&str| line.contains(&format!(" {name}: u64")) || line.contains(&format!("({name}: u64"));
        names.iter().find(is_bare).map(|name| format!("`{name}: u64` wants its newtype"))
    })
}

/// A struct with a lock says what it guards.
pub(crate) fn lock_rule(file: &SourceFile) -> Vec<Violation> {
    if file.is_test() || file.path.starts_with("bench/") {
        return vec![];
    }
    let has_lock = |line: &str| {
        let field = line.trim_start();
        !field.starts_with("//")
            && field.contains(": ")
            && !field.contains("fn ")
            && !field.contains("let ")
            && ["Mutex<", "RwLock<"].iter().any(|lock| field.contains(lock))
            && field.ends_with(',')
    };
    let first = file.production().lines().position(has_lock);
    match first {
        Some(line) if !file.text.contains("# Locking") => {
            vec![at(file, line + 1, "a lock without a heading `# Locking` that gives its rule")]
        }
        _ => vec![],
    }
}

/// No path of somebody's machine, no registry host.
pub(crate) fn machine_paths(file: &SourceFile) -> Vec<Violation> {
    if file.path.starts_with("tests/tests/tidy/") || file.path == "Cargo.lock" {
        return vec![];
    }
    per_line(file, &file.text, |line| {
        let places = ["/root/", "/home/", "/work/", "artifactory"];
        places.iter().find(|place| line.contains(**place)).map(|place| format!("names `{place}`"))
    })
}

/// The rows of the table of crates in ARCHITECTURE.md: a crate and what it may depend on.
fn crate_table(architecture: &str) -> Vec<(String, Vec<String>)> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect()
    };
    let rows = architecture.lines().filter(|line| line.starts_with("| `coeval"));
    rows.filter_map(|line| {
        let cells = cells(line);
        let below = cells.get(1)?.split(',').map(|name| name.trim().to_owned());
        Some((cells.first()?.clone(), below.filter(|name| name.starts_with("coeval")).collect()))
    })
    .collect()
}

/// Each crate depends on what its row allows, and on nothing above.
pub(crate) fn crate_graph(sources: &Sources) -> Vec<Violation> {
    let Some(architecture) = sources.get("ARCHITECTURE.md") else { return vec![] };
    let table = crate_table(&architecture.text);
    let mut violations = Vec::new();
    // What is no member of the workspace depends on whatever it likes.
    let is_member = |file: &&SourceFile| !file.path.starts_with("tests/loom/");
    for manifest in sources.files().filter(|file| file.path.ends_with("/Cargo.toml")).filter(is_member) {
        let name = manifest.text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        let Some(name) = name else { continue };
        let Some((_, allowed)) = table.iter().find(|(row, _)| row == name) else {
            violations.push(at(manifest, 1, format!("ARCHITECTURE.md has no row for {name}")));
            continue;
        };
        let normal = manifest.text.split("[dev-dependencies]").next().unwrap_or_default();
        for (number, line) in normal.lines().enumerate() {
            let dependency = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let is_ours = dependency.starts_with("coeval") && dependency != name;
            if is_ours && !allowed.iter().any(|below| below == dependency) {
                violations.push(at(manifest, number + 1, format!("{name} may not depend on {dependency}")));
            }
        }
    }
    violations
}

/// The table names every crate, and each once.
pub(crate) fn architecture_names_crates(sources: &Sources) -> Vec<Violation> {
    let Some(architecture) = sources.get("ARCHITECTURE.md") else {
        return vec![Violation { path: "ARCHITECTURE.md".into(), line: 1, what: "is missing".into() }];
    };
    let table = crate_table(&architecture.text);
    let count = |name: &str| table.iter().filter(|(row, _)| row == name).count();
    table
        .iter()
        .filter(|(name, _)| count(name) > 1)
        .map(|(name, _)| at(architecture, 1, format!("{name} has more than one row")))
        .collect()
}

/// Relative links in Markdown lead to tracked files.
pub(crate) fn links(sources: &Sources) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in sources.files().filter(|file| file.path.ends_with(".md")) {
        for (number, line) in file.text.lines().enumerate() {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let target = link.split('#').next().unwrap_or_default();
                let is_elsewhere =
                    target.is_empty() || target.contains("://") || target.starts_with("mailto:");
                if !is_elsewhere && !leads_somewhere(sources, &file.path, target) {
                    violations.push(at(file, number + 1, format!("`{target}` is not there")));
                }
            }
        }
    }
    violations
}

fn leads_somewhere(sources: &Sources, from: &str, target: &str) -> bool {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    sources.files().any(|file| file.path == path || file.path.starts_with(&format!("{path}/")))
}

/// Every variable of the environment that a program or a script names has its place in the table of all of them.
pub(crate) fn environment(sources: &Sources) -> Vec<Violation> {
    const TABLE: &str = "docs/environment.md";
    let table = sources.get(TABLE).map(|file| file.text.as_str()).unwrap_or_default();
    let is_documented =
        |name: &str| table.contains(&format!("`{name}`")) || table.contains(&format!("`{name}="));
    let mut violations = Vec::new();
    let is_code =
        |file: &&SourceFile| !file.path.ends_with(".md") && !file.path.starts_with("tests/tests/tidy/");
    for file in sources.files().filter(is_code) {
        violations.extend(per_line(file, &file.text, |line| {
            let missing = environment_names(line).find(|name| !is_documented(name))?;
            Some(format!("`{missing}` is not in {TABLE}"))
        }));
    }
    violations
}

/// What a line names as variables of ours: in quotes, or behind a dollar. A name that ends with `_` is put together
/// from pieces.
fn environment_names(line: &str) -> impl Iterator<Item = &str> {
    let starts = line.match_indices("COEVAL_").map(|(start, _)| start);
    let is_name = |start: &usize| line[..*start].ends_with(['"', '$', '{']);
    let name = |start: usize| {
        let rest = &line[start..];
        let end = rest.find(|letter: char| !letter.is_ascii_uppercase() && letter != '_');
        &rest[..end.unwrap_or(rest.len())]
    };
    starts.filter(is_name).map(name).filter(|name| !name.ends_with('_'))
}

/// Asserts per hundred functions outside of tests.
pub(crate) fn assert_density(sources: &Sources, name: &str) -> usize {
    let prefix = format!("crates/{name}/src/");
    let (mut asserts, mut functions) = (0, 0);
    for file in sources.rust_files().filter(|file| file.path.starts_with(&prefix) && !file.is_test()) {
        for line in file.production().lines().map(str::trim).filter(|line| !line.starts_with("//")) {
            asserts += usize::from(line.contains("assert"));
            functions += usize::from(line.contains("fn ") && line.contains('('));
        }
    }
    asserts * 100 / functions.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(rule: fn(&SourceFile) -> Vec<Violation>, path: &str, text: &str) -> usize {
        rule(&SourceFile::new(path, text)).len()
    }

    #[test]
    fn each_rule_finds_what_breaks_it_and_nothing_else() {
        let good = "// SPDX-License-Identifier: Apache-2.0\n//! A thing.\nfn a() {}\n";
        assert_eq!((broken(licence, "a.rs", good), broken(licence, "a.rs", "fn a() {}\n")), (0, 1));
        assert_eq!(
            (broken(module_doc, "a.rs", good), broken(module_doc, "a.rs", "// x\nfn a() {}\n")),
            (0, 1)
        );
        assert_eq!(broken(crate_doc, "crates/x/src/lib.rs", "//! # Owns\n//! # Invariants\n"), 2);
        assert_eq!(broken(file_length, "a.rs", &"x\n".repeat(1_001)), 1);
        assert_eq!((broken(file_name, "a/utils.rs", ""), broken(file_name, "a/free_set.rs", "")), (1, 0));
        let long = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{}}}\n", "x\n".repeat(200));
        assert_eq!(broken(tests_beside_code, "a.rs", &long), 1);
        assert_eq!(
            broken(unfinished, "a.rs", "// TODO later\n// let x = f(1);\n// A sentence (with this).\n"),
            2
        );
        let bare =
            "pub fn at(version: u64) {}\npub fn new(version: u64) {}\npub fn of(version: Version) {}\n";
        assert_eq!(broken(bare_numbers, "crates/a/src/a.rs", bare), 1);
        let lock = "struct A {\n    state: Mutex<u8>,\n}\n";
        assert_eq!(broken(lock_rule, "crates/a/src/a.rs", lock), 1);
        assert_eq!(broken(lock_rule, "crates/a/src/a.rs", &format!("/// # Locking\n{lock}")), 0);
        assert_eq!(broken(machine_paths, "a.md", "see /root/x\n"), 1);
    }

    #[test]
    fn a_dependency_upwards_is_found() {
        let table = "| `coeval-a` | `coeval-b` | x |\n| `coeval-b` | nothing | x |\n";
        let manifest = |name: &str, on: &str| {
            let text = format!("name = \"{name}\"\n[dependencies]\n{on}.workspace = true\n");
            SourceFile::new(&format!("crates/{name}/Cargo.toml"), &text)
        };
        let sources = |files| {
            let mut all: Vec<SourceFile> = files;
            all.push(SourceFile::new("ARCHITECTURE.md", table));
            Sources::new(all)
        };
        assert_eq!(crate_graph(&sources(vec![manifest("coeval-a", "coeval-b")])).len(), 0);
        assert_eq!(crate_graph(&sources(vec![manifest("coeval-b", "coeval-a")])).len(), 1);
        assert_eq!(crate_graph(&sources(vec![manifest("coeval-c", "rand")])).len(), 1);
    }

    #[test]
    fn a_variable_without_a_place_in_the_table_is_found() {
        let table = SourceFile::new("docs/environment.md", "| `COEVAL_KNOWN=1` | | `COEVAL_OTHER` |");
        let code = "var(\"COEVAL_KNOWN\"); ${COEVAL_OTHER:-x}; COEVAL_CONSTANT; \"COEVAL_PIECE_\"\nvar(\"COEVAL_GONE\")";
        let files = vec![table, SourceFile::new("a.rs", code)];
        assert_eq!(environment(&Sources::new(files)).len(), 1);
    }

    #[test]
    fn links_are_resolved_from_their_document() {
        let files = vec![
            SourceFile::new("docs/a.md", "[b](b.md) [c](../c.md#x) [d](gone.md) [e](https://e)"),
            SourceFile::new("docs/b.md", ""),
            SourceFile::new("c.md", ""),
        ];
        assert_eq!(links(&Sources::new(files)).len(), 1);
    }
}
