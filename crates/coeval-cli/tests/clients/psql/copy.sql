-- COPY and \copy, in and out.
CREATE TABLE t (id int PRIMARY KEY, v text, d date);
COPY t FROM STDIN;
1	one	2026-01-01
2	\N	2026-01-02
3	tab\tand\\back	\N
\.
\copy t (id, v) FROM PROGRAM 'printf "id,v\n4,\"quoted, with \"\"marks\"\"\"\n5,\n6,\"\"\n"' WITH (FORMAT csv, HEADER true)
SELECT id, v, v IS NULL AS nothing, d FROM t ORDER BY id;
COPY (SELECT * FROM t WHERE id <> 3 ORDER BY id) TO STDOUT;
COPY (SELECT id, v FROM t ORDER BY id) TO STDOUT WITH (FORMAT csv, HEADER);
\set VERBOSITY terse
COPY t FROM STDIN;
7	seven	2026-01-07
1	again	\N
\.
COPY t FROM STDIN;
8	eight	not a date
\.
COPY t FROM STDIN;
9	nine
\.
SELECT count(*) FROM t;
\copy (SELECT id, v, d FROM t ORDER BY id) TO 'moved.tsv'
CREATE TABLE u (id int, v text, d date);
\copy u FROM 'moved.tsv'
SELECT count(*), count(v), min(d), max(id) FROM u;
\copy (SELECT * FROM t ORDER BY id) TO 'moved.bin' WITH (FORMAT binary)
TRUNCATE u;
\copy u FROM 'moved.bin' WITH (FORMAT binary)
SELECT count(*), count(v), min(d), max(id) FROM u;
\copy u FROM 'absent.tsv'
\copy u (id) FROM PROGRAM 'seq 100 103' WITH (FORMAT csv)
SELECT id FROM u WHERE id >= 100 ORDER BY id;
\copy missing FROM 'moved.tsv'
BEGIN;
\copy u (id) FROM PROGRAM 'seq 200 203'
ROLLBACK;
SELECT count(*) FROM u WHERE id >= 200;
