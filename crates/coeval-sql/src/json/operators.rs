// SPDX-License-Identifier: Apache-2.0
//! The operators of JSON, and its aggregates: which function stands for each.

use datafusion::sql::sqlparser::ast::BinaryOperator;

/// The function behind an operator; `None` if it is none of JSON.
pub(crate) fn operator(operator: &BinaryOperator) -> Option<&'static str> {
    Some(match operator {
        BinaryOperator::Arrow => "coeval_json_get",
        BinaryOperator::LongArrow => "coeval_json_get_text",
        BinaryOperator::HashArrow => "coeval_json_path",
        BinaryOperator::HashLongArrow => "coeval_json_path_text",
        BinaryOperator::AtArrow | BinaryOperator::ArrowAt => "coeval_json_contains",
        BinaryOperator::Question => "coeval_json_exists",
        BinaryOperator::QuestionPipe => "coeval_json_exists_any",
        BinaryOperator::QuestionAnd => "coeval_json_exists_all",
        BinaryOperator::HashMinus => "jsonb_delete_path",
        BinaryOperator::AtQuestion => "coeval_jsonb_path_exists",
        BinaryOperator::AtAt => "coeval_jsonb_path_holds",
        _ => return None,
    })
}

/// The function that makes a member of an object of a key and a value.
pub(crate) const MEMBER: &str = "coeval_json_member";

/// What `json_agg` of the rows of a table is called once they are documents.
pub(crate) const ROWS: &str = "coeval_json_agg_rows";

/// What an aggregate is made of: the function that makes JSON of each value, and that which makes one document of all.
pub(crate) fn aggregated(aggregate: &str) -> Option<(&'static str, &'static str)> {
    Some(match aggregate {
        "json_agg" => ("to_json", "coeval_json_collected"),
        ROWS => ("to_json", "coeval_json_rows_collected"),
        "jsonb_agg" => ("to_jsonb", "coeval_jsonb_collected"),
        "json_object_agg" => (MEMBER, "coeval_json_members"),
        "jsonb_object_agg" => (MEMBER, "coeval_jsonb_members"),
        _ => return None,
    })
}
