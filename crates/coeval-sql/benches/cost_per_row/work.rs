// SPDX-License-Identifier: Apache-2.0
//! The kinds of work whose cost for each row is measured.

/// One kind of work: what is there before, and what is timed; `{n}` is the number of rows, `{files}` a directory of its own.
/// What is there before and says `{i}` is there for each row; of definitions, a row is one of them.
pub(super) struct Work {
    pub(super) name: &'static str,
    pub(super) before: &'static [&'static str],
    pub(super) timed: Timed,
}

pub(super) enum Timed {
    /// One statement for all rows.
    Whole(&'static str),
    /// A statement for each row, `{i}`, in one transaction.
    Each(&'static str),
    /// A statement for each row, `{i}`, which is a transaction of its own.
    Alone(&'static str),
    /// One statement that names all rows: what stands before them, of each of them, `{i}`, and behind them.
    Listed(&'static str, &'static str, &'static str),
    /// COPY FROM STDIN, and the piece that comes for each row, `{i}`.
    Fed(&'static str, &'static str),
}

const T: &str = "CREATE TABLE t (n int PRIMARY KEY, v int, w text)";
const FILLED: &str = "INSERT INTO t SELECT n, n, 'text' FROM generate_series(1, {n}) s(n)";
const PARENTS: &str =
    "CREATE TABLE p (n int PRIMARY KEY); INSERT INTO p SELECT n FROM generate_series(1, {n}) s(n)";

/// Tables that notice each row: what it refers to, what it must not repeat, what it must be, and what is computed from it.
const STRICT: &str = "CREATE TABLE t (n int PRIMARY KEY, v int UNIQUE REFERENCES p, w text CHECK (w <> ''), \
                      x int GENERATED ALWAYS AS (v * 2) STORED); CREATE INDEX ON t (w, v)";
const BRICKS: &str =
    "CREATE TABLE t (n int, v int, w text) USING brick PARTITION BY (v CARDINALITY 64 RANGE SIZE 8)";
const FILLED_BRICKS: &str = "INSERT INTO t SELECT n, n % 64, 'text' FROM generate_series(1, {n}) s(n)";

/// A file of rows, `{files}/rows`: of these columns of `n`, in this order, in this format.
macro_rules! rows_file {
    ($columns:literal, $order:literal, $format:literal) => {
        concat!(
            "COPY (SELECT ",
            $columns,
            " FROM generate_series(1, {n}) s(n) ORDER BY ",
            $order,
            ") TO '{files}/rows' (FORMAT ",
            $format,
            ")"
        )
    };
}

/// A table of children of `p`, with this to say about parents that go, and a row for each of them.
macro_rules! children {
    ($action:literal, $index:literal) => {
        concat!(
            "CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p ",
            $action,
            "); ",
            $index,
            "INSERT INTO c SELECT n, n FROM generate_series(1, {n}) s(n)"
        )
    };
}

pub(super) const WORK: &[Work] = &[
    Work { name: "insert select", before: &[T], timed: Timed::Whole(FILLED) },
    Work {
        name: "insert, one by one",
        before: &[T],
        timed: Timed::Each("INSERT INTO t VALUES ({i}, 1, 'a')"),
    },
    Work {
        name: "insert on conflict",
        before: &[T, FILLED],
        timed: Timed::Whole(
            "INSERT INTO t SELECT n, 1, 'b' FROM generate_series(1, {n}) s(n) ON CONFLICT (n) DO UPDATE SET v = excluded.v",
        ),
    },
    Work {
        name: "insert returning",
        before: &[T],
        timed: Timed::Whole("INSERT INTO t SELECT n, n, 'a' FROM generate_series(1, {n}) s(n) RETURNING n"),
    },
    Work {
        name: "insert, child of a parent",
        before: &[PARENTS, "CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p)"],
        timed: Timed::Whole("INSERT INTO c SELECT n, n FROM generate_series(1, {n}) s(n) RETURNING n"),
    },
    Work {
        name: "insert, deferred constraint",
        before: &[
            PARENTS,
            "CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
        ],
        timed: Timed::Each("INSERT INTO c VALUES ({i}, {i})"),
    },
    Work {
        name: "insert, generated column and check",
        before: &[
            "CREATE TABLE t (n int PRIMARY KEY, v int GENERATED ALWAYS AS (n * 2) STORED, CHECK (n > 0))",
        ],
        timed: Timed::Whole("INSERT INTO t SELECT n FROM generate_series(1, {n}) s(n) RETURNING n"),
    },
    Work { name: "update", before: &[T, FILLED], timed: Timed::Whole("UPDATE t SET v = v + 1") },
    Work {
        name: "update of the key",
        before: &[T, FILLED],
        timed: Timed::Whole("UPDATE t SET n = n + 10000000"),
    },
    Work {
        name: "update, indexed column",
        before: &[T, FILLED, "CREATE INDEX ON t (v)"],
        timed: Timed::Whole("UPDATE t SET v = v + 1"),
    },
    Work {
        name: "update, one by one",
        before: &[T, FILLED],
        timed: Timed::Each("UPDATE t SET v = 0 WHERE n = {i}"),
    },
    Work { name: "delete", before: &[T, FILLED], timed: Timed::Whole("DELETE FROM t") },
    Work {
        name: "delete of parents without children",
        before: &[PARENTS, "CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p)"],
        timed: Timed::Whole("DELETE FROM p"),
    },
    Work {
        name: "delete, cascade with an index",
        before: &[PARENTS, children!("ON DELETE CASCADE", "CREATE INDEX ON c (p); ")],
        timed: Timed::Whole("DELETE FROM p"),
    },
    Work {
        name: "delete, cascade without an index",
        before: &[PARENTS, children!("ON DELETE CASCADE", "")],
        timed: Timed::Whole("DELETE FROM p"),
    },
    Work {
        name: "delete, set null without an index",
        before: &[PARENTS, children!("ON DELETE SET NULL", "")],
        timed: Timed::Whole("DELETE FROM p"),
    },
    Work {
        name: "update of parents, cascade",
        before: &[PARENTS, children!("ON UPDATE CASCADE", "CREATE INDEX ON c (p); ")],
        timed: Timed::Whole("UPDATE p SET n = n + 10000000"),
    },
    Work {
        name: "delete down a chain",
        before: &[
            "CREATE TABLE chain (n int PRIMARY KEY, up int REFERENCES chain ON DELETE CASCADE)",
            "INSERT INTO chain SELECT n, greatest(n - 1, 1) FROM generate_series(1, {n}) s(n)",
        ],
        timed: Timed::Whole("DELETE FROM chain WHERE n = 1"),
    },
    Work {
        name: "merge",
        before: &[T, FILLED],
        timed: Timed::Whole(
            "MERGE INTO t USING (SELECT n FROM generate_series(1, {n}) s(n)) s ON t.n = s.n WHEN MATCHED THEN UPDATE SET v = 0",
        ),
    },
    Work {
        name: "insert, two unique indexes",
        before: &[T, "CREATE UNIQUE INDEX ON t (v); CREATE UNIQUE INDEX ON t (w, n)"],
        timed: Timed::Whole("INSERT INTO t SELECT n, n, 'a' FROM generate_series(1, {n}) s(n) RETURNING n"),
    },
    Work {
        name: "insert into a temporary table",
        before: &["CREATE TEMPORARY TABLE t (n int PRIMARY KEY, v int, w text)"],
        timed: Timed::Whole(FILLED),
    },
    Work { name: "insert into bricks", before: &[BRICKS], timed: Timed::Whole(FILLED_BRICKS) },
    Work {
        name: "update from",
        before: &[T, FILLED, PARENTS],
        timed: Timed::Whole("UPDATE t SET v = p.n + 1 FROM p WHERE p.n = t.n"),
    },
    Work {
        name: "delete using",
        before: &[T, FILLED, PARENTS],
        timed: Timed::Whole("DELETE FROM t USING p WHERE p.n = t.n"),
    },
    Work {
        name: "select for update",
        before: &[T, FILLED],
        timed: Timed::Whole("BEGIN; SELECT count(*) FROM (SELECT n FROM t FOR UPDATE) s; COMMIT"),
    },
    Work {
        name: "delete of parents, restrict",
        before: &[
            PARENTS,
            "CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p ON DELETE RESTRICT); CREATE INDEX ON c (p)",
        ],
        timed: Timed::Whole("DELETE FROM p"),
    },
    Work {
        name: "delete, set null with an index",
        before: &[PARENTS, children!("ON DELETE SET NULL", "CREATE INDEX ON c (p); ")],
        timed: Timed::Whole("DELETE FROM p"),
    },
    Work {
        name: "set constraints",
        before: &[
            PARENTS,
            "CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
        ],
        timed: Timed::Each(
            "INSERT INTO c VALUES ({i}, {i}); SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED",
        ),
    },
    Work {
        name: "rows moved by WITH",
        before: &[T, FILLED, "CREATE TABLE u (n int PRIMARY KEY, v int, w text)"],
        timed: Timed::Whole("WITH gone AS (DELETE FROM t RETURNING *) INSERT INTO u SELECT * FROM gone"),
    },
    Work { name: "create index", before: &[T, FILLED], timed: Timed::Whole("CREATE INDEX ON t (v, w)") },
    Work {
        name: "add a check",
        before: &[T, FILLED],
        timed: Timed::Whole("ALTER TABLE t ADD CHECK (v > 0)"),
    },
    Work {
        name: "add a unique constraint",
        before: &[T, FILLED],
        timed: Timed::Whole("ALTER TABLE t ADD UNIQUE (v)"),
    },
    Work {
        name: "add a foreign key",
        before: &[T, FILLED, PARENTS],
        timed: Timed::Whole("ALTER TABLE t ADD FOREIGN KEY (v) REFERENCES p"),
    },
    Work {
        name: "savepoints",
        before: &[T],
        timed: Timed::Each("SAVEPOINT s; INSERT INTO t VALUES ({i}, 1, 'a'); RELEASE SAVEPOINT s"),
    },
    Work {
        name: "fetch",
        before: &[T, FILLED, "BEGIN; DECLARE k CURSOR WITH HOLD FOR SELECT * FROM t; COMMIT"],
        timed: Timed::Each("FETCH 1 FROM k"),
    },
    Work {
        name: "copy from text",
        before: &[T, rows_file!("n, n, 'text'", "n", "text")],
        timed: Timed::Whole("COPY t FROM '{files}/rows'"),
    },
    Work {
        name: "copy from csv",
        before: &[T, rows_file!("n, n, 'text'", "n", "csv")],
        timed: Timed::Whole("COPY t FROM '{files}/rows' (FORMAT csv)"),
    },
    Work {
        name: "copy from binary",
        before: &[T, rows_file!("n, n, 'text'", "n", "binary")],
        timed: Timed::Whole("COPY t FROM '{files}/rows' (FORMAT binary)"),
    },
    Work {
        name: "copy from parquet",
        before: &[T, rows_file!("n, n AS v, 'text' AS w", "n", "parquet")],
        timed: Timed::Whole("COPY t FROM '{files}/rows' (FORMAT parquet)"),
    },
    Work {
        name: "copy from text, not in the key's order",
        before: &[T, rows_file!("n, n, 'text'", "(n * 7919::bigint) % 1000003", "text")],
        timed: Timed::Whole("COPY t FROM '{files}/rows'"),
    },
    Work {
        name: "copy from text, no key",
        before: &["CREATE TABLE t (n int, v int, w text)", rows_file!("n, n, 'text'", "n", "text")],
        timed: Timed::Whole("COPY t FROM '{files}/rows'"),
    },
    Work {
        name: "copy from text, all constraints",
        before: &[PARENTS, STRICT, rows_file!("n, n, 'text'", "n", "text")],
        timed: Timed::Whole("COPY t FROM '{files}/rows'"),
    },
    Work {
        name: "copy from binary, all constraints",
        before: &[PARENTS, STRICT, rows_file!("n, n, 'text'", "n", "binary")],
        timed: Timed::Whole("COPY t FROM '{files}/rows' (FORMAT binary)"),
    },
    Work {
        name: "copy from text, deferred constraint",
        before: &[
            PARENTS,
            "CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
            rows_file!("n, n", "n", "text"),
        ],
        timed: Timed::Whole("COPY c FROM '{files}/rows'"),
    },
    Work {
        name: "copy from text into bricks",
        before: &[BRICKS, rows_file!("n, n % 64, 'text'", "n", "text")],
        timed: Timed::Whole("COPY t FROM '{files}/rows'"),
    },
    Work {
        name: "copy from binary into bricks",
        before: &[BRICKS, rows_file!("n, n % 64, 'text'", "n", "binary")],
        timed: Timed::Whole("COPY t FROM '{files}/rows' (FORMAT binary)"),
    },
    Work {
        name: "copy into bricks, all rows rejected",
        before: &[BRICKS, rows_file!("n, -1, 'text'", "n", "text")],
        timed: Timed::Whole("COPY t FROM '{files}/rows' (MAX_REJECTED {n})"),
    },
    Work {
        name: "copy from the client, row by row",
        before: &[T],
        timed: Timed::Fed("COPY t FROM STDIN", "{i}\t1\ttext\n"),
    },
    Work {
        name: "copy from the client into bricks",
        before: &[BRICKS],
        timed: Timed::Fed("COPY t FROM STDIN", "{i}\t1\ttext\n"),
    },
    Work {
        name: "one row copied, each a transaction",
        before: &[T, "COPY (SELECT 1) TO '{files}/rows'"],
        timed: Timed::Alone("COPY t (n) FROM '{files}/rows'; DELETE FROM t WHERE n = 1"),
    },
    Work { name: "copy to text", before: &[T, FILLED], timed: Timed::Whole("COPY t TO '{files}/rows'") },
    Work {
        name: "copy to binary",
        before: &[T, FILLED],
        timed: Timed::Whole("COPY t TO '{files}/rows' (FORMAT binary)"),
    },
    Work {
        name: "copy to parquet",
        before: &[T, FILLED],
        timed: Timed::Whole("COPY t TO '{files}/rows' (FORMAT parquet)"),
    },
    Work {
        name: "copy of bricks to text",
        before: &[BRICKS, FILLED_BRICKS],
        timed: Timed::Whole("COPY t TO '{files}/rows'"),
    },
    Work {
        name: "insert, a list of values",
        before: &[T],
        timed: Timed::Listed("INSERT INTO t VALUES ", "({i}, 1, 'a'), ", "(0, 1, 'a')"),
    },
    Work {
        name: "insert, each a transaction",
        before: &[T],
        timed: Timed::Alone("INSERT INTO t VALUES ({i}, 1, 'a')"),
    },
    Work {
        name: "insert, all constraints",
        before: &[PARENTS, STRICT],
        timed: Timed::Whole("INSERT INTO t SELECT n, n, 'a' FROM generate_series(1, {n}) s(n)"),
    },
    Work {
        name: "insert, all constraints, one by one",
        before: &[PARENTS, STRICT],
        timed: Timed::Each("INSERT INTO t VALUES ({i}, {i}, 'a')"),
    },
    Work {
        name: "insert, identity column",
        before: &["CREATE TABLE t (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int)"],
        timed: Timed::Whole("INSERT INTO t (v) SELECT n FROM generate_series(1, {n}) s(n)"),
    },
    Work {
        name: "insert, serial column, one by one",
        before: &["CREATE TABLE t (n serial PRIMARY KEY, v int)"],
        timed: Timed::Each("INSERT INTO t (v) VALUES ({i})"),
    },
    Work {
        name: "insert, no key",
        before: &["CREATE TABLE t (n int, v int)"],
        timed: Timed::Whole("INSERT INTO t SELECT n, n FROM generate_series(1, {n}) s(n)"),
    },
    Work {
        name: "insert, key of two columns",
        before: &["CREATE TABLE t (n int, v int, w text, PRIMARY KEY (v, n))"],
        timed: Timed::Whole("INSERT INTO t SELECT n, n % 10, 'a' FROM generate_series(1, {n}) s(n)"),
    },
    Work {
        name: "insert, all with one value of an index",
        before: &[T, "CREATE INDEX ON t (v)"],
        timed: Timed::Whole("INSERT INTO t SELECT n, 1, 'a' FROM generate_series(1, {n}) s(n)"),
    },
    Work {
        name: "insert, all children of one parent",
        before: &[
            "CREATE TABLE p (n int PRIMARY KEY); INSERT INTO p VALUES (1)",
            "CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p)",
        ],
        timed: Timed::Each("INSERT INTO c VALUES ({i}, 1)"),
    },
    Work {
        name: "insert, index on an expression",
        before: &[T, "CREATE UNIQUE INDEX ON t (lower(w)) WHERE v > 0"],
        timed: Timed::Whole("INSERT INTO t SELECT n, n, 'A' || n FROM generate_series(1, {n}) s(n)"),
    },
    Work {
        name: "insert on conflict do nothing",
        before: &[T, FILLED],
        timed: Timed::Whole(
            "INSERT INTO t SELECT n, 1, 'b' FROM generate_series(1, {n}) s(n) ON CONFLICT DO NOTHING",
        ),
    },
    Work {
        name: "insert on conflict, one by one",
        before: &[T, FILLED],
        timed: Timed::Each("INSERT INTO t VALUES ({i}, 1, 'b') ON CONFLICT (n) DO UPDATE SET v = excluded.v"),
    },
    Work {
        name: "insert on conflict, second unique index",
        before: &[T, "CREATE UNIQUE INDEX ON t (v)", FILLED],
        timed: Timed::Whole(
            "INSERT INTO t SELECT n + 10000000, n, 'b' FROM generate_series(1, {n}) s(n) ON CONFLICT (v) DO UPDATE SET w = 'c'",
        ),
    },
    Work {
        name: "insert into bricks, one by one",
        before: &[BRICKS],
        timed: Timed::Each("INSERT INTO t VALUES ({i}, {i} % 64, 'a')"),
    },
    Work {
        name: "insert into bricks, each a transaction",
        before: &[BRICKS],
        timed: Timed::Alone("INSERT INTO t VALUES ({i}, {i} % 64, 'a')"),
    },
    Work {
        name: "insert into bricks, texts as a dimension",
        before: &[
            "CREATE TABLE t (n int, w text) USING brick PARTITION BY (w CARDINALITY 1000000 RANGE SIZE 100000)",
        ],
        timed: Timed::Whole("INSERT INTO t SELECT n, 'text ' || n FROM generate_series(1, {n}) s(n)"),
    },
    Work {
        name: "create table as",
        before: &[T, FILLED],
        timed: Timed::Whole("CREATE TABLE u AS SELECT * FROM t"),
    },
    Work {
        name: "update returning",
        before: &[T, FILLED],
        timed: Timed::Whole("UPDATE t SET v = v + 1 RETURNING n"),
    },
    Work {
        name: "update, each a transaction",
        before: &[T, FILLED],
        timed: Timed::Alone("UPDATE t SET v = 0 WHERE n = {i}"),
    },
    Work {
        name: "update, the same row again and again",
        before: &[T, "INSERT INTO t VALUES (1, 0, 'a')"],
        timed: Timed::Alone("UPDATE t SET v = v + 1 WHERE n = 1"),
    },
    Work {
        name: "update, the same row in one transaction",
        before: &[T, "INSERT INTO t VALUES (1, 0, 'a')"],
        timed: Timed::Each("UPDATE t SET v = v + 1 WHERE n = 1"),
    },
    Work {
        name: "update, all constraints",
        before: &[
            PARENTS,
            "INSERT INTO p SELECT n + {n} FROM generate_series(1, {n}) s(n)",
            STRICT,
            "INSERT INTO t SELECT n, n, 'a' FROM generate_series(1, {n}) s(n)",
        ],
        timed: Timed::Whole("UPDATE t SET v = v + {n}, w = 'b'"),
    },
    Work {
        name: "update of the key, reversed",
        before: &[T, FILLED],
        timed: Timed::Whole("UPDATE t SET n = -n"),
    },
    Work {
        name: "update of children",
        before: &[PARENTS, children!("", "CREATE INDEX ON c (p); ")],
        timed: Timed::Whole("UPDATE c SET p = {n} + 1 - p"),
    },
    Work {
        name: "update with a subquery for each row",
        before: &[T, FILLED, PARENTS],
        timed: Timed::Whole("UPDATE t SET v = (SELECT p.n + 1 FROM p WHERE p.n = t.n)"),
    },
    Work {
        name: "update of parents, cascade without an index",
        before: &[PARENTS, children!("ON UPDATE CASCADE", "")],
        timed: Timed::Whole("UPDATE p SET n = n + 10000000"),
    },
    Work {
        name: "update of parents, set null",
        before: &[PARENTS, children!("ON UPDATE SET NULL", "CREATE INDEX ON c (p); ")],
        timed: Timed::Whole("UPDATE p SET n = n + 10000000"),
    },
    Work {
        name: "delete, one by one",
        before: &[T, FILLED],
        timed: Timed::Each("DELETE FROM t WHERE n = {i}"),
    },
    Work {
        name: "delete, each a transaction",
        before: &[T, FILLED],
        timed: Timed::Alone("DELETE FROM t WHERE n = {i}"),
    },
    Work { name: "delete returning", before: &[T, FILLED], timed: Timed::Whole("DELETE FROM t RETURNING *") },
    Work {
        name: "delete, a list of keys",
        before: &[T, FILLED],
        timed: Timed::Listed("DELETE FROM t WHERE n IN (", "{i}, ", "0)"),
    },
    Work {
        name: "delete of parents, one by one",
        before: &[PARENTS, children!("ON DELETE CASCADE", "CREATE INDEX ON c (p); ")],
        timed: Timed::Each("DELETE FROM p WHERE n = {i}"),
    },
    Work {
        name: "delete of one parent of all",
        before: &[
            "CREATE TABLE p (n int PRIMARY KEY); INSERT INTO p VALUES (1)",
            "CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE); CREATE INDEX ON c (p)",
            "INSERT INTO c SELECT n, 1 FROM generate_series(1, {n}) s(n)",
        ],
        timed: Timed::Whole("DELETE FROM p"),
    },
    Work {
        name: "delete of parents, then of children",
        before: &[PARENTS, children!("DEFERRABLE INITIALLY DEFERRED", "CREATE INDEX ON c (p); ")],
        timed: Timed::Whole("BEGIN; DELETE FROM p; DELETE FROM c; COMMIT"),
    },
    Work {
        name: "delete, set default",
        before: &[
            PARENTS,
            "INSERT INTO p VALUES (0)",
            "CREATE TABLE c (n int PRIMARY KEY, p int DEFAULT 0 REFERENCES p ON DELETE SET DEFAULT); CREATE INDEX ON c (p)",
            "INSERT INTO c SELECT n, n FROM generate_series(1, {n}) s(n)",
        ],
        timed: Timed::Whole("DELETE FROM p WHERE n > 0"),
    },
    Work {
        name: "delete of bricks",
        before: &[BRICKS, FILLED_BRICKS],
        timed: Timed::Whole("DELETE FROM t WHERE v < 32"),
    },
    Work {
        name: "queue, taken one by one",
        before: &[T, FILLED],
        timed: Timed::Each(
            "DELETE FROM t WHERE n = (SELECT n FROM t ORDER BY n LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING n",
        ),
    },
    Work {
        name: "queue, each a transaction",
        before: &[T, FILLED],
        timed: Timed::Alone(
            "DELETE FROM t WHERE n = (SELECT n FROM t ORDER BY n LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING n",
        ),
    },
    Work {
        name: "queue, taken by a list",
        before: &[T, FILLED],
        timed: Timed::Each(
            "UPDATE t SET w = 'taken' WHERE n IN (SELECT n FROM t WHERE n >= {i} ORDER BY n LIMIT 2 FOR UPDATE SKIP LOCKED)",
        ),
    },
    Work {
        name: "merge, inserts",
        before: &[T],
        timed: Timed::Whole(
            "MERGE INTO t USING (SELECT n FROM generate_series(1, {n}) s(n)) s ON t.n = s.n WHEN NOT MATCHED THEN INSERT VALUES (s.n, 1, 'a')",
        ),
    },
    Work {
        name: "merge, deletes and inserts",
        before: &[T, FILLED],
        timed: Timed::Whole(
            "MERGE INTO t USING (SELECT n * 2 AS n FROM generate_series(1, {n}) s(n)) s ON t.n = s.n WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.n, 1, 'a')",
        ),
    },
    Work {
        name: "truncate",
        before: &[PARENTS, children!("", "CREATE INDEX ON c (p); ")],
        timed: Timed::Whole("TRUNCATE p CASCADE"),
    },
    Work { name: "truncate bricks", before: &[BRICKS, FILLED_BRICKS], timed: Timed::Whole("TRUNCATE t") },
    Work {
        name: "drop table",
        before: &[T, FILLED, "CREATE INDEX ON t (v)"],
        timed: Timed::Whole("DROP TABLE t"),
    },
    Work {
        name: "create unique index",
        before: &[T, FILLED],
        timed: Timed::Whole("CREATE UNIQUE INDEX ON t (v)"),
    },
    Work {
        name: "create index on an expression",
        before: &[T, FILLED],
        timed: Timed::Whole("CREATE INDEX ON t (lower(w)) WHERE v > 1"),
    },
    Work {
        name: "add a column",
        before: &[T, FILLED],
        timed: Timed::Whole("ALTER TABLE t ADD COLUMN x int NOT NULL DEFAULT 7"),
    },
    Work {
        name: "add a serial column",
        before: &[T, FILLED],
        timed: Timed::Whole("ALTER TABLE t ADD COLUMN x serial"),
    },
    Work {
        name: "add a generated column",
        before: &[T, FILLED],
        timed: Timed::Whole("ALTER TABLE t ADD COLUMN x int GENERATED ALWAYS AS (v * 2) STORED"),
    },
    Work {
        name: "add a column to bricks",
        before: &[BRICKS, FILLED_BRICKS],
        timed: Timed::Whole("ALTER TABLE t ADD COLUMN x int DEFAULT 7"),
    },
    Work {
        name: "change a column's type",
        before: &[T, FILLED, "CREATE INDEX ON t (v)"],
        timed: Timed::Whole("ALTER TABLE t ALTER COLUMN v TYPE text"),
    },
    Work {
        name: "set not null",
        before: &[T, FILLED],
        timed: Timed::Whole("ALTER TABLE t ALTER COLUMN v SET NOT NULL"),
    },
    Work {
        name: "drop a column",
        before: &[T, FILLED, "CREATE INDEX ON t (v)"],
        timed: Timed::Whole("ALTER TABLE t DROP COLUMN v"),
    },
    Work {
        name: "add a primary key",
        before: &["CREATE TABLE t (n int, v int, w text)", FILLED],
        timed: Timed::Whole("ALTER TABLE t ADD PRIMARY KEY (n)"),
    },
    Work {
        name: "insert, update and index in one transaction",
        before: &[T],
        timed: Timed::Whole(
            "BEGIN; INSERT INTO t SELECT n, n, 'text' FROM generate_series(1, {n}) s(n); UPDATE t SET v = v + 1; CREATE INDEX ON t (v); COMMIT",
        ),
    },
    Work {
        name: "fetch, all at once",
        before: &[T, FILLED, "BEGIN; DECLARE k CURSOR WITH HOLD FOR SELECT * FROM t; COMMIT"],
        timed: Timed::Whole("FETCH ALL FROM k"),
    },
    Work {
        name: "fetch, backwards",
        before: &[
            T,
            FILLED,
            "BEGIN; DECLARE k SCROLL CURSOR WITH HOLD FOR SELECT * FROM t; COMMIT",
            "MOVE LAST FROM k",
        ],
        timed: Timed::Each("FETCH PRIOR FROM k"),
    },
    Work {
        name: "declare, update while fetched",
        before: &[T, FILLED, "BEGIN; DECLARE k CURSOR WITH HOLD FOR SELECT * FROM t; COMMIT"],
        timed: Timed::Each("FETCH 1 FROM k; UPDATE t SET v = 0 WHERE n = {i}"),
    },
    Work {
        name: "savepoints, rolled back",
        before: &[T],
        timed: Timed::Each(
            "SAVEPOINT s; INSERT INTO t VALUES ({i}, 1, 'a'); ROLLBACK TO SAVEPOINT s; RELEASE SAVEPOINT s",
        ),
    },
    Work {
        name: "savepoints, each within the other",
        before: &[T],
        timed: Timed::Each("SAVEPOINT s; INSERT INTO t VALUES ({i}, 1, 'a')"),
    },
    Work {
        name: "update of a temporary table",
        before: &["CREATE TEMPORARY TABLE t (n int PRIMARY KEY, v int, w text)", FILLED],
        timed: Timed::Whole("UPDATE t SET v = v + 1"),
    },
    Work {
        name: "insert into a temporary table, one by one",
        before: &["CREATE TEMPORARY TABLE t (n int PRIMARY KEY, v int, w text)"],
        timed: Timed::Each("INSERT INTO t VALUES ({i}, 1, 'a')"),
    },
    Work {
        name: "copy into a temporary table",
        before: &[
            "CREATE TEMPORARY TABLE t (n int PRIMARY KEY, v int, w text)",
            rows_file!("n, n, 'text'", "n", "text"),
        ],
        timed: Timed::Whole("COPY t FROM '{files}/rows'"),
    },
    Work {
        name: "nextval",
        before: &["CREATE SEQUENCE q"],
        timed: Timed::Whole("SELECT nextval('q') FROM generate_series(1, {n}) s(n)"),
    },
    Work {
        name: "nextval, each a transaction",
        before: &["CREATE SEQUENCE q"],
        timed: Timed::Alone("SELECT nextval('q')"),
    },
    Work {
        name: "select for update, one by one",
        before: &[T, FILLED],
        timed: Timed::Each("SELECT v FROM t WHERE n = {i} FOR UPDATE"),
    },
    Work {
        name: "select for share, one by one",
        before: &[T, FILLED],
        timed: Timed::Each("SELECT v FROM t WHERE n = {i} FOR SHARE"),
    },
    Work {
        name: "select for update, then update",
        before: &[T, FILLED],
        timed: Timed::Whole(
            "BEGIN; SELECT count(*) FROM (SELECT n FROM t FOR UPDATE) s; UPDATE t SET v = 0; COMMIT",
        ),
    },
    Work {
        name: "select, one by one",
        before: &[T, FILLED],
        timed: Timed::Each("SELECT v FROM t WHERE n = {i}"),
    },
    Work { name: "advisory locks", before: &[T], timed: Timed::Each("SELECT pg_advisory_xact_lock({i})") },
    Work {
        name: "execute, one by one",
        before: &[T, "PREPARE put (int) AS INSERT INTO t VALUES ($1, 1, 'a')"],
        timed: Timed::Each("EXECUTE put({i})"),
    },
    Work {
        name: "grant on all tables",
        before: &["CREATE ROLE r; CREATE SCHEMA s", "CREATE TABLE s.t{i} (n int PRIMARY KEY)"],
        timed: Timed::Whole("GRANT SELECT ON ALL TABLES IN SCHEMA s TO r"),
    },
    Work {
        name: "drop schema cascade",
        before: &["CREATE SCHEMA s", "CREATE TABLE s.t{i} (n int, v int DEFAULT 1)"],
        timed: Timed::Whole("DROP SCHEMA s CASCADE"),
    },
    Work {
        name: "drop table cascade, with views",
        before: &[T, "CREATE VIEW v{i} AS SELECT n FROM t"],
        timed: Timed::Whole("DROP TABLE t CASCADE"),
    },
    Work {
        name: "create temp table on commit drop",
        before: &[],
        timed: Timed::Alone("CREATE TEMP TABLE x (n int) ON COMMIT DROP"),
    },
];
