// SPDX-License-Identifier: Apache-2.0
//! What the nested trees take, by table (P-Trees paper, section 8.5 and Table 6).
//!
//! Rows lie in the trees' blocks here (inline). What it would take with the rows elsewhere (indirect) is reckoned from the
//! same blocks: an entry has a pointer in place of its row, and each row lies behind a reference count once.

use coeval_ptree::{Memory, PTree};

use crate::rows::{Customer, Line, Order, Part, PartSupp, Supplier};

/// The trees that hold the rows of one table.
struct Table {
    name: &'static str,
    rows: usize,
    row_bytes: usize,
    text_bytes: usize,
    /// Entries and bytes of all trees with such rows.
    entries: usize,
    bytes: usize,
    /// Places for entries, filled or not.
    places: usize,
}

impl Table {
    /// The trees' share of a table.
    fn new<R>(name: &'static str, rows: usize, text_bytes: usize) -> Self {
        Table { name, rows, row_bytes: size_of::<R>(), text_bytes, entries: 0, bytes: 0, places: 0 }
    }

    /// Counts trees that hold such rows.
    fn add<'t, K: 't, V: 't, const B: usize>(&mut self, trees: impl Iterator<Item = &'t PTree<K, V, (), B>>) {
        let mut memory = Memory::default();
        trees.for_each(|tree| memory.add(tree));
        self.entries += memory.entries;
        self.bytes += memory.bytes;
        self.places += memory.leaves * B;
    }

    /// The bytes if rows were elsewhere.
    fn indirect(&self) -> usize {
        let pointer = size_of::<usize>();
        self.bytes - self.places * (self.row_bytes - pointer) + self.rows * (self.row_bytes + pointer)
    }

    fn json(&self) -> String {
        format!(
            "{{\"table\":\"{}\",\"rows\":{},\"text_per_row\":{:.1},\"row\":{},\"copies\":{:.2},\"per_entry\":{:.1},\
             \"inline_mb\":{:.1},\"indirect_mb\":{:.1}}}",
            self.name,
            self.rows,
            self.text_bytes as f64 / self.rows as f64,
            self.row_bytes,
            self.entries as f64 / self.rows as f64,
            self.bytes as f64 / self.entries as f64,
            self.bytes as f64 / 1e6,
            self.indirect() as f64 / 1e6,
        )
    }
}

/// Loads the database and prints one JSON line.
pub(crate) fn run(scale: f64) {
    let (world, _) = crate::load(scale);
    let texts = &world.fixed.texts;
    let count = world.orders.values().map(|(_, lines)| lines.len()).sum();

    let mut lines = Table::new::<Line>("lineitem", count, texts.lines.len());
    lines.add(world.orders.values().map(|(_, lines)| lines));
    let offers = world.parts.values().flat_map(|(_, offers)| offers.values());
    lines.add(offers.map(|(_, lines)| lines));
    lines.add(world.by_ship_date.values().chain(world.by_receipt_date.values()));

    let mut orders = Table::new::<Order>("orders", world.orders.len(), texts.orders.len());
    let of_customers = world.customers.values().map(|(_, orders)| orders);
    orders.add(of_customers.chain(world.by_order_date.values()).chain([&world.orders]));

    let mut customers = Table::new::<Customer>("customer", world.customers.len(), texts.customers.len());
    customers.add([&world.customers].into_iter());

    let mut offers = Table::new::<PartSupp>("partsupp", 4 * world.parts.len(), texts.part_supps.len());
    offers.add(world.parts.values().map(|(_, offers)| offers));
    offers.add(world.suppliers.values().map(|(_, offers)| offers));

    let mut parts = Table::new::<Part>("part", world.parts.len(), texts.parts.len());
    parts.add([&world.parts].into_iter());
    let mut suppliers = Table::new::<Supplier>("supplier", world.suppliers.len(), texts.suppliers.len());
    suppliers.add([&world.suppliers].into_iter());

    let tables = [lines, orders, customers, offers, parts, suppliers];
    let inline: usize = tables.iter().map(|table| table.bytes).sum();
    let indirect: usize = tables.iter().map(Table::indirect).sum();
    let text: usize = tables.iter().map(|table| table.text_bytes).sum();
    println!(
        "{{\"experiment\":\"space\",\"scale\":{scale},\"tables\":[{}],\"inline_mb\":{:.0},\"indirect_mb\":{:.0},\
         \"text_mb\":{:.0},\"resident_mb\":{:.0}}}",
        tables.each_ref().map(Table::json).join(","),
        inline as f64 / 1e6,
        indirect as f64 / 1e6,
        text as f64 / 1e6,
        crate::olap::resident_mb(),
    );
}
