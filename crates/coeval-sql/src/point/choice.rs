// SPDX-License-Identifier: Apache-2.0
//! Chooses how rows are found: which key each table is looked up by, and in which order tables are joined.
//!
//! A condition `column = expression` gives a component of a key if the expression needs only tables that are
//! looked up before. The key with the most components in front wins; a whole unique key wins over all.
//!
//! A table that an outer join fills up is looked up by the conditions of that join alone, and behind all tables that these name. Whatever
//! else is asked of its rows is asked once it is known whether there are any. Where its place is does not matter beyond that: which rows it
//! has, or that it has none, depends on nothing else.

use super::access::{Access, Edge, Join, KeyBound, NextColumn, Path, Step, key_columns};
use super::condition::{Condition, Sample, Test, UseKind};
use super::key::KeyPart;
use super::source::{Conjunct, Planner, Source, bits};
use crate::scalar::{CompareOp, Refusal};
use coeval_store::{Direction, TableDef};
use std::sync::Arc;

/// The order that a statement asks for, if it is by columns of one table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WantedOrder {
    pub(super) table: usize,
    pub(super) columns: Vec<usize>,
    pub(super) direction: Direction,
}

/// What was chosen.
pub(super) struct Choice {
    pub(super) steps: Vec<Step>,
    /// Whether rows come in the wanted order.
    pub(super) ordered: bool,
}

/// Whether the first table may be walked without any key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyless {
    Allowed,
    Refused,
}

/// Chooses for a source under these conditions. `keyless` says whether the first table may be walked in the wanted
/// order without any key at all; that pays if only the first rows are taken, and each of them has at most one row of each other table.
pub(super) fn choose(
    planner: &mut Planner<'_>,
    source: &Source,
    conjuncts: &[Conjunct<'_>],
    wanted: Option<&WantedOrder>,
    keyless: Keyless,
) -> Result<Choice, Refusal> {
    let conditions = Condition::compile_all(planner, source, conjuncts)?;
    order(source, &conditions, wanted, keyless)
}

/// Chooses under conditions that are compiled.
pub(super) fn order(
    source: &Source,
    conditions: &[Condition],
    wanted: Option<&WantedOrder>,
    keyless: Keyless,
) -> Result<Choice, Refusal> {
    let bound = bits(0, source.scope.first());
    let mut search = Search { source, conditions, wanted, keyless, bound, others: Others::Few };
    let mut steps: Vec<Step> = Vec::with_capacity(source.tables.len());
    let mut ordered = false;
    while steps.len() < source.tables.len() {
        let candidate = search.best().ok_or_else(|| Refusal::unsupported("a statement without a key"))?;
        if search.begins() {
            ordered = candidate.ordered;
            search.others = if candidate.is_walk(&search) { Others::One } else { Others::Few };
        }
        let step = candidate.step(&search)?;
        search.bound |= 1 << step.table;
        steps.push(step);
    }
    Ok(Choice { steps, ordered })
}

fn paths(def: &TableDef) -> impl Iterator<Item = Path> {
    std::iter::once(Path::Primary).chain((0..def.indexes.len()).map(Path::Index))
}

/// How many rows of each other table there may be for a row of the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// Those of a key.
    Few,
    /// At most one: nobody knows how many rows of the first table are visited.
    One,
}

/// The state of a search for the order of tables.
struct Search<'c> {
    source: &'c Source,
    conditions: &'c [Condition],
    wanted: Option<&'c WantedOrder>,
    keyless: Keyless,
    /// The tables that have a row by now, a bit each: those of queries around, and those of the steps so far.
    bound: u64,
    others: Others,
}

impl<'c> Search<'c> {
    /// Whether no table of this source has a row yet.
    fn begins(&self) -> bool {
        self.bound & self.source.bits() == 0
    }

    fn is_filled(&self, table: usize) -> bool {
        self.source.filled & (1 << table) != 0
    }

    /// The best way to find the rows of the next table.
    fn best(&self) -> Option<Candidate<'c>> {
        let mut best: Option<Candidate<'c>> = None;
        for (table, def) in self.source.numbered().filter(|(table, _)| self.may_come(*table)) {
            for path in paths(def) {
                let candidate = Candidate::new(self, table, def, path);
                let is_better = best.as_ref().is_none_or(|best| candidate.rank() > best.rank());
                if is_better && candidate.suffices(self) {
                    best = Some(candidate);
                }
            }
        }
        best
    }

    /// Whether a table may come next: it has no row yet, and an outer join that fills it up names no others that have none.
    fn may_come(&self, table: usize) -> bool {
        let with_it = self.bound | (1 << table);
        let mut of_join = self.conditions.iter().filter(|condition| condition.fills == Some(table));
        self.bound & (1 << table) == 0 && of_join.all(|condition| condition.tables & !with_it == 0)
    }

    /// The order that this table is to give.
    fn wanted_of(&self, table: usize) -> Option<&'c WantedOrder> {
        self.wanted.filter(|wanted| wanted.table == table && self.begins() && !self.is_filled(table))
    }
}

/// One way to find the rows of one table.
struct Candidate<'c> {
    table: usize,
    def: &'c Arc<TableDef>,
    join: Join,
    path: Path,
    score: u32,
    /// How many components of the key are equal to something.
    equals: usize,
    /// Whether these are a whole unique key: there is one row at most.
    whole: bool,
    /// Whether the component behind those is one of several values.
    listed: bool,
    /// Whether rows come in the wanted order.
    ordered: bool,
    /// Which conditions, by number, and which of their uses give each equal component.
    chosen: Vec<(usize, usize)>,
    /// Which bound the next one.
    next: Vec<(usize, usize)>,
}

impl<'c> Candidate<'c> {
    fn new(search: &Search<'c>, table: usize, def: &'c Arc<TableDef>, path: Path) -> Self {
        let columns = key_columns(def, path);
        let own = match path {
            Path::Primary => columns.len(),
            Path::Index(place) => def.indexes[place].columns.len(),
        };
        let join = if search.is_filled(table) { Join::Outer } else { Join::Inner };
        let fills = (join == Join::Outer).then_some(table);
        let usable = |column: usize, filter: &dyn Fn(&UseKind) -> bool| -> Vec<(usize, usize)> {
            let mut found = Vec::new();
            for (number, condition) in search.conditions.iter().enumerate() {
                for (place, use_) in condition.uses.iter().enumerate() {
                    let here =
                        use_.table == table && use_.column == column && use_.needs & !search.bound == 0;
                    if here && condition.fills == fills && filter(&use_.kind) {
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
            // Values that are written are fewer, as a rule, than those that a subquery gives.
            let lists = usable(column, &|kind| matches!(kind, UseKind::List(_)));
            let found = usable(column, &|kind| matches!(kind, UseKind::Found(_)));
            if let Some(&list) = lists.first().or(found.first()) {
                listed = true;
                next.push(list);
            } else {
                let compared = usable(column, &|kind| matches!(kind, UseKind::Compare(..)));
                next = range_ends(search.conditions, &compared);
            }
        }
        let unique = match path {
            Path::Primary => true,
            Path::Index(place) => def.indexes[place].uniqueness.is_unique(),
        };
        let whole = equals == own && unique;
        let ordered = search.wanted_of(table).is_some_and(|wanted| {
            whole || (!listed && gives_order(&columns[equals..], &columns[..equals], wanted))
        });
        let score = if whole { 10_000 } else { 0 }
            + 100 * equals as u32
            + if listed { 40 } else { 20 * next.len() as u32 }
            + if ordered { 10 } else { 0 }
            + u32::from(path == Path::Primary) * 5;
        Self { table, def, join, path, score, equals, whole, listed, ordered, chosen, next }
    }

    /// What is greater is better. An inner join, which may leave out rows, comes before an outer one, which never does.
    fn rank(&self) -> (bool, u32) {
        (self.join == Join::Inner, self.score)
    }

    /// Whether it finds few rows. The first of several tables is to be bounded from both ends, if no component of the key is fixed.
    fn suffices(&self, search: &Search<'_>) -> bool {
        if search.others == Others::One {
            return self.whole;
        }
        let is_alone = search.source.tables.len() == 1;
        let is_bounded = self.next.len() > usize::from(!is_alone);
        self.equals > 0 || self.listed || (search.begins() && (is_bounded || self.is_walk(search)))
    }

    /// Whether it walks a table in the wanted order, bounded from one end at most.
    fn is_walk(&self, search: &Search<'_>) -> bool {
        let is_open = self.equals == 0 && !self.listed && self.next.len() < 2;
        is_open && self.ordered && search.keyless == Keyless::Allowed
    }

    /// The step, with every condition that can be decided once it has a row.
    fn step(self, search: &Search<'_>) -> Result<Step, Refusal> {
        let (direction, join, table) = (self.direction(search), self.join, self.table);
        let (equals, next) = self.key(search.conditions);
        let access = Access { table: Arc::clone(self.def), path: self.path, equals, next, direction };
        let (residual, filters) = (Vec::new(), Vec::new());
        let (checks, lookups) = (Vec::new(), Vec::new());
        let mut step = Step { table, access, join, residual, filters, checks, lookups };
        let left = search.conditions.iter().enumerate().filter(|(number, condition)| {
            is_decided(condition, search, table) && !self.consumes(search.conditions, *number)
        });
        for (_, condition) in left {
            match &condition.test {
                // Conditions of an outer join say which rows it takes; all others, which rows are left of what it gives.
                Test::Scalar(scalar) if join == Join::Inner || condition.fills.is_some() => {
                    step.residual.push(scalar.clone());
                }
                Test::Scalar(scalar) => step.filters.push(scalar.clone()),
                Test::Exists(exists) => step.checks.push(exists.clone()),
                Test::ByKeys => return Err(Refusal::unsupported("a subquery without a key")),
            }
        }
        Ok(step)
    }

    fn direction(&self, search: &Search<'_>) -> Direction {
        match search.wanted_of(self.table) {
            Some(wanted) if self.ordered => wanted.direction,
            _ => Direction::Forward,
        }
    }

    /// What the key's components are made of.
    fn key(&self, conditions: &[Condition]) -> (Vec<KeyPart>, NextColumn) {
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
                UseKind::Found(found) => next = NextColumn::Found(found.clone()),
            }
        }
        (equals, next)
    }

    /// Whether the key stands for the condition with this number.
    fn consumes(&self, conditions: &[Condition], number: usize) -> bool {
        let mut used = self.chosen.iter().chain(&self.next).filter(|(used, _)| *used == number);
        match conditions[number].uses.as_slice() {
            // BETWEEN is satisfied only by both of its ends.
            [lower, upper] if lower.column == upper.column && lower.table == upper.table => used.count() == 2,
            _ => used.next().is_some(),
        }
    }
}

/// Whether a condition is decided when this table has a row, or is known to have none: one of an outer join by the table that it fills
/// up, any other by the last of its tables, and one without a table of this source by the first.
fn is_decided(condition: &Condition, search: &Search<'_>, table: usize) -> bool {
    if let Some(filled) = condition.fills {
        return filled == table;
    }
    let own = 1 << table;
    let begins = search.begins() && condition.tables & search.source.bits() == 0;
    condition.tables & !(search.bound | own) == 0 && (condition.tables & own != 0 || begins)
}

/// At most one lower and one upper bound out of these.
fn range_ends(conditions: &[Condition], found: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let op_of = |(number, place): (usize, usize)| match &conditions[number].uses[place].kind {
        UseKind::Compare(op, _) => Some(*op),
        UseKind::List(_) | UseKind::Found(_) => None,
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
        NextColumn::Free | NextColumn::List(_) | NextColumn::Found(_) => (None, None),
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
