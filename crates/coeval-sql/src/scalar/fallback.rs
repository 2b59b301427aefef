// SPDX-License-Identifier: Apache-2.0
//! Expressions that this compiler does not know, run by DataFusion over a batch of one row.
//!
//! For defaults and checks, which may use any function DataFusion has and are not worth a compiler of their
//! own. Costs some microseconds for each evaluation.

use super::cast_function::refuse_words_for_days;
use super::datum::Datum;
use super::environment::Inputs;
use super::node::Scalar;
use super::scope::folded;
use crate::error::{SqlError, SqlState};
use crate::types;
use crate::walk::{WalkMut, step};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use chrono_tz::Tz;
use coeval_store::{ColumnType, ElementType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, DFSchemaRef, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{self, ColumnarValue};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::sql::sqlparser::ast::{self, Expr, Function, Ident, ObjectNamePart, VisitorMut};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Plans for DataFusion what is not compiled here. The dialect of SQL, and the types of both, are the planner's business.
pub(crate) trait PlanExpressions: Send + Sync {
    /// The expression over columns of this schema, its types settled, before anything is computed that may depend on the
    /// zone.
    ///
    /// # Errors
    /// What is wrong with it.
    fn expression_plan(&self, expression: Expr, schema: &DFSchema) -> Result<logical_expr::Expr, SqlError>;

    /// What it is run with, but for the zone.
    fn expression_options(&self) -> &Arc<ConfigOptions>;
}

/// An expression that DataFusion runs over what is compiled here: columns, parameters, and the functions that ask
/// the statement.
///
/// # Locking
/// `planned` is taken to look whether the expression is there for a zone, or to plan it, and nothing else is taken meanwhile.
#[derive(Debug)]
pub(crate) struct Fallback {
    /// The expression, its types settled, before anything is computed that may depend on the zone.
    logical: logical_expr::Expr,
    df_schema: DFSchemaRef,
    options: Arc<ConfigOptions>,
    /// The same for the zone in which it was last run.
    planned: Mutex<(Tz, Arc<dyn PhysicalExpr>)>,
    schema: SchemaRef,
    inputs: Vec<Scalar>,
    ty: ColumnType,
}

/// Compiles a part of the expression; `None` if its type is open.
pub(super) type CompileInput<'c> = dyn FnMut(&Expr) -> Result<Option<Scalar>, SqlError> + 'c;

/// Gives each input that the expression has a place in the one-row batch.
struct Places<'c> {
    compile: &'c mut CompileInput<'c>,
    found: Vec<Scalar>,
}

impl Places<'_> {
    fn place(&mut self, part: &Expr) -> Result<Expr, SqlError> {
        let Some(input) = (self.compile)(part)? else {
            return Err(SqlError::unsupported("a parameter of unknown type in this expression"));
        };
        let known = |found: &Scalar| input.as_column().is_some() && found.as_column() == input.as_column();
        let place = self.found.iter().position(known).unwrap_or_else(|| {
            self.found.push(input);
            self.found.len() - 1
        });
        Ok(Expr::Identifier(Ident::with_quote('"', column_name(place))))
    }
}

fn column_name(place: usize) -> String {
    format!("c{place}")
}

/// Whether a function asks the statement that the expression belongs to.
fn asks_statement(function: &Function) -> bool {
    const NAMES: [&str; 7] = [
        "now",
        "current_timestamp",
        "transaction_timestamp",
        "localtimestamp",
        "current_date",
        "current_time",
        "nextval",
    ];
    match function.name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => NAMES.contains(&folded(name).as_str()),
        _ => false,
    }
}

/// Whether a function asks the session about its sequences, which an expression by itself does not know.
fn asks_session(function: &Function) -> bool {
    const NAMES: [&str; 3] = ["currval", "lastval", "setval"];
    match function.name.0.last() {
        Some(ObjectNamePart::Identifier(name)) => NAMES.contains(&folded(name).as_str()),
        _ => false,
    }
}

impl VisitorMut for Places<'_> {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<SqlError> {
        let is_input = match expression {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
            Expr::Value(value) => matches!(value.value, ast::Value::Placeholder(_)),
            Expr::Function(function) if asks_session(function) => {
                let what = format!("{} in this expression", function.name);
                return ControlFlow::Break(SqlError::unsupported(what));
            }
            Expr::Function(function) => asks_statement(function),
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                return ControlFlow::Break(SqlError::unsupported("a subquery in this expression"));
            }
            _ => false,
        };
        if !is_input {
            return ControlFlow::Continue(());
        }
        step(self.place(expression).map(|place| *expression = place))
    }
}

/// The expression as it is run in a session of this zone, with what is constant computed.
fn planned(
    logical: &logical_expr::Expr,
    schema: &DFSchemaRef,
    options: &ConfigOptions,
    zone: Tz,
) -> Result<Arc<dyn PhysicalExpr>, SqlError> {
    let mut options = options.clone();
    options.execution.time_zone = Some(zone.name().to_owned());
    let options = Arc::new(options);
    let context = SimplifyContext::builder()
        .with_schema(Arc::clone(schema))
        .with_config_options(Arc::clone(&options))
        .build();
    // Some functions exist only until they are simplified.
    let simplified = ExprSimplifier::new(context).simplify(logical.clone())?;
    let properties = ExecutionProps { config_options: Some(options), ..ExecutionProps::new() };
    Ok(create_physical_expr(&simplified, schema, &properties, &PhysicalPlanningContext::default())?)
}

impl Fallback {
    /// Compiles the expression with DataFusion, its inputs with `compile`.
    pub(super) fn new<'c>(
        expression: &Expr,
        planner: &dyn PlanExpressions,
        compile: &'c mut CompileInput<'c>,
    ) -> Result<Self, SqlError> {
        let mut rewritten = expression.clone();
        let mut places = Places { compile, found: Vec::new() };
        rewritten.try_walk_mut(&mut places)?;
        let inputs = places.found;
        let fields: Vec<Field> = inputs
            .iter()
            .enumerate()
            .map(|(place, input)| {
                types::marked_field(Field::new(column_name(place), input.ty.arrow(), true), input.ty)
            })
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let df_schema = DFSchema::try_from(Arc::clone(&schema))?;
        let logical = planner.expression_plan(rewritten, &df_schema)?;
        refuse_words_for_days(&logical)?;
        let df_schema: DFSchemaRef = Arc::new(df_schema);
        let options = Arc::clone(planner.expression_options());
        let expression = planned(&logical, &df_schema, &options, Tz::UTC)?;
        let field = expression.return_field(&schema)?;
        // Text of a length is cut to it when it is assigned, as any text is.
        let marked = types::column_type_of_field(&field);
        let document = marked.filter(|ty| match ty {
            ColumnType::Array(element) => matches!(element, ElementType::Json | ElementType::Jsonb),
            ty => matches!(ty, ColumnType::Json | ColumnType::Jsonb | ColumnType::Varbit(None)),
        });
        let ty = document.or_else(|| types::column_type_of_arrow(field.data_type())).ok_or_else(|| {
            SqlError::new(
                SqlState::FeatureNotSupported,
                format!("a value of type {} is not supported", field.data_type()),
            )
        })?;
        let planned = Mutex::new((Tz::UTC, expression));
        Ok(Self { logical, df_schema, options, planned, schema, inputs, ty })
    }

    /// Whether it counts days by the clocks of the session's zone.
    pub(super) fn counts_days(&self) -> bool {
        let counts = |part: &logical_expr::Expr| match part {
            logical_expr::Expr::ScalarFunction(function) => {
                matches!(function.name(), types::INSTANT_AFTER | types::INSTANT_BEFORE)
            }
            _ => false,
        };
        // The closure cannot fail.
        self.logical.exists(|part| Ok(counts(part))).unwrap_or(true)
    }

    pub(super) fn ty(&self) -> ColumnType {
        self.ty
    }

    /// What it is run over.
    pub(super) fn inputs(&self) -> &[Scalar] {
        &self.inputs
    }

    /// The expression for a session of this zone.
    fn expression(&self, zone: Tz) -> Result<Arc<dyn PhysicalExpr>, SqlError> {
        let mut planned = self.planned.lock();
        if planned.0 != zone {
            *planned = (zone, self::planned(&self.logical, &self.df_schema, &self.options, zone)?);
        }
        Ok(Arc::clone(&planned.1))
    }

    pub(super) fn eval(&self, inputs: Inputs<'_>) -> Result<Datum<'static>, SqlError> {
        let arrays = self.inputs.iter().map(|input| {
            let value = input.eval(inputs)?.value().to_owned();
            Ok(types::scalar_of(&value, input.ty)?.to_array()?)
        });
        let arrays = arrays.collect::<Result<Vec<ArrayRef>, SqlError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?;
        let scalar = match self.expression(inputs.environment.zone())?.evaluate(&batch)? {
            ColumnarValue::Scalar(scalar) => scalar,
            ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0)?,
        };
        types::value_of_scalar(&scalar, self.ty).map(Datum::from)
    }
}
