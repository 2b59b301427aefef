-- Statements, transactions, errors, variables and formats.
CREATE TABLE t (id int PRIMARY KEY, v text, n numeric(6,2));
INSERT INTO t VALUES (1, 'one', 1.5), (2, NULL, -2), (3, 'three', NULL) RETURNING id, n;
SELECT * FROM t ORDER BY id;
UPDATE t SET v = 'two' WHERE id = 2;
DELETE FROM t WHERE id = 3;
\pset null '(null)'
INSERT INTO t (id) VALUES (4);
SELECT * FROM t ORDER BY id DESC;
\pset null ''
BEGIN;
INSERT INTO t VALUES (5, 'five', 5);
SAVEPOINT here;
INSERT INTO t VALUES (5, 'again', 5);
SELECT 1;
ROLLBACK TO here;
SELECT count(*) FROM t;
COMMIT;
BEGIN;
DELETE FROM t;
SELECT count(*) FROM t;
ROLLBACK;
SELECT count(*) FROM t;
BEGIN;
SELECT 1 / 0;
SELECT 1;
COMMIT;
\set VERBOSITY sqlstate
SELECT * FROM missing;
SELECT missing FROM t;
INSERT INTO t VALUES (1);
INSERT INTO t VALUES ('x');
SELEC 1;
INSERT INTO t (id, n) VALUES (9, 12345.67);
SELECT missing_function(1);
\set VERBOSITY default
SELECT * FROM missing;
SELECT missing FROM t;
INSERT INTO t VALUES (1);
SELECT 'x' || 1 / 0;
\echo :ERROR :SQLSTATE :ROW_COUNT
SELECT id FROM t ORDER BY id;
\echo :ERROR :SQLSTATE :ROW_COUNT
-- Several statements of one text are one transaction.
SELECT 1 AS a\; SELECT 2 AS b;
INSERT INTO t VALUES (20)\; INSERT INTO t VALUES (20);
SELECT count(*) FROM t WHERE id = 20;
\set who 'O''Neil'
SELECT :'who' AS who, :ROW_COUNT + 1 AS more;
SELECT id, v FROM t WHERE id = 1 \gset got_
\echo :got_id :got_v
SELECT 'SELECT ' || id FROM t WHERE id < 3 ORDER BY id \gexec
SELECT id, 'a' || (id % 2) AS c, n FROM t WHERE id < 3 ORDER BY id \crosstabview
SELECT id, v FROM t ORDER BY id \gx
SELECT id, v, n FROM t \gdesc
\x on
SELECT id, v FROM t WHERE id = 1;
\x off
\pset format csv
SELECT id, v, n FROM t ORDER BY id;
\pset format unaligned
SELECT id, v, n FROM t ORDER BY id;
\pset format aligned
PREPARE by_id (int) AS SELECT v FROM t WHERE id = $1;
EXECUTE by_id(1);
EXECUTE by_id(2);
DEALLOCATE by_id;
EXECUTE by_id(1);
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id;
FETCH 2 FROM c;
FETCH ALL FROM c;
MOVE BACKWARD ALL IN c;
FETCH 1 FROM c;
CLOSE c;
COMMIT;
\set FETCH_COUNT 2
SELECT id FROM t ORDER BY id;
\unset FETCH_COUNT
\set AUTOCOMMIT off
INSERT INTO t VALUES (30);
ROLLBACK;
SELECT count(*) FROM t WHERE id = 30;
COMMIT;
\set AUTOCOMMIT on
\set ON_ERROR_ROLLBACK on
BEGIN;
INSERT INTO t VALUES (40);
INSERT INTO t VALUES (40);
INSERT INTO t VALUES (41);
COMMIT;
\set ON_ERROR_ROLLBACK off
SELECT id FROM t WHERE id >= 40 ORDER BY id;
SET application_name = 'scripted';
SHOW application_name;
SELECT current_setting('application_name');
