// SPDX-License-Identifier: Apache-2.0
//! The database without nesting: a tree for each table, and secondary indexes by day if wanted, for the breakdown of what
//! each layout is worth (P-Trees paper, section 8.3, Table 3).

pub(crate) mod queries;

use std::iter::Peekable;
use std::ops::{Deref, Range};
use std::sync::Arc;

use coeval_ptree::{Grain, PTree};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::date::Date;
use crate::rows::{Customer, Line, LineKey, Order, PartSupp};
use crate::world::{self, Fixed};

/// Where the rows of a tree are.
pub(crate) trait Storage: Send + Sync + 'static {
    /// What an entry holds of a row.
    type Row<R: Copy + Send + Sync + 'static>: Clone + Deref<Target = R> + From<R> + Send + Sync;
}

/// Rows in the blocks.
pub(crate) enum Inline {}

/// Rows behind reference counts, each somewhere else.
pub(crate) enum Indirect {}

/// A row, here.
#[derive(Clone, Copy)]
pub(crate) struct Here<R>(R);

impl<R> Deref for Here<R> {
    type Target = R;

    #[inline]
    fn deref(&self) -> &R {
        &self.0
    }
}

impl<R> From<R> for Here<R> {
    fn from(row: R) -> Self {
        Here(row)
    }
}

impl Storage for Inline {
    type Row<R: Copy + Send + Sync + 'static> = Here<R>;
}

impl Storage for Indirect {
    type Row<R: Copy + Send + Sync + 'static> = Arc<R>;
}

type Rows<K, R, T> = PTree<K, <T as Storage>::Row<R>, (), 62>;

/// Indexes by a day of the rows.
pub(crate) struct ByDay<T: Storage> {
    pub(crate) orders: Rows<(Date, u32), Order, T>,
    pub(crate) shipped: Rows<(Date, LineKey), Line, T>,
    pub(crate) received: Rows<(Date, LineKey), Line, T>,
}

/// The database in flat trees.
pub(crate) struct Flat<T: Storage> {
    pub(crate) lines: Rows<LineKey, Line, T>,
    pub(crate) orders: Rows<u32, Order, T>,
    pub(crate) customers: Rows<u32, Customer, T>,
    pub(crate) part_supps: Rows<(u32, u32), PartSupp, T>,
    pub(crate) by_day: Option<ByDay<T>>,
    pub(crate) fixed: Arc<Fixed>,
}

/// Pieces of a join of two tables that several threads take from.
const PIECES: usize = 64;

impl<T: Storage> Flat<T> {
    /// A tree for each table of these rows, without indexes by day.
    pub(crate) fn new(tables: &world::Rows, fixed: Arc<Fixed>) -> Self {
        Flat {
            lines: rows::<_, _, T>(&tables.lines),
            orders: rows::<_, _, T>(&tables.orders),
            customers: rows::<_, _, T>(&tables.customers),
            part_supps: rows::<_, _, T>(&tables.part_supps),
            by_day: None,
            fixed,
        }
    }

    /// The same with indexes by day, which share rows that are not in the blocks.
    pub(crate) fn with_days(mut self) -> Self {
        let orders = self.orders.iter().map(|(key, row)| ((row.date, *key), row.clone()));
        let shipped = self.lines.iter().map(|(key, row)| ((row.ship, *key), row.clone()));
        let received = self.lines.iter().map(|(key, row)| ((row.receipt, *key), row.clone()));
        self.by_day = Some(ByDay {
            orders: PTree::build(orders.collect(), |_, _, later| later),
            shipped: PTree::build(shipped.collect(), |_, _, later| later),
            received: PTree::build(received.collect(), |_, _, later| later),
        });
        self
    }

    /// The lines of an order.
    pub(crate) fn lines_of(&self, order: u32) -> impl Iterator<Item = &Line> {
        self.lines.iter_range(LineKey::first(order)..LineKey::first(order + 1)).map(|(_, line)| &**line)
    }

    /// Folds the lines shipped on these days into sums, by the index if there is one.
    pub(crate) fn fold_shipped<R: Clone + Send + Sync>(
        &self,
        days: Range<Date>,
        identity: R,
        fold: impl Fn(&mut R, &Line) + Sync,
        reduce: impl Fn(R, R) -> R + Sync,
    ) -> R {
        // Sums are handed from entry to entry: a pointer is moved quicker than an array.
        let (identity, reduce) =
            (Box::new(identity), |one: Box<R>, other: Box<R>| Box::new(reduce(*one, *other)));
        let add = |mut sums: Box<R>, line: &Line| {
            if days.contains(&line.ship) {
                fold(&mut sums, line);
            }
            sums
        };
        let sums = match &self.by_day {
            None => self.lines.semi_map_reduce(identity, |sums, _, line| add(sums, line), reduce),
            Some(by_day) => {
                let index = by_day.shipped.range((days.start, LineKey::FIRST)..(days.end, LineKey::FIRST));
                index.semi_map_reduce(identity, |sums, _, line| add(sums, line), reduce)
            }
        };
        *sums
    }

    /// Folds the orders of these days that are wanted, each with its lines, into sums: by the index if there is one, else
    /// by a merge of all orders and lines.
    pub(crate) fn fold_orders<R: Clone + Send + Sync>(
        &self,
        days: Range<Date>,
        wants: impl Fn(&Order) -> bool + Sync,
        identity: R,
        fold: impl Fn(&mut R, &Order, &[&Line]) + Sync,
        reduce: impl Fn(R, R) -> R + Sync + Send,
    ) -> R {
        let Some(by_day) = &self.by_day else {
            let picked = |sums: &mut R, _: u32, order: &Order, lines: &[&Line]| {
                if days.contains(&order.date) && wants(order) {
                    fold(sums, order, lines);
                }
            };
            return self.merge(identity, picked, reduce);
        };
        let index = by_day.orders.range((days.start, 0)..(days.end, 0));
        index.scan(Grain::for_work(300)).semi_map_reduce(
            identity,
            |mut sums, (_, key), order| {
                if wants(order) {
                    let lines: Vec<&Line> = self.lines_of(*key).collect();
                    fold(&mut sums, order, &lines);
                }
                sums
            },
            reduce,
        )
    }

    /// Folds all orders, each with its lines, into sums, in one pass over both trees side by side.
    pub(crate) fn merge<R: Clone + Send + Sync>(
        &self,
        identity: R,
        fold: impl Fn(&mut R, u32, &Order, &[&Line]) + Sync,
        reduce: impl Fn(R, R) -> R + Sync + Send,
    ) -> R {
        let count = self.orders.len();
        let piece = |number: usize| {
            let first = |number| self.orders.select(number * count / PIECES).map(|(key, _)| *key);
            let (low, high) = (first(number).unwrap_or(0), first(number + 1).unwrap_or(LineKey::ORDERS));
            let lines = self.lines.iter_range(LineKey::first(low)..LineKey::first(high));
            let mut lines = lines.map(|(key, line)| (key.order(), &**line)).peekable();
            let (mut sums, mut of_order) = (identity.clone(), Vec::new());
            self.orders.iter_range(low..high).for_each(|(key, order)| {
                take_order(&mut lines, *key, &mut of_order);
                fold(&mut sums, *key, order, &of_order);
            });
            sums
        };
        (0..PIECES).into_par_iter().map(piece).reduce(|| identity.clone(), reduce)
    }
}

/// The next lines, those of an order.
fn take_order<'t>(
    lines: &mut Peekable<impl Iterator<Item = (u32, &'t Line)>>,
    order: u32,
    of_order: &mut Vec<&'t Line>,
) {
    of_order.clear();
    while let Some((_, line)) = lines.next_if(|(key, _)| *key == order) {
        of_order.push(line);
    }
}

/// A tree of a table's rows.
fn rows<K, R, T>(table: &[(K, R)]) -> Rows<K, R, T>
where
    K: Ord + Copy + Send + Sync,
    R: Copy + Send + Sync + 'static,
    T: Storage,
{
    PTree::build(table.iter().map(|(key, row)| (*key, T::Row::from(*row))).collect(), |_, _, later| later)
}
