# SPDX-License-Identifier: Apache-2.0
"""The tables that the tests look at: rows, a foreign key, bricks, a conflict."""

TABLES = """
CREATE TABLE accounts (id bigint PRIMARY KEY, owner text NOT NULL, balance numeric(12,2) CHECK (balance >= 0), note jsonb,
  since timestamptz DEFAULT now());
CREATE INDEX accounts_owner ON accounts (owner);
CREATE SCHEMA sales;
CREATE TABLE sales.orders (id int PRIMARY KEY, account bigint REFERENCES accounts (id) ON DELETE CASCADE,
  amount numeric(10,2));
CREATE VIEW rich AS SELECT id, owner FROM accounts WHERE balance > 1000;
CREATE TABLE events (region text, day date, likes int) USING brick
  PARTITION BY (region CARDINALITY 64 RANGE SIZE 4, day RANGE SIZE '7 days' FROM '2026-01-01');
COMMENT ON TABLE accounts IS 'Who has what';
"""

ROWS = """
INSERT INTO accounts (id, owner, balance, note)
  SELECT i, 'owner ' || i, i * 10, CASE WHEN i % 3 = 0 THEN NULL ELSE to_jsonb(repeat('long ', CAST(i AS int))) END
  FROM generate_series(1, 300) AS g(i);
INSERT INTO sales.orders SELECT i, i, i * 1.5 FROM generate_series(1, 100) AS g(i);
INSERT INTO events SELECT 'r' || (i % 20), CAST('2026-01-01' AS date) + CAST(i % 70 AS int), i
  FROM generate_series(1, 5000) AS g(i);
"""


def make(api):
    tab = api.tab()
    for statement in (TABLES + ROWS).split(";\n"):
        if statement.strip():
            api.must(tab, statement)
    api.close_tab(tab)


def conflict(api):
    """A transaction that is refused because another one has written the same row."""
    first, second = api.tab(), api.tab()
    api.must(second, "BEGIN")
    api.must(second, "SELECT balance FROM accounts WHERE id = 1")
    api.must(first, "UPDATE accounts SET balance = balance + 1 WHERE id = 1")
    events = api.run(second, "UPDATE accounts SET balance = balance - 1 WHERE id = 1")
    assert [event["sqlstate"] for event in events if event["event"] == "error"] == ["40001"], events
    api.run(second, "ROLLBACK")
    api.close_tab(first)
    api.close_tab(second)
