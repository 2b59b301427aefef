// SPDX-License-Identifier: Apache-2.0
//! The 22 queries, by hand, each on the tree that rules out most of what it does not need.
//!
//! Each is a map-reduce over an outer tree with loops over inner ones (P-Trees paper, section 4 and Figure 4). Everything
//! a query needs beyond the trees of the world it makes itself, within its time.

pub(crate) mod by_customer;
pub(crate) mod by_day;
pub(crate) mod by_order;
pub(crate) mod by_part;
pub(crate) mod by_supplier;
pub(crate) mod tables;

use crate::answers::Answer;
use crate::world::World;

/// A query on one version of the database.
pub(crate) type Query = for<'w> fn(&'w World) -> Answer<'w>;

/// All queries, the first one being number 1.
pub(crate) const QUERIES: [Query; 22] = [
    by_day::pricing_summary,
    by_part::minimum_cost_supplier,
    by_customer::shipping_priority,
    by_day::order_priority_checking,
    by_day::local_supplier_volume,
    by_day::forecasting_revenue_change,
    by_customer::volume_shipping,
    by_part::national_market_share,
    by_part::product_type_profit,
    by_day::returned_items,
    by_supplier::important_stock,
    by_day::shipping_modes,
    by_customer::customer_distribution,
    by_day::promotion_effect,
    by_day::top_supplier,
    by_part::parts_supplier_relationship,
    by_part::small_quantity_order_revenue,
    by_order::large_volume_customers,
    by_part::discounted_revenue,
    by_part::potential_part_promotion,
    by_order::suppliers_who_kept_orders_waiting,
    by_customer::global_sales_opportunity,
];
