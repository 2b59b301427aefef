// SPDX-License-Identifier: Apache-2.0
//! TPC-C's nine tables (clause 1.3), with two secondary indexes for the two lookups that are not by primary key.
//!
//! `history` has no key in the specification. Here it has `h_id`, a number that stands in for the row's address
//! and that no transaction reads.

use crate::table::{ColumnSpec, TableSpec, column, nullable, numeric};
use coeval::ColumnType::{BigInt, Char, Int, Timestamp, Varchar};

/// Warehouses.
pub const WAREHOUSE: TableSpec = TableSpec {
    name: "warehouse",
    columns: &[
        column("w_id", Int),
        column("w_name", Varchar(10)),
        column("w_street_1", Varchar(20)),
        column("w_street_2", Varchar(20)),
        column("w_city", Varchar(20)),
        column("w_state", Char(2)),
        column("w_zip", Char(9)),
        column("w_tax", numeric(4, 4)),
        column("w_ytd", numeric(12, 2)),
    ],
    primary_key: &["w_id"],
    indexes: &[],
};

/// Ten districts for each warehouse.
pub const DISTRICT: TableSpec = TableSpec {
    name: "district",
    columns: &[
        column("d_id", Int),
        column("d_w_id", Int),
        column("d_name", Varchar(10)),
        column("d_street_1", Varchar(20)),
        column("d_street_2", Varchar(20)),
        column("d_city", Varchar(20)),
        column("d_state", Char(2)),
        column("d_zip", Char(9)),
        column("d_tax", numeric(4, 4)),
        column("d_ytd", numeric(12, 2)),
        column("d_next_o_id", Int),
    ],
    primary_key: &["d_w_id", "d_id"],
    indexes: &[],
};

/// 3,000 customers for each district.
pub const CUSTOMER: TableSpec = TableSpec {
    name: "customer",
    columns: &[
        column("c_id", Int),
        column("c_d_id", Int),
        column("c_w_id", Int),
        column("c_first", Varchar(16)),
        column("c_middle", Char(2)),
        column("c_last", Varchar(16)),
        column("c_street_1", Varchar(20)),
        column("c_street_2", Varchar(20)),
        column("c_city", Varchar(20)),
        column("c_state", Char(2)),
        column("c_zip", Char(9)),
        column("c_phone", Char(16)),
        column("c_since", Timestamp),
        column("c_credit", Char(2)),
        column("c_credit_lim", numeric(12, 2)),
        column("c_discount", numeric(4, 4)),
        column("c_balance", numeric(12, 2)),
        column("c_ytd_payment", numeric(12, 2)),
        column("c_payment_cnt", Int),
        column("c_delivery_cnt", Int),
        column("c_data", Varchar(500)),
    ],
    primary_key: &["c_w_id", "c_d_id", "c_id"],
    indexes: &[("customer_name", &["c_w_id", "c_d_id", "c_last", "c_first"])],
};

/// One row for each payment.
pub const HISTORY: TableSpec = TableSpec {
    name: "history",
    columns: &[
        column("h_id", BigInt),
        column("h_c_id", Int),
        column("h_c_d_id", Int),
        column("h_c_w_id", Int),
        column("h_d_id", Int),
        column("h_w_id", Int),
        column("h_date", Timestamp),
        column("h_amount", numeric(6, 2)),
        column("h_data", Varchar(24)),
    ],
    primary_key: &["h_id"],
    indexes: &[],
};

/// Orders that are not delivered yet.
pub const NEW_ORDER: TableSpec = TableSpec {
    name: "new_order",
    columns: &[column("no_o_id", Int), column("no_d_id", Int), column("no_w_id", Int)],
    primary_key: &["no_w_id", "no_d_id", "no_o_id"],
    indexes: &[],
};

/// Orders.
pub const ORDERS: TableSpec = TableSpec {
    name: "orders",
    columns: &[
        column("o_id", Int),
        column("o_d_id", Int),
        column("o_w_id", Int),
        column("o_c_id", Int),
        column("o_entry_d", Timestamp),
        nullable("o_carrier_id", Int),
        column("o_ol_cnt", Int),
        column("o_all_local", Int),
    ],
    primary_key: &["o_w_id", "o_d_id", "o_id"],
    indexes: &[("orders_customer", &["o_w_id", "o_d_id", "o_c_id", "o_id"])],
};

/// Five to fifteen lines for each order.
pub const ORDER_LINE: TableSpec = TableSpec {
    name: "order_line",
    columns: &[
        column("ol_o_id", Int),
        column("ol_d_id", Int),
        column("ol_w_id", Int),
        column("ol_number", Int),
        column("ol_i_id", Int),
        column("ol_supply_w_id", Int),
        nullable("ol_delivery_d", Timestamp),
        column("ol_quantity", Int),
        column("ol_amount", numeric(6, 2)),
        column("ol_dist_info", Char(24)),
    ],
    primary_key: &["ol_w_id", "ol_d_id", "ol_o_id", "ol_number"],
    indexes: &[],
};

/// 100,000 items, the same for all warehouses.
pub const ITEM: TableSpec = TableSpec {
    name: "item",
    columns: &[
        column("i_id", Int),
        column("i_im_id", Int),
        column("i_name", Varchar(24)),
        column("i_price", numeric(5, 2)),
        column("i_data", Varchar(50)),
    ],
    primary_key: &["i_id"],
    indexes: &[],
};

/// One row for each item and warehouse.
pub const STOCK: TableSpec = TableSpec {
    name: "stock",
    columns: &[
        column("s_i_id", Int),
        column("s_w_id", Int),
        column("s_quantity", Int),
        DIST[0],
        DIST[1],
        DIST[2],
        DIST[3],
        DIST[4],
        DIST[5],
        DIST[6],
        DIST[7],
        DIST[8],
        DIST[9],
        column("s_ytd", Int),
        column("s_order_cnt", Int),
        column("s_remote_cnt", Int),
        column("s_data", Varchar(50)),
    ],
    primary_key: &["s_w_id", "s_i_id"],
    indexes: &[],
};

const DIST: [ColumnSpec; 10] = [
    column("s_dist_01", Char(24)),
    column("s_dist_02", Char(24)),
    column("s_dist_03", Char(24)),
    column("s_dist_04", Char(24)),
    column("s_dist_05", Char(24)),
    column("s_dist_06", Char(24)),
    column("s_dist_07", Char(24)),
    column("s_dist_08", Char(24)),
    column("s_dist_09", Char(24)),
    column("s_dist_10", Char(24)),
];

/// All nine, in the order in which they are loaded.
pub const TABLES: [TableSpec; 9] =
    [ITEM, WAREHOUSE, STOCK, DISTRICT, CUSTOMER, HISTORY, ORDERS, NEW_ORDER, ORDER_LINE];
