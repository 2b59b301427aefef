// SPDX-License-Identifier: Apache-2.0
//! Chooses how rows are found: which key each table is looked up by, and in which order tables are joined.
//!
//! A condition `column = expression` gives a component of a key if the expression needs only tables that are
//! looked up before. The key with the most components in front wins; a whole unique key wins over all.

use super::access::{Access, Edge, KeyBound, NextColumn, Path, Step, key_columns};
use super::key::{Fitting, KeyPart, fitting};
use super::source::{Planner, Source};
use crate::cancel;
use crate::scalar::{CompareOp, Refusal, Scalar, compare_op};
use coeval_store::{ColumnType, Direction, TableDef};
use datafusion::sql::sqlparser::ast::Expr;
use std::sync::Arc;

/// A condition that a statement's rows must satisfy.
struct Condition {
    scalar: Scalar,
    /// The tables it reads, a bit each.
    tables: u64,
    /// What of keys it fixes.
    uses: Vec<KeyUse>,
}

/// A column bounded by a condition.
struct KeyUse {
    table: usize,
    column: usize,
    /// The tables that the bounding expressions read.
    needs: u64,
    kind: UseKind,
}

enum UseKind {
    Compare(CompareOp, Sample),
    List(Vec<Sample>),
}

/// An expression with how it fits its column.
#[derive(Clone)]
struct Sample {
    scalar: Scalar,
    fitting: Fitting,
    text: String,
}

impl Sample {
    fn part(&self) -> KeyPart {
        KeyPart { scalar: self.scalar.clone(), fitting: self.fitting, text: self.text.clone() }
    }
}

/// The order that a statement asks for, if it is by columns of one table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WantedOrder {
    pub(super) columns: Vec<usize>,
    pub(super) direction: Direction,
}

/// What was chosen.
pub(super) struct Choice {
    pub(super) steps: Vec<Step>,
    /// Whether rows come in the wanted order.
    pub(super) ordered: bool,
}

/// Chooses for a source under these conditions. `keyless` says whether a single table may be walked in the wanted
/// order without any key at all; that pays if only the first rows are taken.
pub(super) fn choose(
    planner: &mut Planner<'_>,
    source: &Source,
    conditions: &[&Expr],
    wanted: Option<&WantedOrder>,
    keyless: Keyless,
) -> Result<Choice, Refusal> {
    if source.tables.len() > 16 {
        return Err(Refusal::unsupported("so many tables"));
    }
    let mut compiled = Vec::with_capacity(conditions.len());
    for condition in conditions {
        compiled.push(Condition::compile(planner, source, condition)?);
    }
    let mut bound = 0_u64;
    let mut steps: Vec<Step> = Vec::with_capacity(source.tables.len());
    let mut ordered = false;
    while steps.len() < source.tables.len() {
        let mut best: Option<(usize, Candidate)> = None;
        for (table, def) in source.tables.iter().enumerate() {
            if bound & (1 << table) != 0 {
                continue;
            }
            for path in paths(def) {
                let candidate = Candidate::new(&compiled, table, def, path, bound, wanted);
                if best.as_ref().is_none_or(|(_, best)| candidate.score > best.score) {
                    best = Some((table, candidate));
                }
            }
        }
        let (table, candidate) = best.expect("a table is left and has a primary key");
        let joined = source.tables.len() > 1;
        let sufficient = candidate.equals > 0
            || (!joined && candidate.bounded)
            || (!joined && keyless == Keyless::Allowed && candidate.ordered);
        if !sufficient {
            return Err(Refusal::unsupported("a statement without a key"));
        }
        ordered = !joined && candidate.ordered;
        bound |= 1 << table;
        steps.push(candidate.step(&compiled, table, &source.tables[table], bound, wanted));
    }
    add_constants(&compiled, &mut steps);
    Ok(Choice { steps, ordered })
}

/// Whether a table may be walked without any key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyless {
    Allowed,
    Refused,
}

fn paths(def: &TableDef) -> impl Iterator<Item = Path> {
    std::iter::once(Path::Primary).chain((0..def.indexes.len()).map(Path::Index))
}

/// Conditions on no table at all are decided at the first step.
fn add_constants(conditions: &[Condition], steps: &mut [Step]) {
    if let Some(first) = steps.first_mut() {
        let constants = conditions.iter().filter(|condition| condition.tables == 0);
        first.residual.extend(constants.map(|condition| condition.scalar.clone()));
    }
}

impl Condition {
    fn compile(planner: &mut Planner<'_>, source: &Source, expression: &Expr) -> Result<Self, Refusal> {
        let scalar = planner.compiler(&source.scope).condition(expression)?;
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
        Ok(Self { scalar, tables, uses })
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
    if scalar.is_volatile() {
        return Ok(None);
    }
    Ok(fitting(scalar.ty(), ty).map(|fitting| Sample { scalar, fitting, text: expression.to_string() }))
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
    let needs = sample.scalar.tables();
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
        needs |= sample.scalar.tables();
        samples.push(sample);
    }
    if needs & (1 << table) != 0 {
        return Ok(None);
    }
    Ok(Some(KeyUse { table, column, needs, kind: UseKind::List(samples) }))
}

/// One way to find the rows of one table.
struct Candidate {
    path: Path,
    score: u32,
    /// How many components of the key are equal to something.
    equals: usize,
    /// Whether the component behind those is bounded.
    bounded: bool,
    /// Whether rows come in the wanted order.
    ordered: bool,
    /// Which conditions, by number, and which of their uses give each equal component.
    chosen: Vec<(usize, usize)>,
    /// Which bound the next one.
    next: Vec<(usize, usize)>,
}

impl Candidate {
    fn new(
        conditions: &[Condition],
        table: usize,
        def: &TableDef,
        path: Path,
        bound: u64,
        wanted: Option<&WantedOrder>,
    ) -> Self {
        let columns = key_columns(def, path);
        let own = match path {
            Path::Primary => columns.len(),
            Path::Index(place) => def.indexes[place].columns.len(),
        };
        let usable = |column: usize, filter: &dyn Fn(&UseKind) -> bool| -> Vec<(usize, usize)> {
            let mut found = Vec::new();
            for (number, condition) in conditions.iter().enumerate() {
                for (place, use_) in condition.uses.iter().enumerate() {
                    let here = use_.table == table && use_.column == column && use_.needs & !bound == 0;
                    if here && filter(&use_.kind) {
                        found.push((number, place));
                    }
                }
            }
            found
        };
        let mut chosen = Vec::new();
        for &column in &columns[..own] {
            let equal = |kind: &UseKind| matches!(kind, UseKind::Compare(CompareOp::Equal, _));
            match usable(column, &equal).first() {
                Some(&first) => chosen.push(first),
                None => break,
            }
        }
        let equals = chosen.len();
        let mut next = Vec::new();
        let mut listed = false;
        if let Some(&column) = columns[..own].get(equals) {
            let lists = usable(column, &|kind| matches!(kind, UseKind::List(_)));
            if let Some(&list) = lists.first() {
                listed = true;
                next.push(list);
            } else {
                next = range_ends(conditions, &usable(column, &|kind| matches!(kind, UseKind::Compare(..))));
            }
        }
        let unique = match path {
            Path::Primary => true,
            Path::Index(place) => def.indexes[place].uniqueness.is_unique(),
        };
        let bounded = !next.is_empty();
        let whole = equals == own && unique;
        let ordered = wanted.is_some_and(|wanted| {
            whole || (!listed && gives_order(&columns[equals..], &columns[..equals], wanted))
        });
        let score = if whole { 10_000 } else { 0 }
            + 100 * equals as u32
            + if listed { 40 } else { 20 * next.len() as u32 }
            + if ordered { 10 } else { 0 }
            + u32::from(path == Path::Primary) * 5;
        Self { path, score, equals, bounded, ordered, chosen, next }
    }

    /// The step, with every condition that can be decided once it has a row.
    fn step(
        self,
        conditions: &[Condition],
        table: usize,
        def: &Arc<TableDef>,
        bound: u64,
        wanted: Option<&WantedOrder>,
    ) -> Step {
        let use_of = |(number, place): (usize, usize)| &conditions[number].uses[place].kind;
        let mut equals = Vec::with_capacity(self.equals);
        for &place in &self.chosen {
            if let UseKind::Compare(_, sample) = use_of(place) {
                equals.push(sample.part());
            }
        }
        let mut next = NextColumn::Free;
        for &place in &self.next {
            match use_of(place) {
                UseKind::List(samples) => next = NextColumn::List(samples.iter().map(Sample::part).collect()),
                UseKind::Compare(op, sample) => next = with_bound(next, *op, sample),
            }
        }
        let consumed = |number: usize| {
            let mut used = self.chosen.iter().chain(&self.next).filter(|(used, _)| *used == number);
            match conditions[number].uses.len() {
                // BETWEEN is satisfied only by both of its ends.
                2 if conditions[number].uses[0].column == conditions[number].uses[1].column
                    && conditions[number].uses[0].table == conditions[number].uses[1].table =>
                {
                    used.count() == 2
                }
                _ => used.next().is_some(),
            }
        };
        let own = 1_u64 << table;
        let residual = conditions.iter().enumerate().filter(|(number, condition)| {
            condition.tables & own != 0 && condition.tables & !bound == 0 && !consumed(*number)
        });
        let residual = residual.map(|(_, condition)| condition.scalar.clone()).collect();
        let direction = match wanted {
            Some(wanted) if self.ordered => wanted.direction,
            _ => Direction::Forward,
        };
        let access = Access { table: Arc::clone(def), path: self.path, equals, next, direction };
        Step { table, access, residual }
    }
}

/// At most one lower and one upper bound out of these.
fn range_ends(conditions: &[Condition], found: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let op_of = |(number, place): (usize, usize)| match &conditions[number].uses[place].kind {
        UseKind::Compare(op, _) => Some(*op),
        UseKind::List(_) => None,
    };
    let lower = found
        .iter()
        .find(|place| matches!(op_of(**place), Some(CompareOp::Greater | CompareOp::GreaterOrEqual)));
    let upper =
        found.iter().find(|place| matches!(op_of(**place), Some(CompareOp::Less | CompareOp::LessOrEqual)));
    lower.into_iter().chain(upper).copied().collect()
}

fn with_bound(next: NextColumn, op: CompareOp, sample: &Sample) -> NextColumn {
    let (mut lower, mut upper) = match next {
        NextColumn::Range { lower, upper } => (lower, upper),
        NextColumn::Free | NextColumn::List(_) => (None, None),
    };
    let part = sample.part();
    match op {
        CompareOp::Greater => lower = Some(KeyBound { part, edge: Edge::Excluded }),
        CompareOp::GreaterOrEqual => lower = Some(KeyBound { part, edge: Edge::Included }),
        CompareOp::Less => upper = Some(KeyBound { part, edge: Edge::Excluded }),
        CompareOp::LessOrEqual => upper = Some(KeyBound { part, edge: Edge::Included }),
        CompareOp::Equal | CompareOp::NotEqual => {}
    }
    NextColumn::Range { lower, upper }
}

/// Whether keys that agree in `fixed` and go on with `following` come in the wanted order.
fn gives_order(following: &[usize], fixed: &[usize], wanted: &WantedOrder) -> bool {
    let mut following = following.iter();
    wanted
        .columns
        .iter()
        .filter(|column| !fixed.contains(column))
        .all(|column| following.next() == Some(column))
}
