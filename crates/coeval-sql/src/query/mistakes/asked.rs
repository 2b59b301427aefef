// SPDX-License-Identifier: Apache-2.0
//! A refused query as it is planned once more, with functions around what may have a type that does not go with its place.
//!
//! DataFusion checks types while it plans, and tells of those that do not fit in texts alone. A function is asked for its type at the
//! same moment, with the types of its arguments: these ones say what is wrong as errors of ours.
//!
//! | in the query | when it is asked |
//! |---|---|
//! | `NOT x`, `x AND y`, `WHERE x`, `ON x`, `WHEN x` | `x` in a function that takes a condition and gives it |
//! | `-x` | `x` in one that takes what has a sign |
//! | `f(x, y)` | one that takes what `f` takes, and has the type that `f` has |
//! | the same of an aggregate or a window | `x` in one that takes what `f` takes, and gives `x` |
//! | `f(x)`, where there is no `f` | one that takes nothing |
//!
//! Each begins with the line and the column that the error is about. Such a plan is never run.

use crate::error::{SqlError, SqlState, own_error};
use crate::names::fold;
use crate::query::dialect::text;
use crate::query::scopes::constraint_mut;
use crate::query::typing::{is_any_numeric, is_condition, no_operator};
use crate::select::call;
use crate::types::{no_condition, no_prefix_operator, require_common_type, type_in_words};
use crate::walk::WalkMut;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::type_coercion::functions::{UDFCoercionExt, fields_with_udf};
use datafusion::logical_expr::type_coercion::{is_interval, is_signed_numeric, is_timestamp};
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility, WindowUDF,
};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, JoinConstraint,
    ObjectNamePart, Select, Spanned, UnaryOperator, Value, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Location;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Whether a query is planned to run, or to find what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::query) enum Asks {
    Nothing,
    Why,
}

const CONDITION: &str = "coeval_asked_condition";

const SIGN: &str = "coeval_asked_sign";

/// What the name of the function begins with that is asked for a call; the called one's is behind it.
const CALL: &str = "coeval_asked_call_";

/// The same, for a call with names of arguments that nothing takes.
const NAMED: &str = "coeval_asked_named_";

/// How many arguments say where it is.
const PLACE_ARGUMENTS: usize = 2;

/// How many are in front of those of a call: the last one says in whose place it stands.
const CALL_ARGUMENTS: usize = PLACE_ARGUMENTS + 1;

/// The function of this name that is there only for queries that are asked; `functions` are those that may be called.
pub(in crate::query) fn asked_function(
    asks: Asks,
    name: &str,
    functions: &SessionState,
) -> Option<Arc<ScalarUDF>> {
    if asks == Asks::Nothing {
        return None;
    }
    let question = match name {
        CONDITION => Question::Condition,
        SIGN => Question::Sign,
        other => match other.strip_prefix(CALL) {
            Some(called) => Question::Call(Callee::named(called, functions)),
            None => other.strip_prefix(NAMED).map(|_| Question::Call(None))?,
        },
    };
    let signature = Signature::variadic_any(Volatility::Immutable);
    Some(Arc::new(ScalarUDF::new_from_impl(Asked { name: name.to_owned(), question, signature })))
}

/// Puts the functions into a query, or into an expression; their names.
pub(super) fn ask(syntax: &mut impl VisitMut, functions: &SessionState) -> Vec<String> {
    let mut asking = Asking { functions, known: Vec::new(), names: Vec::new() };
    // Nothing breaks off the visit.
    let _ = syntax.walk_mut(&mut asking);
    asking.names
}

/// What may be called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Callee {
    Scalar(Arc<ScalarUDF>),
    Aggregate(Arc<AggregateUDF>),
    Window(Arc<WindowUDF>),
    /// The rows of an array.
    Unnest,
    /// What DataFusion looks up elsewhere, and checks by itself.
    Other,
}

impl Callee {
    /// What goes by a name; `None` if nothing does.
    fn named(name: &str, functions: &SessionState) -> Option<Self> {
        if let Some(function) = functions.scalar_functions().get(name) {
            return Some(Self::Scalar(Arc::clone(function)));
        }
        if let Some(function) = functions.aggregate_functions().get(name) {
            return Some(Self::Aggregate(Arc::clone(function)));
        }
        if let Some(function) = functions.window_functions().get(name) {
            return Some(Self::Window(Arc::clone(function)));
        }
        match name {
            "unnest" => Some(Self::Unnest),
            "unnest_outer" | "make_map" | "map" => Some(Self::Other),
            name => functions.higher_order_functions().contains_key(name).then_some(Self::Other),
        }
    }

    /// Whether its arguments have names.
    fn knows_names(&self) -> bool {
        let signature = match self {
            Self::Scalar(function) => function.signature(),
            Self::Aggregate(function) => function.signature(),
            Self::Window(function) => function.signature(),
            Self::Unnest | Self::Other => return false,
        };
        signature.parameter_names.is_some()
    }

    /// Refuses arguments of these types.
    ///
    /// # Errors
    /// `42883`, or what the function itself says of them.
    fn take(&self, name: &str, fields: &[FieldRef]) -> Result<(), SqlError> {
        let is_taken = match self {
            Self::Scalar(function) => return take(function.as_ref(), name, fields),
            Self::Aggregate(function) => return take(function.as_ref(), name, fields),
            Self::Window(function) => return take(function.as_ref(), name, fields),
            Self::Unnest => fields.iter().all(|field| is_array(field.data_type())),
            Self::Other => true,
        };
        if is_taken { Ok(()) } else { Err(no_function(name, fields)) }
    }
}

fn is_array(ty: &DataType) -> bool {
    let is_list = matches!(ty, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..));
    is_list || matches!(ty, DataType::Struct(_) | DataType::Null)
}

fn take<F: UDFCoercionExt>(function: &F, name: &str, fields: &[FieldRef]) -> Result<(), SqlError> {
    fit(function, fields).map_err(|own| own.unwrap_or_else(|| no_function(name, fields)))
}

/// Whether a function takes arguments of these types.
///
/// # Errors
/// What it says itself if it does not, if that is an error of ours.
pub(super) fn fit<F: UDFCoercionExt>(function: &F, fields: &[FieldRef]) -> Result<(), Option<SqlError>> {
    let refused = match &function.signature().type_signature {
        // It may have an error of ours, of which a text would be made on the way.
        TypeSignature::UserDefined => {
            let types: Vec<DataType> = fields.iter().map(|field| field.data_type().clone()).collect();
            function.coerce_types(&types).err()
        }
        _ => fields_with_udf(fields, function).err(),
    };
    match refused {
        None => Ok(()),
        Some(error) => Err(own_error(&error).cloned()),
    }
}

/// `42883` for a call of a function that there is not, or not for these types, or for the operator that a call stands for; `42804` for
/// what PostgreSQL calls no function and whose operands have no type in common.
pub(super) fn no_function(name: &str, fields: &[FieldRef]) -> SqlError {
    let construct = match name {
        "coalesce" => Some("COALESCE"),
        "greatest" => Some("GREATEST"),
        "least" => Some("LEAST"),
        // What an array becomes that names columns.
        "make_array" => Some("ARRAY"),
        _ => None,
    };
    if let Some(construct) = construct
        && let Err(error) = require_common_type(construct, fields.iter().map(|field| field.data_type()))
    {
        return error;
    }
    match (name, fields) {
        ("nullif", [left, right]) => return no_operator(left.data_type(), &"=", right.data_type()),
        // What `= ANY (array)` becomes.
        ("array_has", [array, element]) => {
            if let DataType::List(member) = array.data_type() {
                return no_operator(element.data_type(), &"=", member.data_type());
            }
        }
        _ => {}
    }
    let types: Vec<String> = fields.iter().map(|field| type_in_words(field.data_type())).collect();
    let message = format!("function {name}({}) does not exist", types.join(", "));
    SqlError::new(SqlState::UndefinedFunction, message).with_hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    )
}

/// `42883` for what has no sign.
pub(super) fn no_sign(ty: &DataType) -> SqlError {
    no_prefix_operator(&"-", &type_in_words(ty))
}

pub(super) fn has_sign(ty: &DataType) -> bool {
    ty.is_null() || is_signed_numeric(ty) || is_any_numeric(ty) || is_interval(ty) || is_timestamp(ty)
}

/// What a function is there to find.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Question {
    Condition,
    Sign,
    Call(Option<Callee>),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Asked {
    name: String,
    question: Question,
    signature: Signature,
}

impl Asked {
    /// The type of what it stands for, if what it is about fits.
    fn answer(&self, arguments: &ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let constant = |place: usize| arguments.scalar_arguments.get(place).copied().flatten();
        let field = |place: usize| {
            let lost = || SqlError::internal(format!("{} has too few arguments", self.name));
            arguments.arg_fields.get(place).ok_or_else(lost)
        };
        match &self.question {
            Question::Condition => {
                let clause = constant(PLACE_ARGUMENTS).and_then(|clause| clause.try_as_str().flatten());
                let ty = field(PLACE_ARGUMENTS + 1)?.data_type();
                // A literal is read as what stands around it says.
                let is_open = constant(PLACE_ARGUMENTS + 1).is_some() && ty.is_string();
                if !is_open && !is_condition(ty) {
                    return Err(no_condition(clause.unwrap_or_default(), &type_in_words(ty)).into());
                }
                Ok(Arc::new(Field::new(&self.name, DataType::Boolean, true)))
            }
            Question::Sign => {
                let operand = field(PLACE_ARGUMENTS)?;
                if !has_sign(operand.data_type()) {
                    return Err(no_sign(operand.data_type()).into());
                }
                Ok(Arc::clone(operand))
            }
            Question::Call(callee) => {
                let called = self.name.strip_prefix(CALL).or_else(|| self.name.strip_prefix(NAMED));
                let of_call = ReturnFieldArgs {
                    arg_fields: arguments.arg_fields.get(CALL_ARGUMENTS..).unwrap_or_default(),
                    scalar_arguments: arguments.scalar_arguments.get(CALL_ARGUMENTS..).unwrap_or_default(),
                };
                let stands = match constant(PLACE_ARGUMENTS) {
                    Some(ScalarValue::Int64(Some(place))) => usize::try_from(*place).unwrap_or_default(),
                    _ => 0,
                };
                let name = called.unwrap_or(&self.name);
                let Some(callee) = callee else { return Err(no_function(name, of_call.arg_fields).into()) };
                callee.take(name, of_call.arg_fields)?;
                match callee {
                    Callee::Scalar(function) => {
                        let arg_fields = fields_with_udf(of_call.arg_fields, function.as_ref())?;
                        let scalar_arguments = of_call.scalar_arguments;
                        let of_call = ReturnFieldArgs { arg_fields: &arg_fields, scalar_arguments };
                        function.return_field_from_args(of_call)
                    }
                    _ => Ok(Arc::clone(field(CALL_ARGUMENTS + stands)?)),
                }
            }
        }
    }
}

impl ScalarUDFImpl for Asked {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(SqlError::internal("the type of an asked function depends on its arguments").into())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let number = |place: usize| match arguments.scalar_arguments.get(place) {
            Some(Some(ScalarValue::Int64(Some(number)))) => u64::try_from(*number).unwrap_or_default(),
            _ => 0,
        };
        let place = (number(0), number(1));
        // The place of a sign is in front of what has it, and not known.
        let has_place = !matches!(self.question, Question::Sign);
        self.answer(&arguments).map_err(|error| {
            let own = own_error(&error).filter(|own| has_place && own.position.is_none());
            match own.cloned() {
                Some(own) => own.at(place.0, place.1).into(),
                None => error,
            }
        })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(SqlError::internal("an asked query has been run").into())
    }
}

/// Puts the functions in.
struct Asking<'f> {
    functions: &'f SessionState,
    /// Expressions that have been asked, and where the first of them stood: those that are the same have to stay the same.
    known: Vec<(Expr, Location)>,
    names: Vec<String>,
}

impl Asking<'_> {
    fn place_of(&mut self, expression: &Expr) -> Location {
        if let Some((_, place)) = self.known.iter().find(|(known, _)| known == expression) {
            return *place;
        }
        let place = expression.span().start;
        self.known.push((expression.clone(), place));
        place
    }

    /// The call of an asked function about something at a place.
    fn asked(&mut self, name: String, place: Location, arguments: impl IntoIterator<Item = Expr>) -> Expr {
        let number = |number: u64| Expr::value(Value::Number(number.to_string(), false));
        let mut all = vec![number(place.line), number(place.column)];
        all.extend(arguments);
        let asked = call(&name, all);
        self.names.push(name);
        asked
    }

    /// The call of one that is asked for a call, and stands in the place of one of its arguments.
    fn asked_call(&mut self, name: String, place: Location, stands: usize, arguments: Vec<Expr>) -> Expr {
        let stands = Expr::value(Value::Number(stands.to_string(), false));
        self.asked(name, place, std::iter::once(stands).chain(arguments))
    }

    fn condition(&mut self, clause: &str, condition: &mut Expr) {
        let place = self.place_of(condition);
        let inner = std::mem::replace(condition, Expr::value(Value::Null));
        *condition = self.asked(CONDITION.to_owned(), place, [text(clause), inner]);
    }

    fn sign(&mut self, operand: &mut Expr) {
        let place = self.place_of(operand);
        let inner = std::mem::replace(operand, Expr::value(Value::Null));
        *operand = self.asked(SIGN.to_owned(), place, [inner]);
    }

    /// Asks of a call; what stands in its place, if there is nothing to be called.
    fn called(&mut self, function: &mut Function) -> Option<Expr> {
        if let Some(condition) = &mut function.filter {
            self.condition("FILTER", condition);
        }
        let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
        let name = fold(name);
        // What the user has called has another name.
        if name.starts_with("coeval_") {
            return None;
        }
        let place = self.place_of(&Expr::Function(function.clone()));
        let FunctionArguments::List(list) = &mut function.args else { return None };
        let callee = Callee::named(&name, self.functions);
        if let Some(named) = named_operands(&list.args) {
            let is_known = callee.as_ref().is_some_and(Callee::knows_names);
            return (!is_known).then(|| self.asked_call(format!("{NAMED}{name}"), place, 0, named));
        }
        let operands: Option<Vec<Expr>> = list.args.iter().map(|operand| unnamed(operand).cloned()).collect();
        let operands = operands?;
        let name_asked = format!("{CALL}{name}");
        match callee {
            Some(Callee::Other) => None,
            Some(callee) if operands.is_empty() => match callee.take(&name, &[]) {
                Ok(()) => None,
                Err(_) => Some(self.asked_call(name_asked, place, 0, operands)),
            },
            // What is asked has the type that the function has.
            Some(Callee::Scalar(_)) | None => Some(self.asked_call(name_asked, place, 0, operands)),
            Some(Callee::Aggregate(_) | Callee::Window(_) | Callee::Unnest) => {
                // Some want literals, so these stay where there is something else.
                let stands = operands.iter().position(|operand| !is_literal(operand)).unwrap_or_default();
                let asked = self.asked_call(name_asked, place, stands, operands);
                if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(operand))) = list.args.get_mut(stands)
                {
                    *operand = asked;
                }
                None
            }
        }
    }
}

/// The values of arguments, if some have names.
fn named_operands(arguments: &[FunctionArg]) -> Option<Vec<Expr>> {
    let has_names = arguments.iter().any(|argument| !matches!(argument, FunctionArg::Unnamed(_)));
    let value = |argument: &FunctionArg| match argument {
        FunctionArg::Named { arg, .. } | FunctionArg::ExprNamed { arg, .. } | FunctionArg::Unnamed(arg) => {
            match arg {
                FunctionArgExpr::Expr(value) => Some(value.clone()),
                _ => None,
            }
        }
    };
    if has_names { arguments.iter().map(value).collect() } else { None }
}

/// The expression that an argument is, if it has no name.
fn unnamed(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(operand)) => Some(operand),
        _ => None,
    }
}

fn is_literal(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(_) | Expr::TypedString(_) | Expr::Interval(_))
}

fn is_chain(expression: &Expr) -> bool {
    matches!(expression, Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. })
}

impl VisitorMut for Asking<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let replaced = match expression {
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
                self.condition("NOT", expr);
                None
            }
            Expr::UnaryOp { op: UnaryOperator::Minus, expr }
                if !matches!(expr.as_ref(), Expr::Value(_) | Expr::Interval(_)) =>
            {
                self.sign(expr);
                None
            }
            Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
                let clause = op.to_string();
                for side in [left, right].into_iter().filter(|side| !is_chain(side)) {
                    self.condition(&clause, side);
                }
                None
            }
            Expr::IsTrue(condition) | Expr::IsNotTrue(condition) => {
                self.condition("IS TRUE", condition);
                None
            }
            Expr::IsFalse(condition) | Expr::IsNotFalse(condition) => {
                self.condition("IS FALSE", condition);
                None
            }
            // They compare by `=`, which is asked as an operator.
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                Some(Expr::BinaryOp { left: left.clone(), op: BinaryOperator::Eq, right: right.clone() })
            }
            Expr::Case { operand: None, conditions, .. } => {
                conditions.iter_mut().for_each(|when| self.condition("CASE/WHEN", &mut when.condition));
                None
            }
            Expr::Function(function) => self.called(function),
            _ => None,
        };
        if let Some(replaced) = replaced {
            *expression = replaced;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let Some(condition) = &mut select.selection {
            self.condition("WHERE", condition);
        }
        if let Some(condition) = &mut select.having {
            self.condition("HAVING", condition);
        }
        for join in select.from.iter_mut().flat_map(|tables| &mut tables.joins) {
            if let Some(JoinConstraint::On(condition)) = constraint_mut(&mut join.join_operator) {
                self.condition("JOIN/ON", condition);
            }
        }
        ControlFlow::Continue(())
    }
}
