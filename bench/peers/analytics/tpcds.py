# SPDX-License-Identifier: Apache-2.0
"""TPC-DS's files: made by DuckDB's generator, with the texts of its queries.

The generator is an extension, which PyPI has for some versions of DuckDB, and not for the one that is measured. So it runs in an
environment of its own, and what it makes is read by both.
"""

import subprocess
import sys
from pathlib import Path

from peers.machine import BENCH

VENV = BENCH / ".venv-tpcds"
# The newest version of both.
DUCKDB_VERSION = "1.5.5"

# The tables of facts, a column that is no key, and a number for each row.
CHANGES = [
    ("store_sales", "ss_quantity", "ss_ticket_number * 18000 + ss_item_sk"),
    ("catalog_sales", "cs_quantity", "cs_order_number * 18000 + cs_item_sk"),
    ("web_sales", "ws_quantity", "ws_order_number * 18000 + ws_item_sk"),
    ("store_returns", "sr_return_quantity", "sr_ticket_number * 18000 + sr_item_sk"),
    ("catalog_returns", "cr_return_quantity", "cr_order_number * 18000 + cr_item_sk"),
    ("web_returns", "wr_return_quantity", "wr_order_number * 18000 + wr_item_sk"),
    ("inventory", "inv_quantity_on_hand", "inv_date_sk * 18000 + inv_item_sk * 5 + inv_warehouse_sk"),
]


def make(directory, arguments):
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    wanted = [f"duckdb=={DUCKDB_VERSION}", f"duckdb-extension-tpcds=={DUCKDB_VERSION}"]
    probe = f"import duckdb, duckdb_extension_tpcds; assert duckdb.__version__ == '{DUCKDB_VERSION}'"
    if subprocess.run([str(python), "-c", probe], stderr=subprocess.DEVNULL).returncode != 0:
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
    generator = Path(__file__).with_name("tpcds_generator.py")
    subprocess.run([str(python), str(generator), str(directory), str(arguments.scale)], check=True)
