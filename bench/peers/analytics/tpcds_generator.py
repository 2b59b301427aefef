# SPDX-License-Identifier: Apache-2.0
"""Writes TPC-DS's tables, their definitions and the queries into a directory. Runs in an environment that has the extension.

    tpcds_generator.py DIRECTORY SCALE
"""

import sys
from pathlib import Path

import duckdb
import duckdb_extension_tpcds

# The specification's primary keys (clause 2.3, 2.4).
KEYS = {
    "call_center": "cc_call_center_sk",
    "catalog_page": "cp_catalog_page_sk",
    "catalog_returns": "cr_item_sk, cr_order_number",
    "catalog_sales": "cs_item_sk, cs_order_number",
    "customer": "c_customer_sk",
    "customer_address": "ca_address_sk",
    "customer_demographics": "cd_demo_sk",
    "date_dim": "d_date_sk",
    "household_demographics": "hd_demo_sk",
    "income_band": "ib_income_band_sk",
    "inventory": "inv_date_sk, inv_item_sk, inv_warehouse_sk",
    "item": "i_item_sk",
    "promotion": "p_promo_sk",
    "reason": "r_reason_sk",
    "ship_mode": "sm_ship_mode_sk",
    "store": "s_store_sk",
    "store_returns": "sr_item_sk, sr_ticket_number",
    "store_sales": "ss_item_sk, ss_ticket_number",
    "time_dim": "t_time_sk",
    "warehouse": "w_warehouse_sk",
    "web_page": "wp_web_page_sk",
    "web_returns": "wr_item_sk, wr_order_number",
    "web_sales": "ws_item_sk, ws_order_number",
    "web_site": "web_site_sk",
}


def main(directory, scale):
    connection = duckdb.connect()
    package = Path(duckdb_extension_tpcds.__file__).parent
    connection.execute(f"LOAD '{package / 'extensions' / f'v{duckdb.__version__}' / 'tpcds.duckdb_extension'}'")
    connection.execute(f"CALL dsdgen(sf = {scale:g})")
    definitions = []
    for table, key in KEYS.items():
        columns = connection.execute(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index", [table]).fetchall()
        lines = [f"    {name} {kind.lower()}" for name, kind in columns] + [f"    PRIMARY KEY ({key})"]
        definitions.append(f"CREATE TABLE {table} (\n" + ",\n".join(lines) + "\n);\n")
        connection.execute(f"COPY {table} TO '{directory / table}.parquet' (FORMAT parquet)")
    (directory / "schema.sql").write_text("".join(definitions))
    (directory / "queries").mkdir()
    for number, text in connection.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall():
        (directory / "queries" / f"q{number:02}.sql").write_text(text.strip() + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
