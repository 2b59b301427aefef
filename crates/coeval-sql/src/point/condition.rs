// SPDX-License-Identifier: Apache-2.0
//! The conditions that a point statement's rows must satisfy, and which columns they bound, so that keys can be looked up.

use super::key::{Fitting, KeyPart, fitting};
use super::source::{Conjunct, Planner, Source};
use super::subquery::{self, Exists, Found, Wanted};
use crate::cancel;
use crate::scalar::{CompareOp, Refusal, Scalar, compare_op};
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::Expr;

/// A condition that a statement's rows must satisfy.
pub(super) struct Condition {
    pub(super) test: Test,
    /// The tables it reads, a bit each; of a subquery those outside it.
    pub(super) tables: u64,
    /// The table that an outer join fills up with NULLs where no row of it satisfies this.
    pub(super) fills: Option<usize>,
    /// What of keys it fixes.
    pub(super) uses: Vec<KeyUse>,
}

/// How it is decided.
pub(super) enum Test {
    Scalar(Scalar),
    Exists(Exists),
    /// Only by looking up the keys that a subquery gives.
    ByKeys,
}

/// A column bounded by a condition.
pub(super) struct KeyUse {
    pub(super) table: usize,
    pub(super) column: usize,
    /// The tables that the bounding expressions read.
    pub(super) needs: u64,
    pub(super) kind: UseKind,
}

/// By what a column is bounded.
pub(super) enum UseKind {
    Compare(CompareOp, Sample),
    List(Vec<Sample>),
    /// It is one of the values that a subquery gives.
    Found(Found),
}

/// An expression with how it fits its column.
pub(super) struct Sample {
    scalar: Scalar,
    fitting: Fitting,
    /// The expression as written, for EXPLAIN.
    text: String,
}

impl Sample {
    /// A value that is looked up in a key column of this type; `None` if it cannot be.
    pub(super) fn new(scalar: Scalar, column: ColumnType, text: String) -> Option<Self> {
        if scalar.is_volatile() {
            return None;
        }
        let scalar = scalar.beside_column(column);
        fitting(scalar.ty(), column).map(|fitting| Self { scalar, fitting, text })
    }

    /// What a key is made of.
    pub(super) fn part(&self) -> KeyPart {
        KeyPart { scalar: self.scalar.clone(), fitting: self.fitting, text: self.text.clone() }
    }

    /// The tables that it reads, a bit each.
    fn needs(&self) -> u64 {
        self.scalar.tables()
    }
}

impl Condition {
    /// Compiles conditions on the rows of a source.
    pub(super) fn compile_all(
        planner: &mut Planner<'_>,
        source: &Source,
        conjuncts: &[Conjunct<'_>],
    ) -> Result<Vec<Self>, Refusal> {
        let mut conditions = Vec::with_capacity(conjuncts.len());
        for conjunct in conjuncts {
            conditions.push(Self::compile(planner, source, conjunct)?);
        }
        Ok(conditions)
    }

    fn compile(planner: &mut Planner<'_>, source: &Source, conjunct: &Conjunct<'_>) -> Result<Self, Refusal> {
        let condition = match &*conjunct.expression {
            Expr::Exists { subquery, negated } => {
                let wanted = if *negated { Wanted::NoRows } else { Wanted::Rows };
                subquery::exists(planner, source, subquery, wanted)?
            }
            Expr::InSubquery { expr, subquery, negated: false } => {
                subquery::contains(planner, source, expr, subquery)?
            }
            expression => Self::of_scalar(planner, source, expression)?,
        };
        let is_scalar = matches!(condition.test, Test::Scalar(_));
        let is_seen = condition.tables & source.bits() & !conjunct.sees == 0;
        if !is_seen || (conjunct.fills.is_some() && !is_scalar) {
            return Err(Refusal::unsupported("this condition of a join"));
        }
        Ok(Self { fills: conjunct.fills, ..condition })
    }

    fn of_scalar(planner: &mut Planner<'_>, source: &Source, expression: &Expr) -> Result<Self, Refusal> {
        let scalar = planner.compiler(&source.scope).condition(expression)?;
        if scalar.takes_numbers() {
            // Rows may be looked for twice, and would be asked for other numbers then.
            return Err(Refusal::unsupported("numbers of a sequence in a condition"));
        }
        let tables = scalar.tables();
        let mut uses = Vec::new();
        match expression {
            Expr::BinaryOp { left, op, right } => {
                if let Some(op) = compare_op(op) {
                    uses.extend(key_use(planner, source, left, op, right)?);
                    uses.extend(key_use(planner, source, right, op.mirrored(), left)?);
                }
            }
            Expr::Between { expr, negated: false, low, high } => {
                uses.extend(key_use(planner, source, expr, CompareOp::GreaterOrEqual, low)?);
                uses.extend(key_use(planner, source, expr, CompareOp::LessOrEqual, high)?);
                // Only both together stand for the condition.
                if uses.len() < 2 {
                    uses.clear();
                }
            }
            Expr::InList { expr, list, negated: false } => {
                uses.extend(list_use(planner, source, expr, list)?)
            }
            _ => {}
        }
        Ok(Self { test: Test::Scalar(scalar), tables, fills: None, uses })
    }

    /// That what a subquery gives, over the rows of this source, equals a value of the query around it. `text` is that as written.
    pub(super) fn equality(
        planner: &mut Planner<'_>,
        source: &Source,
        (given, value): (&Scalar, &Scalar),
        text: String,
    ) -> Result<Self, Refusal> {
        let scalar = planner.compiler(&source.scope).equality(given, value)?;
        let (tables, needs) = (scalar.tables(), value.tables());
        let mut uses = Vec::new();
        if let Some((table, column)) = given.as_column()
            && let Some(sample) = Sample::new(value.clone(), given.ty(), text)
        {
            uses.push(KeyUse { table, column, needs, kind: UseKind::Compare(CompareOp::Equal, sample) });
        }
        Ok(Self { test: Test::Scalar(scalar), tables, fills: None, uses })
    }
}

/// The column that an expression is, if it is one.
fn column_of(source: &Source, expression: &Expr) -> Option<(usize, usize, ColumnType)> {
    let found = match expression {
        Expr::Identifier(ident) => source.scope.resolve(std::slice::from_ref(ident)),
        Expr::CompoundIdentifier(parts) => source.scope.resolve(parts),
        Expr::Nested(inner) => return column_of(source, inner),
        _ => return None,
    };
    found.ok().map(|found| (found.table, found.column, found.ty))
}

fn sample(
    planner: &mut Planner<'_>,
    source: &Source,
    expression: &Expr,
    ty: ColumnType,
) -> Result<Option<Sample>, Refusal> {
    let scalar = planner.compiler(&source.scope).scalar_like(expression, ty)?;
    Ok(Sample::new(scalar, ty, expression.to_string()))
}

fn key_use(
    planner: &mut Planner<'_>,
    source: &Source,
    column: &Expr,
    op: CompareOp,
    value: &Expr,
) -> Result<Option<KeyUse>, Refusal> {
    let Some((table, column, ty)) = column_of(source, column) else { return Ok(None) };
    if op == CompareOp::NotEqual {
        return Ok(None);
    }
    let Some(sample) = sample(planner, source, value, ty)? else { return Ok(None) };
    if op != CompareOp::Equal && matches!(sample.fitting, Fitting::Divided(_)) {
        return Ok(None);
    }
    let needs = sample.needs();
    if needs & (1 << table) != 0 {
        return Ok(None);
    }
    Ok(Some(KeyUse { table, column, needs, kind: UseKind::Compare(op, sample) }))
}

fn list_use(
    planner: &mut Planner<'_>,
    source: &Source,
    column: &Expr,
    list: &[Expr],
) -> Result<Option<KeyUse>, Refusal> {
    let Some((table, column, ty)) = column_of(source, column) else { return Ok(None) };
    let mut samples = Vec::with_capacity(list.len());
    let mut needs = 0;
    for member in list {
        cancel::check()?;
        let Some(sample) = sample(planner, source, member, ty)? else { return Ok(None) };
        needs |= sample.needs();
        samples.push(sample);
    }
    if needs & (1 << table) != 0 {
        return Ok(None);
    }
    Ok(Some(KeyUse { table, column, needs, kind: UseKind::List(samples) }))
}
