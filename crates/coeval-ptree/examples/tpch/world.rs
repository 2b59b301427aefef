// SPDX-License-Identifier: Apache-2.0
//! The database at one version: the nested trees of the paper's Figure 6, the queue of open orders, and what never
//! changes.
//!
//! Inner trees are shared: the lines of an order lie once in memory and hang below the order in three trees, the lines of
//! a part and supplier below both. Lines are stored four times then, as in the paper: by order, by part and supplier, by
//! ship date, by receipt date; orders three times.
//!
//! Block sizes fit what the trees hold. A block of lines of an order has room for the seven that there may be; a day has
//! two thousand lines, in blocks of two kilobytes; and where values are trees, blocks are small, because an update counts
//! a reference to each tree of the block it copies.

use std::sync::Arc;

use coeval_ptree::{PTree, pairing_outer, secondary};

use crate::date::Date;
use crate::rows::{Customer, Line, LineKey, Nation, Order, Part, PartSupp, Supplier};
use crate::text::{Arena, Dictionary};

/// Lines by order and number.
pub(crate) type Lines<const B: usize> = PTree<LineKey, Line, (), B>;
/// The lines of an order.
pub(crate) type OrderLines = Lines<7>;
/// The lines of a part from a supplier, seven or eight mostly.
pub(crate) type PartLines = Lines<13>;
/// The lines of a day.
pub(crate) type DayLines = Lines<62>;
/// Orders by key, each with its lines.
pub(crate) type Orders = PTree<u32, (Order, OrderLines), (), 10>;
/// What suppliers have of parts, by part and supplier, each with its lines.
pub(crate) type PartSupps<const B: usize> = PTree<(u32, u32), (PartSupp, PartLines), (), B>;
/// Customers by key, each with its orders.
pub(crate) type Customers = PTree<u32, (Customer, Orders), (), 7>;
/// Suppliers by key, each with its parts.
pub(crate) type Suppliers = PTree<u32, (Supplier, PartSupps<9>), (), 7>;
/// Parts by key, each with its four suppliers.
pub(crate) type Parts = PTree<u32, (Part, PartSupps<4>), (), 9>;
/// Lines by a day of theirs.
pub(crate) type LinesByDay = PTree<Date, DayLines, (), 8>;
/// Orders by their day.
pub(crate) type OrdersByDay = PTree<Date, Orders, (), 8>;
/// Keys of orders by their turn.
pub(crate) type Queue = PTree<u64, u32, (), 62>;

/// What no transaction changes: the arrays of the paper, and strings.
#[derive(Debug)]
pub(crate) struct Fixed {
    /// By key, from 1.
    pub(crate) suppliers: Vec<Supplier>,
    /// By key, from 1.
    pub(crate) parts: Vec<Part>,
    /// By key, from 0.
    pub(crate) nations: Vec<Nation>,
    /// By key, from 0.
    pub(crate) regions: Vec<&'static str>,
    pub(crate) texts: Texts,
    pub(crate) codes: Codes,
}

/// The strings of each table.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    pub(crate) lines: Arena,
    pub(crate) orders: Arena,
    pub(crate) customers: Arena,
    pub(crate) suppliers: Arena,
    pub(crate) parts: Arena,
    pub(crate) part_supps: Arena,
}

/// The dictionaries of columns with few values.
#[derive(Debug)]
pub(crate) struct Codes {
    pub(crate) instructions: Dictionary,
    pub(crate) modes: Dictionary,
    pub(crate) priorities: Dictionary,
    pub(crate) segments: Dictionary,
    pub(crate) brands: Dictionary,
    pub(crate) kinds: Dictionary,
    pub(crate) containers: Dictionary,
}

impl Fixed {
    /// The supplier of a key.
    #[inline]
    pub(crate) fn supplier(&self, key: u32) -> &Supplier {
        &self.suppliers[key as usize - 1]
    }

    /// The part of a key.
    #[inline]
    pub(crate) fn part(&self, key: u32) -> &Part {
        &self.parts[key as usize - 1]
    }

    /// The nation of a name.
    pub(crate) fn nation(&self, name: &str) -> u8 {
        let found = self.nations.iter().position(|nation| nation.name == name);
        u8::try_from(found.expect("a nation of the benchmark")).expect("there are 25")
    }

    /// Whether each nation is in the region of this name.
    pub(crate) fn nations_of(&self, region: &str) -> Vec<bool> {
        self.nations.iter().map(|nation| self.regions[usize::from(nation.region)] == region).collect()
    }

    /// The nation of each supplier, by key.
    pub(crate) fn supplier_nations(&self) -> Vec<u8> {
        std::iter::once(u8::MAX).chain(self.suppliers.iter().map(|supplier| supplier.nation)).collect()
    }
}

/// The rows of all tables, in the order of their keys.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) lines: Vec<(LineKey, Line)>,
    pub(crate) orders: Vec<(u32, Order)>,
    pub(crate) customers: Vec<(u32, Customer)>,
    pub(crate) part_supps: Vec<((u32, u32), PartSupp)>,
    pub(crate) fixed: Fixed,
}

impl Tables {
    /// A copy of the rows that flat trees hold.
    pub(crate) fn rows(&self) -> Rows {
        Rows {
            lines: self.lines.clone(),
            orders: self.orders.clone(),
            customers: self.customers.clone(),
            part_supps: self.part_supps.clone(),
        }
    }
}

/// The rows of the tables that change.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) lines: Vec<(LineKey, Line)>,
    pub(crate) orders: Vec<(u32, Order)>,
    pub(crate) customers: Vec<(u32, Customer)>,
    pub(crate) part_supps: Vec<((u32, u32), PartSupp)>,
}

/// The database at one version. A clone is a snapshot for nine reference counts.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) orders: Orders,
    pub(crate) customers: Customers,
    pub(crate) suppliers: Suppliers,
    pub(crate) parts: Parts,
    pub(crate) by_order_date: OrdersByDay,
    pub(crate) by_ship_date: LinesByDay,
    pub(crate) by_receipt_date: LinesByDay,
    pub(crate) open_orders: Queue,
    pub(crate) fixed: Arc<Fixed>,
}

impl World {
    /// All trees of these rows, made of the paper's three constructors (section 4.1).
    pub(crate) fn new(tables: Tables) -> Self {
        let Tables { lines, orders, customers, part_supps, fixed } = tables;
        let suppliers = (1..).zip(fixed.suppliers.iter().copied()).collect();
        let parts = (1..).zip(fixed.parts.iter().copied()).collect();

        let lines_of_order: PTree<u32, OrderLines> = {
            let lines: OrderLines = PTree::from_sorted(lines.clone());
            secondary(&lines, |key, _| key.order())
        };
        let orders: PTree<u32, Order, (), 10> = PTree::from_sorted(orders);
        let orders: Orders = pairing_outer(&orders, &lines_of_order);
        drop(lines_of_order);
        let orders_of_customer: PTree<u32, Orders> = secondary(&orders, |_, (order, _)| order.customer);
        let customers: PTree<u32, Customer, (), 7> = PTree::from_sorted(customers);
        let customers = pairing_outer(&customers, &orders_of_customer);
        drop(orders_of_customer);
        let by_order_date = secondary(&orders, |_, (order, _)| order.date);

        let lines_of_supply: PTree<(u32, u32), PartLines> = {
            let lines: PartLines = PTree::from_sorted(lines.clone());
            secondary(&lines, |_, line| (line.part, line.supplier))
        };
        let suppliers = with_part_supps(suppliers, part_supps.clone(), &lines_of_supply, |key| key.1);
        let parts = with_part_supps(parts, part_supps, &lines_of_supply, |key| key.0);
        drop(lines_of_supply);

        let lines: DayLines = PTree::from_sorted(lines);
        World {
            by_ship_date: secondary(&lines, |_, line| line.ship),
            by_receipt_date: secondary(&lines, |_, line| line.receipt),
            orders,
            customers,
            suppliers,
            parts,
            by_order_date,
            open_orders: PTree::default(),
            fixed: Arc::new(fixed),
        }
    }
}

/// A table with what its rows supply, or are supplied by, grouped by one half of the key.
fn with_part_supps<R, const B: usize, const C: usize>(
    table: Vec<(u32, R)>,
    part_supps: Vec<((u32, u32), PartSupp)>,
    lines: &PTree<(u32, u32), PartLines>,
    half: impl Fn(&(u32, u32)) -> u32 + Sync,
) -> PTree<u32, (R, PartSupps<C>), (), B>
where
    R: Clone + Send + Sync,
{
    let part_supps: PTree<(u32, u32), PartSupp, (), C> = PTree::build(part_supps, |_, _, later| later);
    let part_supps: PartSupps<C> = pairing_outer(&part_supps, lines);
    let groups: PTree<u32, PartSupps<C>> = secondary(&part_supps, |key, _| half(key));
    let table: PTree<u32, R, (), B> = PTree::from_sorted(table);
    pairing_outer(&table, &groups)
}
