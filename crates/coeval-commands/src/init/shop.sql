-- SPDX-License-Identifier: Apache-2.0
-- A small shop: customers, products, orders of the last two years. The same rows each time, for their values come out of their
-- numbers.
CREATE TYPE order_status AS ENUM ('placed', 'paid', 'shipped', 'returned');
CREATE TABLE customers (
    id      int PRIMARY KEY,
    name    text NOT NULL,
    city    text NOT NULL,
    joined  date NOT NULL
);
CREATE TABLE products (
    id       int PRIMARY KEY,
    name     text NOT NULL UNIQUE,
    category text NOT NULL,
    price    numeric(8, 2) NOT NULL CHECK (price > 0),
    stock    int NOT NULL CHECK (stock >= 0)
);
CREATE TABLE orders (
    id          int PRIMARY KEY,
    customer_id int NOT NULL REFERENCES customers,
    placed      timestamptz NOT NULL,
    status      order_status NOT NULL DEFAULT 'placed'
);
CREATE TABLE order_lines (
    order_id   int NOT NULL REFERENCES orders,
    line       int NOT NULL,
    product_id int NOT NULL REFERENCES products,
    quantity   int NOT NULL CHECK (quantity > 0),
    price      numeric(8, 2) NOT NULL,
    PRIMARY KEY (order_id, line)
);
CREATE INDEX orders_customer ON orders (customer_id);
CREATE INDEX orders_placed ON orders (placed);
CREATE INDEX order_lines_product ON order_lines (product_id);

INSERT INTO customers
SELECT n,
       (ARRAY['Ada', 'Blaise', 'Clara', 'Dennis', 'Edith', 'Frances', 'Grace', 'Hedy', 'Ivan', 'Joan'])[n % 10 + 1] || ' ' ||
       (ARRAY['Ames', 'Bell', 'Cole', 'Diaz', 'Eder', 'Faye', 'Gray', 'Hale', 'Ives', 'Jung', 'Kerr'])[n % 11 + 1],
       (ARRAY['Bergen', 'Porto', 'Leipzig', 'Turku', 'Gdansk', 'Ghent', 'Lyon'])[n % 7 + 1],
       date '2024-01-01' + n * 37 % 700
FROM generate_series(1, 2000) AS n;

INSERT INTO products
SELECT n,
       (ARRAY['oak', 'steel', 'linen', 'glass', 'clay'])[n % 5 + 1] || ' ' ||
       (ARRAY['chair', 'lamp', 'bowl', 'shelf', 'rug', 'clock', 'vase', 'desk'])[n % 8 + 1] || ' no. ' || n,
       (ARRAY['furniture', 'light', 'kitchen', 'decoration'])[n % 4 + 1],
       (5 + n * 7919 % 49500 / 100.0)::numeric(8, 2),
       n * 31 % 400
FROM generate_series(1, 200) AS n;

INSERT INTO orders
SELECT n,
       n * 7919 % 2000 + 1,
       timestamptz '2024-11-01 00:00:00+00' + n * interval '35 minutes',
       (CASE WHEN n % 23 = 0 THEN 'returned' WHEN n <= 29000 THEN 'shipped' WHEN n <= 29800 THEN 'paid' ELSE 'placed' END)::order_status
FROM generate_series(1, 30000) AS n;

INSERT INTO order_lines
SELECT o.id, l.line, p.id, o.id * l.line % 3 + 1, p.price
FROM orders o, generate_series(1, 4) AS l (line), products p
WHERE l.line <= o.id % 4 + 1 AND p.id = (o.id * 131 + l.line * 17) % 200 + 1;
