-- SPDX-License-Identifier: Apache-2.0
-- What some machines measure, for a week, in a brick table; and the machines beside it, as rows. The same rows each time, for
-- their values come out of their numbers.
CREATE TABLE machines (
    name   text PRIMARY KEY,
    region text NOT NULL,
    cores  int NOT NULL
);
CREATE TABLE metrics (
    day     date,
    machine text,
    at      timestamp,
    cpu     double precision,
    memory  double precision,
    requests int
) USING brick
    PARTITION BY (day RANGE SIZE '1 day' FROM '2026-01-01', machine CARDINALITY 64 RANGE SIZE 8);

INSERT INTO machines
SELECT 'web-' || lpad(n::text, 2, '0'), (ARRAY['north', 'south', 'west'])[n % 3 + 1], (ARRAY[4, 8, 16])[n % 3 + 1]
FROM generate_series(1, 40) AS n;

INSERT INTO metrics
SELECT (timestamp '2026-01-01' + minute * interval '1 minute')::date,
       m.name,
       timestamp '2026-01-01' + minute * interval '1 minute',
       round((50 + 40 * sin(minute / 229.0 + m.cores))::numeric, 2)::double precision,
       round((30 + minute % 1440 / 36.0)::numeric, 2)::double precision,
       m.cores * (100 + minute * 37 % 400)
FROM machines m, generate_series(0, 10079) AS minute;
