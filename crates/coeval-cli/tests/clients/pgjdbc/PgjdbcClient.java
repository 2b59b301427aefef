// SPDX-License-Identifier: Apache-2.0

import java.math.BigDecimal;
import java.sql.Array;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Time;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.UUID;

import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;
import java.io.StringReader;
import java.io.StringWriter;

/** pgjdbc: statements, types, batches, keys, cursors by fetch size, savepoints, metadata, COPY. */
public final class PgjdbcClient {
    interface Part {
        void run(Connection connection) throws Exception;
    }

    interface Step {
        void run() throws SQLException;
    }

    static Connection connect(String options) throws SQLException {
        String place = System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");
        return DriverManager.getConnection("jdbc:postgresql://" + place + "?user=" + System.getenv("PGUSER") + options);
    }

    static void expect(Object found, Object wanted) {
        if (!Objects.deepEquals(found, wanted)) {
            throw new AssertionError("found " + shown(found) + ", wanted " + shown(wanted));
        }
    }

    static String shown(Object value) {
        return value instanceof Object[] array ? Arrays.deepToString(array) : String.valueOf(value);
    }

    static void failsWith(String state, Step step) {
        try {
            step.run();
        } catch (SQLException error) {
            expect(error.getSQLState(), state);
            return;
        }
        throw new AssertionError("no error " + state);
    }

    static void execute(Connection connection, String... statements) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String text : statements) {
                statement.execute(text);
            }
        }
    }

    /** All rows of the result, as text, a row a line. */
    static List<String> rows(ResultSet result, String... columns) throws SQLException {
        List<String> rows = new ArrayList<>();
        while (result.next()) {
            List<String> row = new ArrayList<>();
            if (columns.length == 0) {
                for (int position = 1; position <= result.getMetaData().getColumnCount(); position++) {
                    row.add(result.getString(position));
                }
            }
            for (String column : columns) {
                row.add(result.getString(column));
            }
            rows.add(String.join(" ", row.stream().map(String::valueOf).toList()));
        }
        result.close();
        return rows;
    }

    static List<String> query(Connection connection, String text, Object... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            for (int position = 0; position < parameters.length; position++) {
                statement.setObject(position + 1, parameters[position]);
            }
            return rows(statement.executeQuery());
        }
    }

    static void types(Connection connection) throws SQLException {
        execute(connection, "CREATE TABLE kinds (id int PRIMARY KEY, small smallint, big bigint, single real, wide float8, "
            + "yes boolean, name text, short varchar(20), raw bytea, amount numeric(20,4), day date, at time, "
            + "local timestamp, stamp timestamptz, key uuid)");
        Timestamp local = Timestamp.valueOf("1999-12-31 23:59:59.123456");
        OffsetDateTime stamp = OffsetDateTime.of(2026, 6, 1, 12, 30, 0, 0, ZoneOffset.UTC);
        UUID key = new UUID(1, 2);
        String insert = "INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        // More than five times, so that statements get names and values go both ways in binary.
        for (int id = 0; id < 12; id++) {
            try (PreparedStatement statement = connection.prepareStatement(insert)) {
                statement.setInt(1, id);
                statement.setShort(2, (short) -3);
                statement.setLong(3, Long.MIN_VALUE);
                statement.setFloat(4, 1.5f);
                statement.setDouble(5, 0.1);
                statement.setBoolean(6, true);
                statement.setString(7, "Grüße");
                statement.setString(8, "short");
                statement.setBytes(9, new byte[] {0, -1});
                statement.setBigDecimal(10, new BigDecimal("-1234567890.1234"));
                statement.setDate(11, Date.valueOf("2026-02-28"));
                statement.setTime(12, Time.valueOf("23:59:58"));
                statement.setTimestamp(13, local);
                statement.setObject(14, stamp);
                statement.setObject(15, key);
                expect(statement.executeUpdate(), 1);
            }
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT * FROM kinds WHERE id = ?")) {
            for (int id = 0; id < 12; id++) {
                statement.setInt(1, id);
                ResultSet row = statement.executeQuery();
                expect(row.next(), true);
                expect(List.of(row.getInt(1), row.getShort(2), row.getLong(3), row.getFloat(4), row.getDouble(5), row.getBoolean(6)),
                    List.of(id, (short) -3, Long.MIN_VALUE, 1.5f, 0.1, true));
                expect(List.of(row.getString("name"), row.getString("short")), List.of("Grüße", "short"));
                expect(row.getBytes(9), new byte[] {0, -1});
                expect(row.getBigDecimal(10), new BigDecimal("-1234567890.1234"));
                expect(List.of(row.getDate(11), row.getTime(12), row.getTimestamp(13)),
                    List.of(Date.valueOf("2026-02-28"), Time.valueOf("23:59:58"), local));
                expect(row.getObject(14, OffsetDateTime.class), stamp);
                expect(row.getObject(15), key);
                expect(row.getObject(13, LocalDateTime.class), local.toLocalDateTime());
                expect(row.getObject(11, LocalDate.class), LocalDate.of(2026, 2, 28));
                expect(row.next(), false);
            }
        }
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            statement.setInt(1, 100);
            int[] types = {Types.SMALLINT, Types.BIGINT, Types.REAL, Types.DOUBLE, Types.BIT, Types.VARCHAR, Types.VARCHAR,
                Types.BINARY, Types.NUMERIC, Types.DATE, Types.TIME, Types.TIMESTAMP, Types.TIMESTAMP_WITH_TIMEZONE, Types.OTHER};
            for (int position = 0; position < types.length; position++) {
                statement.setNull(position + 2, types[position]);
            }
            expect(statement.executeUpdate(), 1);
        }
        try (Statement statement = connection.createStatement()) {
            ResultSet row = statement.executeQuery("SELECT small, amount, stamp FROM kinds WHERE id = 100");
            expect(row.next(), true);
            expect(row.getInt(1) == 0 && row.wasNull() && row.getBigDecimal(2) == null && row.getTimestamp(3) == null, true);
            ResultSetMetaData columns = row.getMetaData();
            expect(List.of(columns.getColumnName(1), columns.getColumnTypeName(1), columns.getColumnType(2), columns.getPrecision(2),
                columns.getScale(2), columns.getColumnClassName(3)), List.of("small", "int2", Types.NUMERIC, 20, 4, "java.sql.Timestamp"));
        }
        // Numbers of other kinds than their columns', as frameworks bind them.
        expect(query(connection, "SELECT id FROM kinds WHERE id = ?", 7L), List.of("7"));
        expect(query(connection, "SELECT count(*) FROM kinds WHERE wide < ? AND amount < ?", new BigDecimal("0.5"), 1.5), List.of("12"));
        expect(query(connection, "SELECT count(*) FROM kinds WHERE local = ?", local), List.of("12"));
        expect(query(connection, "SELECT id + ? FROM kinds WHERE id = ? AND name LIKE ?", 1, 3, "Gr%"), List.of("4"));
        expect(query(connection, "SELECT coalesce(?, 5), ? || 'x'", null, "a"), List.of("5 ax"));
    }

    static void batches(String options) throws SQLException {
        try (Connection connection = connect(options)) {
            execute(connection, "CREATE TABLE queue (id int PRIMARY KEY, v text, n numeric(10,2))");
            connection.setAutoCommit(false);
            try (PreparedStatement statement = connection.prepareStatement("INSERT INTO queue VALUES (?, ?, ?)")) {
                for (int id = 0; id < 1000; id++) {
                    statement.setInt(1, id);
                    statement.setString(2, "v" + id);
                    statement.setBigDecimal(3, new BigDecimal(id).movePointLeft(2));
                    statement.addBatch();
                }
                expect(statement.executeBatch().length, 1000);
            }
            connection.commit();
            try (PreparedStatement statement = connection.prepareStatement("UPDATE queue SET v = ? WHERE id = ?")) {
                for (int id = 0; id < 300; id++) {
                    statement.setString(1, "w" + id);
                    statement.setInt(2, id);
                    statement.addBatch();
                }
                expect(Arrays.stream(statement.executeBatch()).sum(), 300);
            }
            connection.commit();
            connection.setAutoCommit(true);
            expect(query(connection, "SELECT count(*), sum(n), min(v) FROM queue WHERE v LIKE 'w%'"), List.of("300 448.50 w0"));
            // In autocommit a batch is one transaction.
            try (PreparedStatement statement = connection.prepareStatement("INSERT INTO queue (id) VALUES (?)")) {
                for (int id : new int[] {5000, 5001, 1, 5002}) {
                    statement.setInt(1, id);
                    statement.addBatch();
                }
                statement.executeBatch();
                throw new AssertionError("a key twice");
            } catch (BatchUpdateException error) {
                expect(error.getSQLState(), "23505");
            }
            expect(query(connection, "SELECT count(*) FROM queue"), List.of("1000"));
            try (PreparedStatement statement = connection.prepareStatement("INSERT INTO queue VALUES (?, 'k', 0)", new String[] {"id"})) {
                for (int id = 6000; id < 6003; id++) {
                    statement.setInt(1, id);
                    statement.addBatch();
                }
                statement.executeBatch();
                expect(rows(statement.getGeneratedKeys()), List.of("6000", "6001", "6002"));
            }
            try (Statement statement = connection.createStatement()) {
                statement.addBatch("DELETE FROM queue WHERE id >= 6000");
                statement.addBatch("UPDATE queue SET v = 'x' WHERE id < 10");
                expect(statement.executeBatch(), new int[] {3, 10});
            }
            execute(connection, "DROP TABLE queue");
        }
    }

    static void transactions(Connection connection) throws SQLException {
        execute(connection, "CREATE TABLE parent (id int PRIMARY KEY, n int CHECK (n > 0))",
            "CREATE TABLE child (id serial PRIMARY KEY, parent int NOT NULL REFERENCES parent)");
        connection.setAutoCommit(false);
        execute(connection, "INSERT INTO parent VALUES (1, 1)");
        Savepoint savepoint = connection.setSavepoint("here");
        failsWith("23505", () -> execute(connection, "INSERT INTO parent VALUES (1, 1)"));
        failsWith("25P02", () -> execute(connection, "SELECT 1"));
        connection.rollback(savepoint);
        Savepoint unnamed = connection.setSavepoint();
        execute(connection, "INSERT INTO parent VALUES (2, 1)");
        connection.releaseSavepoint(unnamed);
        connection.commit();
        execute(connection, "DELETE FROM parent");
        connection.rollback();
        connection.setAutoCommit(true);
        expect(query(connection, "SELECT id FROM parent ORDER BY id"), List.of("1", "2"));
        failsWith("23514", () -> execute(connection, "INSERT INTO parent VALUES (3, 0)"));
        failsWith("23503", () -> execute(connection, "INSERT INTO child (parent) VALUES (9)"));
        failsWith("23502", () -> execute(connection, "INSERT INTO child (parent) VALUES (NULL)"));
        failsWith("42P01", () -> execute(connection, "SELECT * FROM absent"));
        failsWith("42601", () -> execute(connection, "SELEC 1"));
        failsWith("22012", () -> query(connection, "SELECT 1 / ?", 0));
        for (int level : new int[] {Connection.TRANSACTION_READ_COMMITTED, Connection.TRANSACTION_REPEATABLE_READ}) {
            connection.setTransactionIsolation(level);
            expect(connection.getTransactionIsolation(), level);
        }
        connection.setReadOnly(true);
        connection.setAutoCommit(false);
        failsWith("25006", () -> execute(connection, "INSERT INTO parent VALUES (4, 1)"));
        connection.rollback();
        connection.setReadOnly(false);
        connection.setAutoCommit(true);
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate("INSERT INTO child (parent) VALUES (1), (2)", Statement.RETURN_GENERATED_KEYS);
            expect(rows(statement.getGeneratedKeys(), "parent"), List.of("1", "2"));
            expect(statement.execute("SELECT 1; UPDATE parent SET n = 5; SELECT 2, 3"), true);
            expect(rows(statement.getResultSet()), List.of("1"));
            expect(statement.getMoreResults(), false);
            expect(statement.getUpdateCount(), 2);
            expect(statement.getMoreResults(), true);
            expect(rows(statement.getResultSet()), List.of("2 3"));
            statement.setQueryTimeout(1);
            failsWith("57014", () -> statement.executeQuery(
                "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 1000000) b"));
        }
        expect(connection.isValid(5), true);
    }

    static void cursors(Connection connection) throws SQLException {
        execute(connection, "CREATE TABLE numbers (n int PRIMARY KEY, v text)",
            "INSERT INTO numbers SELECT n, 'v' || n FROM generate_series(1, 1000) AS n");
        connection.setAutoCommit(false);
        try (PreparedStatement statement = connection.prepareStatement("SELECT n, v FROM numbers WHERE n > ? ORDER BY n")) {
            for (int use = 0; use < 8; use++) {
                statement.setInt(1, 10);
                statement.setFetchSize(64);
                ResultSet result = statement.executeQuery();
                long total = 0;
                for (int expected = 11; result.next(); expected++) {
                    expect(result.getInt(1), expected);
                    total += result.getInt(1);
                    if (expected == 500) {
                        // Another statement between two parts of the portal.
                        expect(query(connection, "SELECT count(*) FROM numbers"), List.of("1000"));
                    }
                }
                expect(total, 500_500L - 55);
            }
            statement.setMaxRows(5);
            expect(rows(statement.executeQuery()).size(), 5);
        }
        connection.commit();
        connection.setAutoCommit(true);
        try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY)) {
            ResultSet result = statement.executeQuery("SELECT n FROM numbers ORDER BY n");
            expect(result.last() && result.getRow() == 1000 && result.absolute(10) && result.getInt(1) == 10, true);
        }
    }

    static void definitions(Connection connection) throws SQLException {
        execute(connection, "CREATE SCHEMA shop",
            "CREATE TABLE customers (id serial PRIMARY KEY, name varchar(40) NOT NULL, mail text UNIQUE, "
                + "score numeric(8,2) DEFAULT 1.5, since timestamptz, kind char(3), flag boolean DEFAULT true)",
            "CREATE TABLE shop.orders (id bigint, line int, customer int NOT NULL, note text, CONSTRAINT orders_key PRIMARY KEY (id, line), "
                + "CONSTRAINT orders_customer FOREIGN KEY (customer) REFERENCES customers ON DELETE CASCADE)",
            "CREATE INDEX orders_note ON shop.orders (note, customer)",
            "CREATE VIEW named AS SELECT id, name FROM customers");
        DatabaseMetaData about = connection.getMetaData();
        expect(List.of(about.getDatabaseProductName(), about.getDatabaseMajorVersion()), List.of("PostgreSQL", 15));
        expect(rows(about.getTables(null, null, "%", new String[] {"TABLE", "VIEW"}), "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE"),
            List.of("public customers TABLE", "shop orders TABLE", "public named VIEW"));
        expect(rows(about.getTables(null, "shop", "o%", null), "TABLE_NAME", "TABLE_TYPE"),
            List.of("orders_key INDEX", "orders_note INDEX", "orders TABLE"));
        expect(rows(about.getColumns(null, "public", "customers", null), "COLUMN_NAME", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS",
            "NULLABLE", "COLUMN_DEF", "ORDINAL_POSITION", "IS_AUTOINCREMENT"), List.of(
                "id serial 10 0 0 nextval('customers_id_seq'::regclass) 1 YES",
                "name varchar 40 0 0 null 2 NO",
                "mail text 2147483647 0 1 null 3 NO",
                "score numeric 8 2 1 1.5 4 NO",
                "since timestamptz 35 6 1 null 5 NO",
                "kind bpchar 3 0 1 null 6 NO",
                "flag bool 1 0 1 true 7 NO"));
        expect(rows(about.getColumns(null, null, "named", "%"), "COLUMN_NAME", "DATA_TYPE"), List.of("id 4", "name 12"));
        expect(rows(about.getPrimaryKeys(null, "shop", "orders"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"),
            List.of("id 1 orders_key", "line 2 orders_key"));
        List<String> reference = List.of("public customers id shop orders customer 1 3 0 orders_customer customers_pkey 7");
        String[] ends = {"PKTABLE_SCHEM", "PKTABLE_NAME", "PKCOLUMN_NAME", "FKTABLE_SCHEM", "FKTABLE_NAME", "FKCOLUMN_NAME", "KEY_SEQ",
            "UPDATE_RULE", "DELETE_RULE", "FK_NAME", "PK_NAME", "DEFERRABILITY"};
        expect(rows(about.getImportedKeys(null, "shop", "orders"), ends), reference);
        expect(rows(about.getExportedKeys(null, null, "customers"), ends), reference);
        expect(rows(about.getCrossReference(null, null, "customers", null, "shop", "orders"), ends), reference);
        expect(rows(about.getIndexInfo(null, "shop", "orders", false, false), "INDEX_NAME", "NON_UNIQUE", "ORDINAL_POSITION", "COLUMN_NAME"),
            List.of("orders_key f 1 id", "orders_key f 2 line", "orders_note t 1 note", "orders_note t 2 customer"));
        expect(rows(about.getIndexInfo(null, null, "customers", true, true), "INDEX_NAME", "COLUMN_NAME"),
            List.of("customers_mail_key mail", "customers_pkey id"));
        expect(rows(about.getSchemas(), "TABLE_SCHEM").containsAll(List.of("information_schema", "pg_catalog", "public", "shop")), true);
        expect(rows(about.getBestRowIdentifier(null, null, "customers", DatabaseMetaData.bestRowSession, false), "COLUMN_NAME"), List.of("id"));
        expect(rows(about.getTypeInfo(), "TYPE_NAME").containsAll(List.of("int4", "text", "numeric", "timestamptz", "uuid")), true);
        expect(rows(about.getTableTypes()).contains("TABLE"), true);
        expect(rows(about.getFunctions(null, null, "no_such_function")), List.of());
        expect(rows(about.getProcedures(null, "public", "%")), List.of());
        expect(rows(about.getCatalogs()).contains(connection.getCatalog()), true);
        expect(connection.getSchema(), "public");
        connection.setSchema("shop");
        expect(query(connection, "SELECT count(*) FROM orders"), List.of("0"));
    }

    static void copies(Connection connection) throws Exception {
        execute(connection, "CREATE TABLE moved (id int PRIMARY KEY, v text)");
        CopyManager copies = connection.unwrap(PGConnection.class).getCopyAPI();
        expect(copies.copyIn("COPY moved FROM STDIN WITH (FORMAT csv)", new StringReader("1,one\n2,\"t,w,o\"\n")), 2L);
        StringWriter out = new StringWriter();
        expect(copies.copyOut("COPY (SELECT * FROM moved ORDER BY id) TO STDOUT", out), 2L);
        expect(out.toString(), "1\tone\n2\tt,w,o\n");
        failsWith("23505", () -> {
            try {
                copies.copyIn("COPY moved FROM STDIN", new StringReader("3\tnew\n1\told\n"));
            } catch (java.io.IOException error) {
                throw new AssertionError(error);
            }
        });
        expect(query(connection, "SELECT count(*) FROM moved"), List.of("2"));
    }

    static void arrays(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            execute(connection, "CREATE TABLE sorts (n int PRIMARY KEY)", "INSERT INTO sorts VALUES (1), (2), (3)");
            ResultSet row = statement.executeQuery("SELECT array_agg(n ORDER BY n), '{a,NULL}'::text[] FROM sorts");
            expect(row.next(), true);
            expect(row.getArray(1).getArray(), new Integer[] {1, 2, 3});
            expect(row.getArray(2).getArray(), new String[] {"a", null});
        }
        Array wanted = connection.createArrayOf("int4", new Integer[] {3, 1, 7});
        // More than five times, so that the array goes in binary, too.
        for (int turn = 0; turn < 7; turn++) {
            expect(query(connection, "SELECT n FROM sorts WHERE n = ANY(?) ORDER BY n", wanted), List.of("1", "3"));
        }
        execute(connection, "CREATE TABLE held (n int PRIMARY KEY, names text[], numbers int[])");
        for (int turn = 0; turn < 7; turn++) {
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO held VALUES (?, ?, ?)")) {
                insert.setInt(1, turn);
                insert.setArray(2, connection.createArrayOf("text", new String[] {"a b", null}));
                insert.setArray(3, connection.createArrayOf("int4", new Integer[] {turn, null}));
                expect(insert.executeUpdate(), 1);
            }
            try (PreparedStatement select = connection.prepareStatement("SELECT names, numbers FROM held WHERE n = ?")) {
                select.setInt(1, turn);
                ResultSet row = select.executeQuery();
                expect(row.next(), true);
                expect(row.getArray(1).getArray(), new String[] {"a b", null});
                expect(row.getArray(2).getArray(), new Integer[] {turn, null});
                expect(row.getMetaData().getColumnTypeName(2), "_int4");
            }
        }
        expect(query(connection, "SELECT n FROM held WHERE ? = ANY (numbers)", 3), List.of("3"));
        Array names = connection.createArrayOf("text", new String[] {"c, \"quoted\" \\ {x}", null});
        expect(query(connection, "SELECT count(x), max(x) FROM unnest(?) AS s(x)", names), List.of("1 c, \"quoted\" \\ {x}"));
    }

    static void enums(Connection connection) throws SQLException {
        execute(connection, "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')", "CREATE TABLE person (n int PRIMARY KEY, m mood)");
        // More than five times, so that the statement is prepared on the server, too.
        for (int turn = 0; turn < 7; turn++) {
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO person VALUES (?, ?)")) {
                insert.setInt(1, turn);
                insert.setObject(2, turn % 2 == 0 ? "happy" : "sad", java.sql.Types.OTHER);
                expect(insert.executeUpdate(), 1);
            }
            try (PreparedStatement select = connection.prepareStatement("SELECT m FROM person WHERE m = ?::mood AND n = ?")) {
                select.setString(1, turn % 2 == 0 ? "happy" : "sad");
                select.setInt(2, turn);
                ResultSet row = select.executeQuery();
                expect(row.next(), true);
                expect(row.getString(1), turn % 2 == 0 ? "happy" : "sad");
                expect(row.getMetaData().getColumnTypeName(1), "mood");
            }
        }
        expect(query(connection, "SELECT n FROM person ORDER BY m DESC, n LIMIT 2"), List.of("0", "2"));
        failsWith("22P02", () -> execute(connection, "INSERT INTO person VALUES (9, 'bad')"));
        ResultSet columns = connection.getMetaData().getColumns(null, null, "person", "m");
        expect(columns.next(), true);
        expect(columns.getString("TYPE_NAME"), "mood");
        expect(columns.getInt("DATA_TYPE"), java.sql.Types.VARCHAR);
        execute(connection, "DROP TABLE person", "DROP TYPE mood");
    }

    static boolean ends(String name, String options, Part part) {
        try (Connection connection = connect(options)) {
            part.run(connection);
            System.out.println("ok " + name);
            return true;
        } catch (Exception | AssertionError failure) {
            System.out.println("FAILED " + name);
            failure.printStackTrace(System.out);
            return false;
        }
    }

    public static void main(String[] arguments) {
        boolean well = ends("types", "", PgjdbcClient::types);
        well &= ends("types in the simple protocol", "&preferQueryMode=simple", connection -> {
            execute(connection, "DROP TABLE kinds");
            expect(query(connection, "SELECT ? + 1, ?", 1, "x"), List.of("2 x"));
        });
        well &= ends("batches", "", connection -> batches(""));
        well &= ends("rewritten batches", "", connection -> batches("&reWriteBatchedInserts=true"));
        well &= ends("transactions", "", PgjdbcClient::transactions);
        well &= ends("cursors", "", PgjdbcClient::cursors);
        well &= ends("copies", "", PgjdbcClient::copies);
        well &= ends("arrays", "", PgjdbcClient::arrays);
        well &= ends("enums", "", PgjdbcClient::enums);
        // Its own tables only.
        well &= ends("definitions", "", connection -> {
            execute(connection, "DROP TABLE IF EXISTS child", "DROP TABLE IF EXISTS parent", "DROP TABLE IF EXISTS numbers",
                "DROP TABLE IF EXISTS moved", "DROP TABLE IF EXISTS queue", "DROP TABLE IF EXISTS kinds", "DROP TABLE IF EXISTS sorts",
                "DROP TABLE IF EXISTS held");
            definitions(connection);
        });
        System.exit(well ? 0 : 1);
    }
}
