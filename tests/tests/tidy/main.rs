// SPDX-License-Identifier: Apache-2.0
//! The part of our style that a machine can hold: reads the tracked files and names what breaks a rule.
//!
//! Each rule is a function from a file (or all files) to violations, and is itself tested on text that breaks
//! it. A rule with a `RATCHET` allows as many violations as there are today and no more.

mod homes;
mod methods;
mod rooms;
mod rules;
mod sources;
mod words;

use rules::Violation;
use sources::Sources;

fn assert_none(violations: &[Violation]) {
    let list: Vec<_> = violations.iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), list.join("\n"));
}

fn each_rust_file(rule: fn(&sources::SourceFile) -> Vec<Violation>) -> Vec<Violation> {
    Sources::of_repository().rust_files().flat_map(rule).collect()
}

#[test]
fn every_file_starts_with_its_licence() {
    assert_none(&each_rust_file(rules::licence));
}

#[test]
fn every_module_says_what_it_is() {
    assert_none(&each_rust_file(rules::module_doc));
}

#[test]
fn every_crate_says_what_it_owns_and_where_to_start() {
    assert_none(&each_rust_file(rules::crate_doc));
}

#[test]
fn no_file_is_longer_than_a_thousand_lines() {
    assert_none(&each_rust_file(rules::file_length));
}

#[test]
fn no_file_is_named_for_what_it_is_not() {
    assert_none(&each_rust_file(rules::file_name));
}

#[test]
fn long_tests_stand_beside_the_code() {
    assert_none(&each_rust_file(rules::tests_beside_code));
}

#[test]
fn nothing_is_left_for_later_or_commented_out() {
    assert_none(&each_rust_file(rules::unfinished));
}

#[test]
fn numbers_with_a_meaning_have_a_type() {
    assert_none(&each_rust_file(rules::bare_numbers));
}

#[test]
fn every_lock_says_its_rule() {
    assert_none(&each_rust_file(rules::lock_rule));
}

#[test]
fn no_text_names_a_machine() {
    let sources = Sources::of_repository();
    assert_none(&sources.files().flat_map(rules::machine_paths).collect::<Vec<_>>());
}

#[test]
fn crates_depend_downwards_only_and_as_the_architecture_says() {
    assert_none(&rules::crate_graph(&Sources::of_repository()));
}

#[test]
fn the_architecture_names_each_crate_once() {
    assert_none(&rules::architecture_names_crates(&Sources::of_repository()));
}

#[test]
fn links_between_documents_lead_somewhere() {
    assert_none(&rules::links(&Sources::of_repository()));
}

#[test]
fn every_variable_of_the_environment_is_documented() {
    assert_none(&rules::environment(&Sources::of_repository()));
}

#[test]
fn kernel_crates_assert_what_they_rely_on() {
    // A ratchet: asserts per hundred functions outside of tests, never fewer than here. The aim is a hundred.
    for (name, least) in [("coeval-ptree", 8), ("coeval-txn", 18), ("coeval-store", 4)] {
        let density = rules::assert_density(&Sources::of_repository(), name);
        assert!(density >= least, "{name} has {density} asserts per hundred functions, fewer than {least}");
    }
}

#[test]
fn texts_of_other_libraries_are_matched_in_one_file() {
    assert_none(&each_rust_file(words::matched_elsewhere));
    // A ratchet: how many words are looked for, never more than here. The aim is none.
    const MOST: usize = 37;
    let count = words::matches_of_texts(&Sources::of_repository());
    assert!(count <= MOST, "error/texts.rs looks for {count} texts of other libraries, more than {MOST}");
}

#[test]
fn casts_common_types_and_comparisons_are_decided_in_one_file_each() {
    assert_none(&each_rust_file(homes::decided_elsewhere));
    // A ratchet: how often DataFusion says in which type operands are compared, never more than here. The aim is none.
    const MOST: usize = 1;
    let count = homes::comparisons_by_datafusion(&Sources::of_repository());
    assert!(count <= MOST, "DataFusion is asked {count} times in which type operands are compared");
}

#[test]
fn types_of_parameters_are_decided_in_one_room() {
    // A ratchet: how often a parameter gets a type elsewhere, never more than here. The aim is once for each path.
    const MOST: usize = 6;
    let count = homes::parameters_typed_elsewhere(&Sources::of_repository());
    assert!(
        count <= MOST,
        "a parameter gets a type in {count} places outside of parameters, more than {MOST}"
    );
}

#[test]
fn rooms_of_a_crate_import_each_other_one_way() {
    // Within a folder so many may import each other by some way round: together they are still read at one go.
    const FEW: usize = 3;
    // A ratchet: how many rooms the largest ring of a folder has, never more than here. The aim is few.
    const MOST: [(&str, usize); 8] = [
        ("coeval-cluster/driver", 16),
        ("coeval-operators/coded_groups", 5),
        ("coeval-sql/functions/regular", 9),
        ("coeval-sql/pieces", 14),
        ("coeval-sql/point", 8),
        ("coeval-sql/provider", 5),
        ("coeval-sql/scalar", 4),
        ("coeval-sql/types", 4),
    ];
    for ring in rooms::largest_rings(&Sources::of_repository()) {
        let listed = MOST.iter().find(|(folder, _)| *folder == ring.folder).map(|(_, most)| *most);
        let is_whole_crate = !ring.folder.contains('/');
        let most = if is_whole_crate { 0 } else { listed.unwrap_or(FEW) };
        let count = ring.rooms.len();
        assert!(
            count <= most,
            "{}: {count} rooms import each other by some way round, more than {most}: {}",
            ring.folder,
            ring.rooms.join(", ")
        );
    }
}

#[test]
fn a_session_is_no_bag_of_methods() {
    // A ratchet: how many functions a session has, never more than here.
    const MOST: usize = 122;
    let count = methods::count(&Sources::of_repository(), "crates/coeval-sql/src/session", "Session");
    assert!(
        count <= MOST,
        "a session has {count} functions, more than {MOST}: hand over the part that is needed"
    );
}
