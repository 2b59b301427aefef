// SPDX-License-Identifier: Apache-2.0
//! The types of parameters from what stands beside them in a plan: `coalesce($1, a)`, `CASE WHEN b THEN a ELSE $1 END`,
//! `SELECT a UNION SELECT $1`, `VALUES (1), ($1)`.
//!
//! DataFusion infers a parameter from the other side of an operator, and leaves it without a type elsewhere. What is
//! found here is declared, and the statement planned again.

use crate::error::SqlError;
use crate::parameters::{among, beside, index_in_plan, is_open, of_both};
use crate::types::{column_type_of_arrow, column_type_of_field};
use arrow::datatypes::DataType;
use coeval_store::ColumnType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Between, Case, InList};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use std::collections::{BTreeMap, BTreeSet};

/// Functions whose arguments have one type.
const ALIKE: [&str; 6] = ["coalesce", "greatest", "least", "nullif", "nvl", "make_array"];

/// Functions of two documents: those behind `@>`, `<@` and `||`.
const DOCUMENTS: [&str; 2] = ["coeval_json_contains", "coeval_jsonb_concat"];

/// The types of parameters that stand somewhere without one, or with another one elsewhere, by their numbers from 0: of
/// `at >= $1 AND at < $1 + interval '1 day'` the first place says that it is a date.
///
/// # Errors
/// If the plan cannot be walked: a bug.
pub(super) fn types_beside(plan: &LogicalPlan) -> std::result::Result<BTreeMap<usize, ColumnType>, SqlError> {
    let mut found = Found::default();
    plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                found.look_at(part, &schema);
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        match node {
            LogicalPlan::Union(_) => {
                for place in 0..node.schema().fields().len() {
                    if let Some(ty) = output_type(node, place) {
                        found.is_output(node, place, &ty);
                    }
                }
            }
            LogicalPlan::Values(values) => {
                for place in 0..values.schema.fields().len() {
                    found.are_alike(values.values.iter().filter_map(|row| row.get(place)), &schema);
                }
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let Found { mut types, bare, told, differing, documents } = found;
    types.retain(|place, _| bare.contains(place));
    // One beside a numeric would be rounded to the digits of that.
    let first = told.into_iter().filter(|(place, ty)| differing.contains(place) || ty.is_decimal());
    types.extend(first);
    let typed = |(place, ty): (usize, DataType)| Some((place, beside(column_type_of_arrow(&ty)?)));
    let documents = documents.into_iter().map(|place| (place, ColumnType::Jsonb));
    Ok(types.into_iter().filter_map(typed).chain(documents).collect())
}

/// The place of a parameter that has no type here.
fn bare_parameter(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Alias(alias) => bare_parameter(&alias.expr),
        other => index_in_plan(other).filter(|_| is_open(other)),
    }
}

/// What an output of a plan is, as far as it has a type.
fn output_type(plan: &LogicalPlan, place: usize) -> Option<DataType> {
    match plan {
        LogicalPlan::Union(union) => {
            let types: Vec<_> = union.inputs.iter().filter_map(|input| output_type(input, place)).collect();
            among(&types)
        }
        other => {
            let ty = other.schema().fields().get(place)?.data_type();
            (!ty.is_null()).then(|| ty.clone())
        }
    }
}

#[derive(Default)]
struct Found {
    types: BTreeMap<usize, DataType>,
    /// The parameters that stand somewhere without a type.
    bare: BTreeSet<usize>,
    /// The types that parameters have where they stand with one first.
    told: BTreeMap<usize, DataType>,
    /// Those that stand with another one as well.
    differing: BTreeSet<usize>,
    /// Those beside a `jsonb`, whose type is a text's in plans.
    documents: BTreeSet<usize>,
}

impl Found {
    /// The first place that says what a parameter is counts, as in PostgreSQL.
    fn is(&mut self, place: usize, ty: &DataType) {
        self.types.entry(place).or_insert_with(|| ty.clone());
    }

    fn look_at(&mut self, expression: &Expr, schema: &DFSchema) {
        match expression {
            Expr::Placeholder(parameter) => {
                let Some(place) = index_in_plan(expression) else { return };
                match &parameter.field {
                    Some(field) if !field.data_type().is_null() => {
                        self.is(place, field.data_type());
                        let first = self.told.entry(place).or_insert_with(|| field.data_type().clone());
                        if *first != *field.data_type() {
                            *first = of_both(first, field.data_type());
                            self.differing.insert(place);
                        }
                    }
                    _ => {
                        self.bare.insert(place);
                    }
                }
            }
            // What VALUES puts around a parameter, for the type of its column.
            Expr::Cast(cast) => {
                if let Some(place) = bare_parameter(&cast.expr) {
                    self.is(place, cast.field.data_type());
                }
            }
            Expr::ScalarFunction(function) if function.name() == "array_has" => {
                if let [list, element] = &function.args[..]
                    && let (Some(place), Ok(DataType::List(item))) =
                        (bare_parameter(element), list.get_type(schema))
                    && !item.data_type().is_null()
                {
                    self.is(place, item.data_type());
                }
            }
            Expr::ScalarFunction(function) if DOCUMENTS.contains(&function.name()) => {
                if let [left, right] = &function.args[..] {
                    let is_jsonb = |side: &Expr| {
                        let field = side.to_field(schema).map(|(_, field)| field);
                        field.is_ok_and(|field| column_type_of_field(&field) == Some(ColumnType::Jsonb))
                    };
                    self.documents.extend(bare_parameter(left).filter(|_| is_jsonb(right)));
                    self.documents.extend(bare_parameter(right).filter(|_| is_jsonb(left)));
                }
            }
            Expr::ScalarFunction(function) if ALIKE.contains(&function.name()) => {
                self.are_alike(&function.args, schema);
            }
            Expr::Case(Case { expr, when_then_expr, else_expr }) => {
                let results = when_then_expr.iter().map(|(_, then)| then.as_ref());
                self.are_alike(results.chain(else_expr.as_deref()), schema);
                if let Some(operand) = expr {
                    let compared = when_then_expr.iter().map(|(when, _)| when.as_ref());
                    self.are_alike(compared.chain([operand.as_ref()]), schema);
                }
            }
            Expr::Between(Between { expr, low, high, .. }) => {
                self.are_alike([expr.as_ref(), low.as_ref(), high.as_ref()], schema);
            }
            Expr::InList(InList { expr, list, .. }) => {
                self.are_alike(list.iter().chain([expr.as_ref()]), schema);
            }
            _ => {}
        }
    }

    /// Expressions of one type: what has a type gives it to the parameters that have none.
    fn are_alike<'e>(&mut self, expressions: impl IntoIterator<Item = &'e Expr>, schema: &DFSchema) {
        let (mut types, mut parameters) = (Vec::new(), Vec::new());
        for expression in expressions {
            match bare_parameter(expression) {
                Some(place) => parameters.push(place),
                None => types.extend(expression.get_type(schema).ok().filter(|ty| !ty.is_null())),
            }
        }
        if parameters.is_empty() {
            return;
        }
        if let Some(ty) = among(&types) {
            parameters.into_iter().for_each(|place| self.is(place, &ty));
        }
    }

    /// An output of a plan is of this type, whichever parameter it is.
    fn is_output(&mut self, plan: &LogicalPlan, place: usize, ty: &DataType) {
        match plan {
            LogicalPlan::Projection(projection) => {
                if let Some(parameter) = projection.expr.get(place).and_then(bare_parameter) {
                    self.is(parameter, ty);
                }
            }
            LogicalPlan::Union(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::SubqueryAlias(_) => {
                plan.inputs().into_iter().for_each(|input| self.is_output(input, place, ty));
            }
            _ => {}
        }
    }
}
