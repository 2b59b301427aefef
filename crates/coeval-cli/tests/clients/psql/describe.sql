-- The backslash commands that show definitions.
CREATE SCHEMA shop;
CREATE TABLE customers (
    id serial PRIMARY KEY,
    name text NOT NULL,
    mail varchar(60) UNIQUE,
    score integer DEFAULT 0 CHECK (score >= 0),
    balance numeric(8,2),
    since date DEFAULT '2026-01-01'
);
CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer integer NOT NULL REFERENCES customers ON DELETE CASCADE,
    placed timestamptz NOT NULL,
    note text
);
CREATE INDEX orders_customer_placed ON orders (customer, placed);
CREATE TABLE shop.items (
    order_id bigint,
    line smallint,
    sku char(8) NOT NULL,
    PRIMARY KEY (order_id, line),
    FOREIGN KEY (order_id) REFERENCES orders (id)
);
CREATE VIEW rich AS SELECT id, name FROM customers WHERE score > 1000;
CREATE SEQUENCE tickets START 100 INCREMENT 5;
\dt
\dt shop.*
\di
\di shop.
\dv
\ds
\d
\d customers
\d orders
\d shop.items
\d rich
\d orders_customer_placed
\dn shop
\d missing
ALTER TABLE customers ADD COLUMN active boolean NOT NULL DEFAULT true;
ALTER TABLE customers DROP COLUMN since;
DROP TABLE shop.items;
\d customers
\d orders
\dt *.items
\df nothing
-- What is there in every server, and is not the same in all of them: each command has an answer.
\o listed
\l+
\du+
\drds
\dn+
\dt+
\di+
\dv+
\ds+
\dm
\dE
\dP
\dp
\ddp
\db
\dT
\dC text
\dc
\dD
\dO
\do ||
\da sum
\df+ lower
\dx
\dy
\dl
\dX
\dconfig work_mem
\des
\det
\deu
\dew
\dF
\dFd
\dFp
\dFt
\dA
\dAc
\dAf
\dAo
\dAp
\dL
\dd
\sf pg_backend_pid
\dRp
\dRs
\o
\! sed -n 's/^ *\(List of .*\)/\1/p' listed | sort -u
\encoding
