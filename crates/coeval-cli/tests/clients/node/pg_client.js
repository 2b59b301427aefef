// SPDX-License-Identifier: Apache-2.0
// node-postgres: simple and parameterized queries, named statements, cursors, streams, pools, types, errors.
"use strict";

const assert = require("node:assert/strict");
const { Client, Pool, types } = require("pg");
const Cursor = require("pg-cursor");
const QueryStream = require("pg-query-stream");

async function connected(part) {
  const client = new Client();
  await client.connect();
  try {
    await part(client);
  } finally {
    await client.end();
  }
}

async function failsWith(code, promise) {
  await assert.rejects(promise, (error) => {
    assert.equal(error.code, code, error.message);
    return true;
  });
}

const parts = {
  async kinds(client) {
    await client.query(
      "CREATE TABLE kinds (id int PRIMARY KEY, small smallint, big bigint, single real, wide float8, yes bool, " +
        "name text, raw bytea, amount numeric(20,4), day date, stamp timestamptz, local timestamp, key uuid, doc json)",
    );
    const values = [
      1, -3, "9223372036854775807", 1.5, 0.1, true, "Grüße 'x'", Buffer.from([0, 255]), "-12.5000",
      "2026-02-28", new Date("2026-06-01T12:30:00.250Z"), "1999-12-31 23:59:59.001", "00000000-0000-0000-0000-00000000004d",
      { a: [1, null] },
    ];
    const places = values.map((_, position) => `$${position + 1}`).join(", ");
    const inserted = await client.query(`INSERT INTO kinds VALUES (${places}) RETURNING *`, values);
    types.setTypeParser(types.builtins.DATE, (text) => text);
    types.setTypeParser(types.builtins.TIMESTAMP, (text) => text);
    for (const text of ["SELECT * FROM kinds", "SELECT * FROM kinds WHERE id = 1", "SELECT * FROM kinds WHERE day > '2000-01-01'"]) {
      const { rows } = await client.query({ text, rowMode: "array" });
      assert.deepEqual(rows, [values]);
    }
    assert.equal(inserted.rowCount, 1);
    for (const column of ["small", "big", "wide", "yes", "name", "raw", "amount", "day", "stamp", "key"]) {
      const found = await client.query(`SELECT id FROM kinds WHERE ${column} = $1`, [values[inserted.fields.findIndex((f) => f.name === column)]]);
      assert.deepEqual(found.rows, [{ id: 1 }], column);
    }
    const nothing = await client.query(`INSERT INTO kinds (id, name) VALUES ($1, $2) RETURNING name`, [2, null]);
    assert.deepEqual(nothing.rows, [{ name: null }]);
    const oids = (await client.query("SELECT * FROM kinds")).fields.map((field) => field.dataTypeID);
    assert.deepEqual(oids, [23, 21, 20, 700, 701, 16, 25, 17, 1700, 1082, 1184, 1114, 2950, 114]);
  },

  async arrays(client) {
    await client.query("CREATE TABLE listed (id int PRIMARY KEY, name text)");
    const names = ["a", null, 'c, "quoted" \\ {x}'];
    await client.query("INSERT INTO listed SELECT * FROM unnest($1::int[], $2::text[])", [[1, 2, 3], names]);
    assert.deepEqual((await client.query("SELECT name FROM listed ORDER BY id")).rows.map((row) => row.name), names);
    const byKey = { name: "listed", text: "SELECT id FROM listed WHERE id = ANY($1) ORDER BY id" };
    for (const [ids, found] of [[[3, 1, 7], [1, 3]], [[], []], [null, []]]) {
      const { rows } = await client.query({ ...byKey, values: [ids] });
      assert.deepEqual(rows.map((row) => row.id), found);
    }
    const given = await client.query("SELECT ARRAY[1, NULL, 3] AS a, ARRAY['x', 'y z'] AS b, array_agg(name ORDER BY id) AS c FROM listed");
    assert.deepEqual(given.rows, [{ a: [1, null, 3], b: ["x", "y z"], c: names }]);
    assert.equal((await client.query("DELETE FROM listed WHERE name = ANY($1)", [["a", "b"]])).rowCount, 1);
  },

  async enums(client) {
    await client.query("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')");
    await client.query("CREATE TABLE person (id int PRIMARY KEY, m mood)");
    const insert = { name: "feel", text: "INSERT INTO person VALUES ($1, $2)" };
    for (const [id, mood] of [[1, "happy"], [2, "sad"], [3, null]]) {
      await client.query({ ...insert, values: [id, mood] });
    }
    const { rows } = await client.query("SELECT m FROM person WHERE m >= $1 ORDER BY m", ["sad"]);
    assert.deepEqual(rows, [{ m: "sad" }, { m: "happy" }]);
    await assert.rejects(client.query({ ...insert, values: [4, "bad"] }), { code: "22P02" });
    await client.query("DROP TABLE person");
    await client.query("DROP TYPE mood");
  },

  async results(client) {
    const several = await client.query("SELECT 1 AS a; SELECT 2 AS b, 'x' AS c; CREATE TABLE results (id int PRIMARY KEY)");
    assert.deepEqual(several.map((result) => result.command), ["SELECT", "SELECT", "CREATE"]);
    assert.deepEqual(several[1].rows, [{ b: 2, c: "x" }]);
    assert.deepEqual((await client.query("INSERT INTO results VALUES ($1), ($2)", [1, 2])).rowCount, 2);
    assert.deepEqual((await client.query("SELECT count(*) FROM results")).rows, [{ count: "2" }]);
    assert.deepEqual((await client.query("SELECT array_agg(id ORDER BY id) AS ids FROM results")).rows, [{ ids: [1, 2] }]);
    assert.deepEqual((await client.query("")).rows, []);
    const computed = await client.query("SELECT $1::int + 1 AS n, $2::text AS t, now() AS at, $3::float8 AS f", [41, "x", 1.25]);
    assert.deepEqual([computed.rows[0].n, computed.rows[0].t, computed.rows[0].f], [42, "x", 1.25]);
    assert.ok(computed.rows[0].at instanceof Date);
  },

  async namedStatements(client) {
    await client.query("CREATE TABLE points (id int PRIMARY KEY, v text)");
    for (let id = 0; id < 50; id++) {
      await client.query({ name: "add", text: "INSERT INTO points VALUES ($1, $2)", values: [id, `v${id}`] });
    }
    for (let id = 0; id < 50; id++) {
      const { rows } = await client.query({ name: "get", text: "SELECT v FROM points WHERE id = $1", values: [id] });
      assert.deepEqual(rows, [{ v: `v${id}` }]);
    }
    const binary = await client.query({ text: "SELECT id FROM points WHERE id = $1", values: [7], binary: true });
    assert.deepEqual(binary.rows, [{ id: 7 }]);
    // Queued without waiting: answered in order.
    const queued = await Promise.all([1, 2, 3].map((id) => client.query("SELECT v FROM points WHERE id = $1", [id])));
    assert.deepEqual(queued.map((result) => result.rows[0].v), ["v1", "v2", "v3"]);
  },

  async transactions(client) {
    await client.query("CREATE TABLE parent (id int PRIMARY KEY, n int CHECK (n > 0))");
    await client.query("CREATE TABLE child (id int PRIMARY KEY, parent int NOT NULL REFERENCES parent)");
    await client.query("BEGIN");
    await client.query("INSERT INTO parent VALUES ($1, $2)", [1, 1]);
    await client.query("SAVEPOINT here");
    await failsWith("23505", client.query("INSERT INTO parent VALUES ($1, $2)", [1, 1]));
    await failsWith("25P02", client.query("SELECT 1"));
    await client.query("ROLLBACK TO SAVEPOINT here");
    await client.query("COMMIT");
    await failsWith("23514", client.query("INSERT INTO parent VALUES (2, 0)"));
    await failsWith("23503", client.query("INSERT INTO child VALUES (1, 9)"));
    await failsWith("23502", client.query("INSERT INTO child VALUES (1, NULL)"));
    await failsWith("42P01", client.query("SELECT * FROM absent"));
    await failsWith("42703", client.query("SELECT absent FROM parent WHERE id = $1", [1]));
    await failsWith("42601", client.query("SELEC 1"));
    await failsWith("22P02", client.query("SELECT id FROM parent WHERE id = $1", ["x"]));
    await failsWith("22012", client.query("SELECT 1 / (id - id) FROM parent"));
    const rows = await client.query("SELECT id FROM parent");
    assert.deepEqual(rows.rows, [{ id: 1 }]);
    const error = await client.query("SELECT id, wrong FROM parent").catch((caught) => caught);
    assert.deepEqual([error.severity, error.position], ["ERROR", "12"]);
  },

  async cursors(client) {
    await client.query("CREATE TABLE numbers (n int PRIMARY KEY)");
    await client.query("INSERT INTO numbers SELECT * FROM generate_series(1, 1000)");
    const cursor = client.query(new Cursor("SELECT n FROM numbers WHERE n > $1 ORDER BY n", [10]));
    assert.deepEqual((await cursor.read(3)).map((row) => row.n), [11, 12, 13]);
    assert.equal((await cursor.read(100)).length, 100);
    await cursor.close();
    let total = 0;
    for await (const row of client.query(new QueryStream("SELECT n FROM numbers", [], { batchSize: 64 }))) {
      total += row.n;
    }
    assert.equal(total, 500500);
    assert.deepEqual((await client.query("SELECT 1 AS one")).rows, [{ one: 1 }]);
  },

  async pool() {
    const pool = new Pool({ max: 8, statement_timeout: 60000, application_name: "pool" });
    await pool.query("CREATE TABLE counters (id int PRIMARY KEY, n int)");
    await pool.query("INSERT INTO counters VALUES (1, 0)");
    await Promise.all(
      Array.from({ length: 100 }, async () => {
        const client = await pool.connect();
        try {
          await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
          await client.query("UPDATE counters SET n = n + 1 WHERE id = $1", [1]);
          await client.query("COMMIT");
        } finally {
          client.release();
        }
      }),
    );
    assert.deepEqual((await pool.query("SELECT n FROM counters")).rows, [{ n: 100 }]);
    assert.deepEqual((await pool.query("SHOW application_name")).rows, [{ application_name: "pool" }]);
    assert.deepEqual((await pool.query("SHOW statement_timeout")).rows, [{ statement_timeout: "1min" }]);
    await pool.end();
  },
};

async function main() {
  const failed = [];
  for (const [name, part] of Object.entries(parts)) {
    try {
      await connected(part);
      console.log(`ok ${name}`);
    } catch (error) {
      failed.push(name);
      console.log(`FAILED ${name}\n${error.stack}`);
    }
  }
  if (failed.length > 0) {
    console.log(`failed: ${failed.join(", ")}`);
    process.exitCode = 1;
  }
}

main();
