# SPDX-License-Identifier: Apache-2.0
"""Coeval and DuckDB on suites of analytical queries: TPC-DS, TPC-H, db-benchmark's groupby and join.

A round of a suite loads each system, starts it anew, and asks every query: once right behind the start, once for its answer, and
`--runs` times for the clock. Coeval is asked once more with rows changed since its checkpoint. `rounds` is the order of all that,
`suites` what is asked, `coeval_side` and `duckdb_side` who is asked, `page` what is said of it.
"""
