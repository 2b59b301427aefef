// SPDX-License-Identifier: Apache-2.0
//! Facts of SQL that one file decides: which casts there are, which type several expressions have, which types are compared, and
//! which one a parameter has.

use crate::rules::Violation;
use crate::sources::{SourceFile, Sources};

/// Where the facts are decided, and could be decided once more.
const FOLDER: &str = "crates/coeval-sql/src/";
const CASTS: &str = "crates/coeval-sql/src/types/casts.rs";
const COMMON_TYPE: &str = "crates/coeval-sql/src/types/common_type.rs";
const COMPARISONS: &str = "crates/coeval-sql/src/types/comparisons.rs";
const PARAMETERS: &str = "crates/coeval-sql/src/parameters/";
const NUMBERS: &str = "crates/coeval-sql/src/parameters/numbers.rs";
const REFUSED: &str = "crates/coeval-sql/src/parameters/refused.rs";

/// What shows that a fact is decided, and where it may stand: words of an error, or a rule of DataFusion's.
const SIGNS: [(&str, &str); 11] = [
    ("cannot cast type", CASTS),
    ("but expression is of type", CASTS),
    ("cannot be matched", COMMON_TYPE),
    ("could not convert type", COMMON_TYPE),
    ("type_union_resolution", COMMON_TYPE),
    ("get_coerce_type_for_case_expression", COMMON_TYPE),
    ("operator does not exist", COMPARISONS),
    ("could not identify an", COMPARISONS),
    ("there is no parameter", NUMBERS),
    ("could not determine data type of parameter", REFUSED),
    ("inconsistent types deduced for parameter", REFUSED),
];

/// What gives a parameter a type: the room's own functions, where its rules are asked for, and DataFusion.
const TYPINGS: [&str; 5] =
    ["typed_operands(", "inferred_types(", "note_type(", "parameters.fix(", "get_parameter_types("];

/// Facts that a file decides though another one does.
pub(crate) fn decided_elsewhere(file: &SourceFile) -> Vec<Violation> {
    if !file.path.starts_with(FOLDER) || file.is_test() {
        return vec![];
    }
    let mut found = Vec::new();
    for (number, line) in file.production().lines().enumerate() {
        for (sign, home) in SIGNS {
            if line.contains(sign) && file.path != home {
                found.push(Violation::new(file, number + 1, format!("{home} decides this: ask it")));
            }
        }
    }
    found
}

/// How often DataFusion is asked in which type two operands are compared.
pub(crate) fn comparisons_by_datafusion(sources: &Sources) -> usize {
    let files = sources.rust_files().filter(|file| file.path.starts_with(FOLDER) && !file.is_test());
    files.map(|file| file.production().matches("comparison_coercion(").count()).sum()
}

/// How often a parameter gets a type outside of the room of parameters.
pub(crate) fn parameters_typed_elsewhere(sources: &Sources) -> usize {
    let files = sources.rust_files().filter(|file| file.path.starts_with(FOLDER) && !file.is_test());
    let files = files.filter(|file| !file.path.starts_with(PARAMETERS));
    let typings =
        |file: &SourceFile| TYPINGS.iter().map(|sign| file.production().matches(sign).count()).sum::<usize>();
    files.map(typings).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_that_is_decided_twice_is_found() {
        let count = |path: &str, text: &str| decided_elsewhere(&SourceFile::new(path, text)).len();
        let message = "let message = format!(\"cannot cast type {from} to {to}\");\n";
        assert_eq!(count("crates/coeval-sql/src/a.rs", message), 1);
        assert_eq!(count(CASTS, message), 0);
        assert_eq!(count(COMMON_TYPE, message), 1);
        let message = "let message = format!(\"operator does not exist: {left} = {right}\");\n";
        assert_eq!(count(CASTS, message), 1);
        assert_eq!(count(COMPARISONS, message), 0);
        assert_eq!(count("crates/coeval-sql/src/a/tests.rs", message), 0);
        assert_eq!(count("crates/coeval-sql/src/a.rs", "let ty = type_union_resolution(&types);\n"), 1);
    }

    #[test]
    fn comparisons_are_counted_by_calls() {
        let text = "use x::comparison_coercion;\nlet ty = comparison_coercion(left, right);\n";
        let sources = Sources::new(vec![SourceFile::new("crates/coeval-sql/src/a.rs", text)]);
        assert_eq!(comparisons_by_datafusion(&sources), 1);
    }

    #[test]
    fn types_of_parameters_are_counted_outside_of_their_room() {
        let text = "use crate::parameters::note_type;\nnote_type(&mut all, index, found);\nself.parameters.fix(0, ty);\n";
        let at = |path: &str| Sources::new(vec![SourceFile::new(path, text)]);
        assert_eq!(parameters_typed_elsewhere(&at("crates/coeval-sql/src/a.rs")), 2);
        assert_eq!(parameters_typed_elsewhere(&at("crates/coeval-sql/src/parameters/a.rs")), 0);
        assert_eq!(parameters_typed_elsewhere(&at("crates/coeval-sql/src/a/tests.rs")), 0);
    }
}
