// SPDX-License-Identifier: Apache-2.0
//! The nested index of the P-Trees paper's section 4.1: customers, their orders, and the orders' line items; and orders
//! by date. A query by date and an order that arrives.
//!
//! ```text
//! cargo run --release -p coeval-ptree --example nested_orders
//! ```

use coeval_ptree::{Grain, PTree, pairing, pairing_outer, primary, secondary};
use triomphe::Arc;

#[derive(Debug)]
struct Customer {
    name: String,
}

#[derive(Debug)]
struct Order {
    key: u32,
    customer: u32,
    date: u32,
    priority: usize,
}

#[derive(Debug)]
struct Line {
    order: u32,
    number: u32,
    price: u64,
    commit_date: u32,
    receipt_date: u32,
}

type Lines = PTree<(u32, u32), Arc<Line>>;
type Orders = PTree<u32, (Arc<Order>, Lines)>;

/// Everything that a query may see, of one moment: cloning it is cloning three pointers.
#[derive(Clone)]
struct World {
    /// Customers with their orders with their lines.
    customers: PTree<u32, (Option<Arc<Customer>>, Orders)>,
    /// Orders with their lines, by date.
    by_date: PTree<u32, Orders>,
}

fn load(customer_count: u32, order_count: u32) -> World {
    let customers = (0..customer_count).map(|key| Arc::new(Customer { name: format!("customer {key}") }));
    let customers: PTree<u32, Option<Arc<Customer>>> =
        customers.enumerate().map(|(key, customer)| (key as u32, Some(customer))).collect();
    let orders: Vec<Arc<Order>> = (0..order_count)
        .map(|key| {
            let (customer, date) = (key * 7 % customer_count, key * 13 % 2_400);
            Arc::new(Order { key, customer, date, priority: key as usize % 5 })
        })
        .collect();
    let lines: Vec<Arc<Line>> = orders.iter().flat_map(|order| lines_of(order.key, order.date)).collect();

    // The definitions of the paper, word for word but for the pairing of customers, some of whom have no orders.
    let i0: Lines = primary(lines, |line: &Arc<Line>| (line.order, line.number));
    let i1: PTree<u32, Arc<Order>> = primary(orders, |order: &Arc<Order>| order.key);
    let i2: PTree<u32, Lines> = secondary(&i0, |_, line| line.order);
    let i_ord: Orders = pairing(&i1, &i2);
    let by_date: PTree<u32, Orders> = secondary(&i_ord, |_, (order, _)| order.date);
    let i4: PTree<u32, Orders> = secondary(&i_ord, |_, (order, _)| order.customer);
    World { customers: pairing_outer(&customers, &i4), by_date }
}

fn lines_of(order: u32, date: u32) -> impl Iterator<Item = Arc<Line>> {
    (0..4).map(move |number| {
        let (commit_date, receipt_date) = (date + 30 + number, date + 29 + (order + 2 * number) % 7);
        Arc::new(Line { order, number, price: u64::from(order % 100 + number), commit_date, receipt_date })
    })
}

/// TPC-H Q4 as in the paper's Figure 4b: orders of a quarter with a late line, counted by priority.
fn late_orders_by_priority(world: &World, from: u32, to: u32) -> [u32; 5] {
    let add = |one: [u32; 5], other: [u32; 5]| std::array::from_fn(|at| one[at] + other[at]);
    let dates = world.by_date.range(from..to);
    // A date stands for some hundred orders: a task is a few dates.
    dates.scan(Grain::for_work(5_000)).map_reduce(
        |_, orders| {
            orders.semi_map_reduce(
                [0; 5],
                |mut counts, _, (order, lines)| {
                    let is_late = lines.values().any(|line| line.commit_date < line.receipt_date);
                    counts[order.priority] += u32::from(is_late);
                    counts
                },
                add,
            )
        },
        add,
        [0; 5],
    )
}

/// A new order: one path per level in each index (the paper's Figure 5).
fn place(world: &mut World, order: Order) {
    let lines: Lines =
        lines_of(order.key, order.date).map(|line| ((line.order, line.number), line)).collect();
    let order = Arc::new(order);
    world
        .customers
        .upsert(order.customer, |(_, orders)| orders.insert(order.key, (Arc::clone(&order), lines.clone())));
    world.by_date.insert_nested(order.date, order.key, (Arc::clone(&order), lines));
}

fn main() {
    let mut world = load(10_000, 150_000);
    let before = world.clone();
    println!("late orders of a quarter by priority: {:?}", late_orders_by_priority(&world, 100, 190));
    place(&mut world, Order { key: 150_000, customer: 42, date: 120, priority: 0 });

    let (customer, orders) = world.customers.get(&42).expect("a customer");
    let name = customer.as_ref().map_or("", |customer| &customer.name);
    let spent = orders.map_reduce(
        |_, (_, lines)| lines.values().map(|line| line.price).sum::<u64>(),
        |a, b| a + b,
        0,
    );
    println!("{name} has {} orders of {spent} altogether", orders.len());

    let counts = |world| late_orders_by_priority(world, 100, 190);
    let (old, new) = (counts(&before), counts(&world));
    println!("before the order {old:?}, after {new:?}");
    assert_eq!(new[0], old[0] + 1);
    assert_eq!(before.customers.get(&42).expect("a customer").1.len() + 1, orders.len());
}
