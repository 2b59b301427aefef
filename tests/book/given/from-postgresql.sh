# SPDX-License-Identifier: Apache-2.0
# A PostgreSQL with a database `shop`, as the reader of that page has one, on port 5433.

folder=$PWD/postgresql
mkdir "$folder"
# It refuses to run for root.
as_other=()
if [[ $(id -u) == 0 ]]; then
    chown postgres "$folder"
    as_other=(runuser -u postgres --)
fi
"${as_other[@]}" /usr/lib/postgresql/15/bin/initdb --no-sync -D "$folder/data" -A trust -U postgres -E UTF8 --locale=C
options="-p 5433 -c listen_addresses=127.0.0.1 -k $folder -c fsync=off"
"${as_other[@]}" /usr/lib/postgresql/15/bin/pg_ctl -D "$folder/data" -s -w -l "$folder/log" -o "$options" start

psql -q -h 127.0.0.1 -p 5433 -U postgres postgres -c "CREATE DATABASE shop"
psql -q -h 127.0.0.1 -p 5433 -U postgres shop <<'SQL'
CREATE TABLE customers (id serial PRIMARY KEY, email text UNIQUE NOT NULL, joined timestamptz NOT NULL DEFAULT now());
CREATE TABLE orders (
    id       bigserial PRIMARY KEY,
    customer int NOT NULL REFERENCES customers ON DELETE CASCADE,
    total    numeric(10,2) NOT NULL CHECK (total > 0),
    tags     text[],
    note     jsonb
);
CREATE INDEX orders_customer ON orders (customer);
CREATE VIEW totals AS SELECT customer, sum(total) AS total FROM orders GROUP BY customer;
INSERT INTO customers (email) SELECT 'customer-' || n || '@example.org' FROM generate_series(1, 100) AS n;
INSERT INTO orders (customer, total, tags, note)
    SELECT 1 + n % 100, n / 10.0, ARRAY['web'], '{"gift": true}' FROM generate_series(1, 5000) AS n;
SQL
