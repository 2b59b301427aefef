// SPDX-License-Identifier: Apache-2.0
//! The types of parameters from where they stand in a plan: `coalesce($1, a)`, `a BETWEEN $1 AND $2`, `a IN ($1, b)`,
//! `SELECT a UNION SELECT $1`, `VALUES (1), ($1)`.
//!
//! A parameter beside an operator has its type since that was planned ([`typed_operands`](super::typed_operands)). Elsewhere a plan has
//! none, or what DataFusion takes it for: a bound of BETWEEN, a member of IN and a pattern for what they are compared with. What is
//! found here counts. If the plan has something else, the statement is planned again with these types.
//!
//! The first place that says something counts. So places are read in the order of PostgreSQL: FROM with the conditions of its joins,
//! what is selected, WHERE, HAVING, ORDER BY; from the left to the right within each.

use super::in_plan::{index_in_plan, operand_type};
use super::known::note_type;
use super::operands::{among, beside, of_both, read_as};
use crate::error::SqlError;
use crate::parse::FRAME_OFFSET;
use crate::stack::with_room;
use crate::types::{column_type_of_arrow, column_type_of_field};
use arrow::datatypes::DataType;
use coeval_store::ColumnType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{
    Between, Case, Exists, InList, InSubquery, SetComparison, WindowFunction,
};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Distinct, Expr, ExprSchemable, Like, LogicalPlan, Operator};

/// Functions whose arguments have one type.
const ALIKE: [&str; 6] = ["coalesce", "greatest", "least", "nullif", "nvl", "make_array"];

/// Functions of an array and its elements.
const OF_ELEMENTS: [&str; 6] = [
    "array_has",
    "array_append",
    "array_position",
    "array_positions",
    "array_remove_all",
    "array_replace_all",
];

/// What a plan says of the parameters of its statement.
pub(crate) struct InferredTypes {
    /// Their types, as far as they are known.
    pub(crate) types: Vec<Option<ColumnType>>,
    /// Whether the plan has these wherever a parameter stands.
    pub(crate) are_planned: bool,
}

/// The types of the parameters in a plan, of which those in `known` were known before.
///
/// # Errors
/// If the plan cannot be walked: a bug.
pub(crate) fn inferred_types(
    plan: &LogicalPlan,
    known: &[Option<ColumnType>],
) -> Result<InferredTypes, SqlError> {
    let mut places = Places { known, types: known.to_vec(), planned: Vec::new() };
    places.read(plan)?;
    let Places { types, planned, .. } = places;
    let is_planned = |(index, ty): &(usize, Option<ColumnType>)| {
        let found = types.get(*index).copied().flatten();
        found.is_none() || found == *ty
    };
    let are_planned = planned.iter().all(is_planned);
    Ok(InferredTypes { types, are_planned })
}

/// What has been read so far.
struct Places<'k> {
    /// The types that were known before.
    known: &'k [Option<ColumnType>],
    /// The types by now.
    types: Vec<Option<ColumnType>>,
    /// The parameters that were not known, wherever they stand, with their types there.
    planned: Vec<(usize, Option<ColumnType>)>,
}

impl Places<'_> {
    /// Reads a query. Of its nodes those that are one SELECT are read together.
    fn read(&mut self, plan: &LogicalPlan) -> Result<()> {
        with_room(|| {
            let (mut select, mut from) = (Vec::new(), plan);
            while let Some(input) = input_within_select(from) {
                select.push(from);
                from = input;
            }
            from.inputs().into_iter().try_for_each(|input| self.read(input))?;
            self.look_at_node(from)?;
            let (conditions, others): (Vec<_>, Vec<_>) =
                select.into_iter().partition(|node| matches!(node, LogicalPlan::Filter(_)));
            let (behind, outputs): (Vec<_>, Vec<_>) = others
                .into_iter()
                .partition(|node| matches!(node, LogicalPlan::Sort(_) | LogicalPlan::Limit(_)));
            // HAVING stands above WHERE.
            let mut nodes = outputs.into_iter().chain(conditions.into_iter().rev()).chain(behind);
            nodes.try_for_each(|node| self.look_at_node(node))
        })
    }

    fn look_at_node(&mut self, node: &LogicalPlan) -> Result<()> {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                self.look_at(part, &schema)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        match node {
            LogicalPlan::Union(_) => {
                for column in 0..node.schema().fields().len() {
                    if let Some(ty) = output_type(node, column) {
                        self.is_output(node, column, &ty);
                    }
                }
            }
            LogicalPlan::Values(values) => {
                for column in 0..values.schema.fields().len() {
                    self.are_alike(values.values.iter().filter_map(|row| row.get(column)), &schema);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn look_at(&mut self, expression: &Expr, schema: &DFSchema) -> Result<()> {
        match expression {
            Expr::Placeholder(parameter) => {
                let Some(index) = self.parameter(expression) else { return Ok(()) };
                let field = parameter.field.as_ref().filter(|field| !field.data_type().is_null());
                let planned = field.and_then(|field| column_type_of_field(field)).map(read_as);
                self.planned.push((index, planned));
                if let Some(ty) = planned {
                    self.is(index, ty);
                }
            }
            // What VALUES puts around a parameter, for the type of its column.
            Expr::Cast(cast) => {
                if let Some(index) = self.open(&cast.expr) {
                    self.is_of_arrow(index, cast.field.data_type());
                }
            }
            Expr::ScalarFunction(function) if OF_ELEMENTS.contains(&function.name()) => {
                if let [array, elements @ ..] = &function.args[..] {
                    elements.iter().for_each(|element| self.is_element(element, array, schema));
                }
            }
            Expr::ScalarFunction(function) if function.name() == "array_prepend" => {
                if let [element, array] = &function.args[..] {
                    self.is_element(element, array, schema);
                }
            }
            Expr::ScalarFunction(function) if ALIKE.contains(&function.name()) => {
                self.are_alike(&function.args, schema);
            }
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::IsDistinctFrom | Operator::IsNotDistinctFrom,
                right,
            }) => self.are_compared(left, right, schema),
            Expr::Like(Like { expr, pattern, .. }) | Expr::SimilarTo(Like { expr, pattern, .. }) => {
                self.are_compared(expr, pattern, schema);
            }
            Expr::Case(case) => self.look_at_case(case, schema),
            Expr::WindowFunction(window) => self.look_at_frame(window, schema),
            Expr::Between(Between { expr, low, high, .. }) => {
                self.are_compared(expr, low, schema);
                self.are_compared(expr, high, schema);
                // What the upper bound says of the operand, it says of the lower bound.
                self.are_compared(expr, low, schema);
            }
            Expr::InList(list) => self.look_at_list(list, schema),
            Expr::ScalarSubquery(subquery) | Expr::Exists(Exists { subquery, .. }) => {
                self.read(&subquery.subquery)?;
            }
            Expr::InSubquery(InSubquery { expr, subquery, .. })
            | Expr::SetComparison(SetComparison { expr, subquery, .. }) => {
                self.read(&subquery.subquery)?;
                let rows = subquery.subquery.schema();
                let row = rows.fields().first().filter(|field| !field.data_type().is_null());
                if let (Some(index), Some(ty)) =
                    (self.open(expr), row.and_then(|field| column_type_of_field(field)))
                {
                    self.is(index, ty);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// An offset of a window's frame is of the type of what the window is ordered by, and an interval beside dates and times.
    fn look_at_frame(&mut self, window: &WindowFunction, schema: &DFSchema) {
        let Some(key) = window.params.order_by.first() else { return };
        for kept in &window.params.partition_by {
            let Expr::ScalarFunction(kept) = kept else { continue };
            let offset = kept.args.last().filter(|_| kept.name() == FRAME_OFFSET);
            let Some(index) = offset.and_then(|offset| self.open(offset)) else { continue };
            match key.expr.get_type(schema) {
                Ok(ty) if ty.is_temporal() => self.is(index, ColumnType::Interval),
                Ok(ty) => self.is_of_arrow(index, &ty),
                Err(_) => {}
            }
        }
    }

    /// CASE compares its operand with each WHEN for itself, and has one of the results.
    fn look_at_case(&mut self, case: &Case, schema: &DFSchema) {
        let Case { expr, when_then_expr, else_expr } = case;
        if let Some(operand) = expr {
            let compared = || when_then_expr.iter().map(|(when, _)| when.as_ref());
            if self.open(operand).is_some() {
                self.are_alike(compared().chain([operand.as_ref()]), schema);
            }
            compared().for_each(|when| self.are_compared(operand, when, schema));
        }
        let results = when_then_expr.iter().map(|(_, then)| then.as_ref());
        self.are_alike(results.chain(else_expr.as_deref()), schema);
    }

    /// IN compares its operand with each member that names a column for itself, and with all others, if there are several, in the type
    /// that they have with it.
    fn look_at_list(&mut self, list: &InList, schema: &DFSchema) {
        let InList { expr, list, .. } = list;
        if self.open(expr).is_some() {
            self.are_alike(list.iter().chain([expr.as_ref()]), schema);
        }
        let constants = || list.iter().filter(|member| !member.any_column_refs());
        if constants().nth(1).is_some() {
            self.are_alike(constants().chain([expr.as_ref()]), schema);
        }
        list.iter().for_each(|member| self.are_compared(expr, member, schema));
    }

    /// The index of the parameter that an expression is, unless its type was known before.
    fn parameter(&self, expression: &Expr) -> Option<usize> {
        let is_known = |index: usize| self.known.get(index).copied().flatten().is_some();
        match expression {
            Expr::Alias(alias) => self.parameter(&alias.expr),
            other => index_in_plan(other).filter(|index| !is_known(*index)),
        }
    }

    /// The index of the parameter that an expression is, if no place has said its type so far.
    fn open(&self, expression: &Expr) -> Option<usize> {
        self.parameter(expression).filter(|index| self.found(*index).is_none())
    }

    /// What places have said so far.
    fn found(&self, index: usize) -> Option<ColumnType> {
        self.types.get(index).copied().flatten()
    }

    /// The place of a parameter says this type. The first one counts.
    fn is(&mut self, index: usize, ty: ColumnType) {
        let ty = beside(read_as(ty));
        if let Some(first) = note_type(&mut self.types, index, Some(ty)) {
            self.types[index] = Some(of_both(first, ty));
        }
    }

    fn is_of_arrow(&mut self, index: usize, ty: &DataType) {
        if let Some(ty) = column_type_of_arrow(ty) {
            self.is(index, ty);
        }
    }

    /// An expression is of the type of an array's elements.
    fn is_element(&mut self, element: &Expr, array: &Expr, schema: &DFSchema) {
        if let (Some(index), Ok(DataType::List(item))) = (self.open(element), array.get_type(schema))
            && !item.data_type().is_null()
        {
            self.is_of_arrow(index, item.data_type());
        }
    }

    /// Two operands of one comparison: one that has a type gives it to a parameter that has none.
    fn are_compared(&mut self, left: &Expr, right: &Expr, schema: &DFSchema) {
        for (one, other) in [(left, right), (right, left)] {
            let Some(index) = self.open(one) else { continue };
            let ty = match self.parameter(other) {
                Some(other) => self.found(other),
                None => operand_type(other, schema),
            };
            // A literal has no type by itself.
            let is_literal = matches!(other, Expr::Literal(scalar, _) if scalar.data_type().is_string());
            if let Some(ty) = ty.filter(|_| !is_literal) {
                self.is(index, ty);
            }
        }
    }

    /// Expressions of one type: those that have types give the one of all to the parameters that have none.
    fn are_alike<'e>(&mut self, expressions: impl IntoIterator<Item = &'e Expr>, schema: &DFSchema) {
        let (mut types, mut open) = (Vec::new(), Vec::new());
        for expression in expressions {
            match self.parameter(expression) {
                None => types.extend(expression.get_type(schema).ok().filter(|ty| !ty.is_null())),
                Some(index) => match self.found(index) {
                    Some(ty) => types.push(ty.arrow()),
                    None => open.push(index),
                },
            }
        }
        if open.is_empty() {
            return;
        }
        if let Some(ty) = among(&types) {
            open.into_iter().for_each(|index| self.is_of_arrow(index, &ty));
        }
    }

    /// An output of a plan is of this type, whichever parameter it is.
    fn is_output(&mut self, plan: &LogicalPlan, column: usize, ty: &DataType) {
        match plan {
            LogicalPlan::Projection(projection) => {
                if let Some(index) = projection.expr.get(column).and_then(|output| self.open(output)) {
                    self.is_of_arrow(index, ty);
                }
            }
            LogicalPlan::Union(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::SubqueryAlias(_) => {
                plan.inputs().into_iter().for_each(|input| self.is_output(input, column, ty));
            }
            _ => {}
        }
    }
}

/// What a node of a SELECT reads, if that is another node of it; `None` for what stands in FROM.
fn input_within_select(node: &LogicalPlan) -> Option<&LogicalPlan> {
    match node {
        LogicalPlan::Projection(projection) => Some(projection.input.as_ref()),
        LogicalPlan::Filter(filter) => Some(filter.input.as_ref()),
        LogicalPlan::Aggregate(aggregate) => Some(aggregate.input.as_ref()),
        LogicalPlan::Window(window) => Some(window.input.as_ref()),
        LogicalPlan::Sort(sort) => Some(sort.input.as_ref()),
        LogicalPlan::Limit(limit) => Some(limit.input.as_ref()),
        LogicalPlan::Distinct(Distinct::All(input)) => Some(input.as_ref()),
        LogicalPlan::Distinct(Distinct::On(distinct)) => Some(distinct.input.as_ref()),
        _ => None,
    }
}

/// What an output of a plan is, as far as it has a type.
fn output_type(plan: &LogicalPlan, column: usize) -> Option<DataType> {
    match plan {
        LogicalPlan::Union(union) => {
            let types: Vec<_> = union.inputs.iter().filter_map(|input| output_type(input, column)).collect();
            among(&types)
        }
        other => {
            let ty = other.schema().fields().get(column)?.data_type();
            (!ty.is_null()).then(|| ty.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_plan::parameter_field;
    use super::*;
    use arrow::datatypes::{Field, Schema};
    use datafusion::logical_expr::expr::Placeholder;
    use datafusion::logical_expr::{LogicalPlanBuilder, binary_expr, col, lit, placeholder, table_scan};

    fn table() -> LogicalPlanBuilder {
        let fields = [Field::new("i", DataType::Int32, true), Field::new("l", DataType::Int64, true)];
        table_scan(Some("t"), &Schema::new(fields.to_vec()), None).unwrap()
    }

    /// The parameter as an operator has left it.
    fn typed(ty: DataType) -> Expr {
        Expr::Placeholder(Placeholder { id: "$1".to_owned(), field: Some(parameter_field(ty)) })
    }

    fn inferred(plan: LogicalPlanBuilder, known: &[Option<ColumnType>]) -> (Vec<Option<ColumnType>>, bool) {
        let InferredTypes { types, are_planned } = inferred_types(&plan.build().unwrap(), known).unwrap();
        (types, are_planned)
    }

    #[test]
    fn a_place_without_a_type_is_found() {
        let of_several = col("i").in_list(vec![placeholder("$1"), lit(2.5)], false);
        let of_columns = col("i").in_list(vec![placeholder("$2"), col("l")], false);
        let bounds = placeholder("$3").between(col("i"), col("l"));
        let plan = table().filter(of_several.and(of_columns).and(bounds)).unwrap();
        let types = [ColumnType::Double, ColumnType::Int, ColumnType::Int].map(Some);
        assert_eq!(inferred(plan, &[]), (types.to_vec(), false));
    }

    #[test]
    fn places_are_read_in_the_order_of_postgresql() {
        let sum = || [binary_expr(col("i"), Operator::Plus, typed(DataType::Int32))];
        let filtered = || table().filter(col("l").eq(typed(DataType::Int64))).unwrap();
        let selected_first = || filtered().project(sum()).unwrap();
        assert_eq!(inferred(selected_first(), &[]), (vec![Some(ColumnType::Int)], false));
        let from_first = filtered().project([col("i")]).unwrap().alias("x").unwrap().project(sum()).unwrap();
        assert_eq!(inferred(from_first, &[]), (vec![Some(ColumnType::BigInt)], false));
        let known = [Some(ColumnType::SmallInt)];
        assert_eq!(inferred(selected_first(), &known), (known.to_vec(), true));
    }
}
