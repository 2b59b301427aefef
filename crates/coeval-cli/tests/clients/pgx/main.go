// SPDX-License-Identifier: Apache-2.0

// pgx: every query mode, types, batches, COPY, transactions, pools, errors.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

var background = context.Background()

// must ends the part that runs.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Sprintf("found %#v, wanted %#v", found, wanted))
	}
}

func expectCode(err error, code string) {
	var said *pgconn.PgError
	if !errors.As(err, &said) {
		panic(fmt.Sprintf("no error %s: %v", code, err))
	}
	expect(said.Code, code)
}

func execute(conn *pgx.Conn, statement string, arguments ...any) pgconn.CommandTag {
	tag, err := conn.Exec(background, statement, arguments...)
	must(err)
	return tag
}

func one[T any](conn *pgx.Conn, statement string, arguments ...any) T {
	rows, err := conn.Query(background, statement, arguments...)
	must(err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	must(err)
	return value
}

func all[T any](conn *pgx.Conn, statement string, arguments ...any) []T {
	rows, err := conn.Query(background, statement, arguments...)
	must(err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	must(err)
	return values
}

type kinds struct {
	ID     int32
	Small  *int16
	Big    *int64
	Single *float32
	Wide   *float64
	Yes    *bool
	Name   *string
	Raw    []byte
	Amount pgtype.Numeric
	Day    pgtype.Date
	At     pgtype.Time
	Local  *time.Time
	Stamp  *time.Time
	Span   pgtype.Interval
	Key    pgtype.UUID
	Doc    map[string]any
}

func pointer[T any](value T) *T { return &value }

func types(conn *pgx.Conn) {
	execute(conn, "CREATE TABLE IF NOT EXISTS kinds (id int PRIMARY KEY, small smallint, big bigint, single real, "+
		"wide float8, yes bool, name text, raw bytea, amount numeric(20,4), day date, at time, local timestamp, "+
		"stamp timestamptz, span interval, key uuid, doc json)")
	execute(conn, "DELETE FROM kinds")
	var amount pgtype.Numeric
	must(amount.Scan("-1234567890.1234"))
	local, stamp := time.Date(1999, 12, 31, 23, 59, 59, 1000, time.UTC), time.Date(2026, 6, 1, 12, 30, 0, 0, time.UTC)
	full := kinds{
		1, pointer(int16(-3)), pointer(int64(1) << 62), pointer(float32(1.5)), pointer(0.1), pointer(true),
		pointer("Grüße 'x'"), []byte{0, 255}, amount,
		pgtype.Date{Time: time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC), Valid: true},
		pgtype.Time{Microseconds: 86_399_999_999, Valid: true}, &local, &stamp,
		pgtype.Interval{Months: 1, Days: 2, Microseconds: 3, Valid: true},
		pgtype.UUID{Bytes: [16]byte{15: 77}, Valid: true}, map[string]any{"a": "b"},
	}
	empty := kinds{ID: 2}
	insert := "INSERT INTO kinds VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
	for _, row := range []kinds{full, empty} {
		fields := reflect.ValueOf(row)
		var arguments []any
		for position := range fields.NumField() {
			arguments = append(arguments, fields.Field(position).Interface())
		}
		expect(execute(conn, insert, arguments...).RowsAffected(), int64(1))
	}
	for _, statement := range []string{"SELECT * FROM kinds ORDER BY id", "SELECT * FROM kinds WHERE id <= 2 ORDER BY id"} {
		rows, err := conn.Query(background, statement)
		must(err)
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[kinds])
		must(err)
		expect(len(found), 2)
		for position := range found {
			for _, moment := range []**time.Time{&found[position].Local, &found[position].Stamp} {
				if *moment != nil {
					*moment = pointer((**moment).UTC())
				}
			}
		}
		expect(found[0], full)
		expect(found[1], empty)
	}
	expect(one[int32](conn, "SELECT id FROM kinds WHERE big = $1", int64(1)<<62), int32(1))
	expect(one[int32](conn, "SELECT id FROM kinds WHERE amount = $1", amount), int32(1))
	expect(one[int32](conn, "SELECT id FROM kinds WHERE stamp = $1", stamp), int32(1))
	expect(one[int32](conn, "SELECT id FROM kinds WHERE key = $1", full.Key), int32(1))
	expect(one[string](conn, "SELECT $1::text || 'x'", "a"), "ax")
	expect(one[int64](conn, "SELECT $1::bigint + 1", int64(41)), int64(42))
	expect(one[int64](conn, "SELECT count(*) FROM kinds WHERE id > $1", 0), int64(2))
	expect(one[[]int32](conn, "SELECT array_agg(id ORDER BY id) FROM kinds"), []int32{1, 2})
}

func arrays(conn *pgx.Conn) {
	execute(conn, "CREATE TABLE listed (id int PRIMARY KEY, name text, at timestamptz)")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	names := []*string{pointer("a"), nil, pointer("c, \"quoted\" \\ {x}")}
	insert := "INSERT INTO listed SELECT * FROM unnest($1::int[], $2::text[], $3::timestamptz[])"
	execute(conn, insert, []int32{1, 2, 3}, names, []time.Time{at, at, at})
	expect(all[*string](conn, "SELECT name FROM listed ORDER BY id"), names)
	byKey := "SELECT id FROM listed WHERE id = ANY($1) ORDER BY id"
	expect(all[int32](conn, byKey, []int32{3, 1, 7}), []int32{1, 3})
	expect(len(all[int32](conn, byKey, []int32{})), 0)
	expect(all[int32](conn, "SELECT id FROM listed WHERE name = ANY($1)", []string{"a", "b"}), []int32{1})
	expect(one[int64](conn, "SELECT count(*) FROM listed WHERE at = ANY($1)", []time.Time{at}), int64(3))
	expect(one[[]*string](conn, "SELECT array_agg(name ORDER BY id) FROM listed"), names)
	expect(execute(conn, "DELETE FROM listed WHERE id = ANY($1)", []int32{1, 9}).RowsAffected(), int64(1))
	execute(conn, "CREATE TABLE held (id int PRIMARY KEY, names text[], big bigint[])")
	execute(conn, "INSERT INTO held VALUES ($1, $2, $3)", 1, names, []int64{1 << 40})
	expect(one[[]*string](conn, "SELECT names FROM held WHERE id = $1", 1), names)
	expect(one[[]int64](conn, "UPDATE held SET big = big || $1 WHERE $2 = ANY(names) RETURNING big", []int64{2}, "a"), []int64{1 << 40, 2})
}

// modes: the same over every way in which pgx sends a query.
func modes(conn *pgx.Conn) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		config := conn.Config()
		config.DefaultQueryExecMode = mode
		own, err := pgx.ConnectConfig(background, config)
		must(err)
		execute(own, "CREATE TABLE points (id int PRIMARY KEY, x float8, v text, at timestamptz)")
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		for number := range 20 {
			execute(own, "INSERT INTO points VALUES ($1, $2, $3, $4)", number, float64(number)/4, fmt.Sprint("v", number), at)
		}
		expect(one[string](own, "SELECT v FROM points WHERE id = $1", 7), "v7")
		expect(one[float64](own, "SELECT sum(x) FROM points WHERE x > $1", 1.0), 45.0)
		expect(len(all[int32](own, "SELECT id FROM points WHERE at >= $1 AND v <> $2", at, "v1")), 19)
		expect(execute(own, "UPDATE points SET v = $1 WHERE id < $2", "new", 3).String(), "UPDATE 3")
		_, err = own.Exec(background, "INSERT INTO points (id) VALUES ($1)", 1)
		expectCode(err, "23505")
		_, err = own.Exec(background, "SELECT absent FROM points WHERE id = $1", 1)
		expectCode(err, "42703")
		execute(own, "DROP TABLE points")
		must(own.Close(background))
	}
}

func batches(conn *pgx.Conn) {
	execute(conn, "CREATE TABLE queue (id int PRIMARY KEY, v text)")
	batch := &pgx.Batch{}
	for number := range 100 {
		batch.Queue("INSERT INTO queue VALUES ($1, $2)", number, fmt.Sprint(number))
		batch.Queue("SELECT v FROM queue WHERE id = $1", number)
	}
	results := conn.SendBatch(background, batch)
	for number := range 100 {
		_, err := results.Exec()
		must(err)
		var v string
		must(results.QueryRow().Scan(&v))
		expect(v, fmt.Sprint(number))
	}
	must(results.Close())
	// A batch is one implicit transaction.
	batch = &pgx.Batch{}
	batch.Queue("INSERT INTO queue VALUES ($1, 'x')", 1000)
	batch.Queue("INSERT INTO queue VALUES ($1, 'x')", 1)
	expectCode(conn.SendBatch(background, batch).Close(), "23505")
	expect(one[int64](conn, "SELECT count(*) FROM queue"), int64(100))
	results = conn.SendBatch(background, func() *pgx.Batch {
		several := &pgx.Batch{}
		several.Queue("CREATE TABLE made (id int PRIMARY KEY)")
		several.Queue("INSERT INTO queue VALUES (2000, 'y')")
		return several
	}())
	must(results.Close())
	expect(one[string](conn, "SELECT v FROM queue WHERE id = 2000"), "y")
}

func copies(conn *pgx.Conn) {
	execute(conn, "CREATE TABLE moved (id int PRIMARY KEY, name text, amount numeric(10,2), day date)")
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	source := pgx.CopyFromSlice(5000, func(number int) ([]any, error) {
		return []any{number, fmt.Sprint("row\t", number), pgtype.Numeric{Int: nil, Valid: false}, day}, nil
	})
	copied, err := conn.CopyFrom(background, pgx.Identifier{"moved"}, []string{"id", "name", "amount", "day"}, source)
	must(err)
	expect(copied, int64(5000))
	expect(one[int64](conn, "SELECT count(*) FROM moved WHERE name = 'row	' || id AND amount IS NULL AND day = $1", day), int64(5000))
	twice := pgx.CopyFromRows([][]any{{9000, "new", nil, nil}, {1, "old", nil, nil}})
	_, err = conn.CopyFrom(background, pgx.Identifier{"public", "moved"}, []string{"id", "name", "amount", "day"}, twice)
	expectCode(err, "23505")
	expect(one[int64](conn, "SELECT count(*) FROM moved"), int64(5000))
}

func transactions(conn *pgx.Conn) {
	execute(conn, "CREATE TABLE parent (id int PRIMARY KEY)")
	must(pgx.BeginFunc(background, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(background, "INSERT INTO parent VALUES (1)")
		must(err)
		inner, err := tx.Begin(background)
		must(err)
		_, err = inner.Exec(background, "INSERT INTO parent VALUES (1)")
		expectCode(err, "23505")
		must(inner.Rollback(background))
		_, err = tx.Exec(background, "INSERT INTO parent VALUES (2)")
		return err
	}))
	tx, err := conn.BeginTx(background, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	must(err)
	_, err = tx.Exec(background, "INSERT INTO parent VALUES (3)")
	expectCode(err, "25006")
	_, err = tx.Exec(background, "SELECT 1")
	expectCode(err, "25P02")
	must(tx.Rollback(background))
	expect(all[int32](conn, "SELECT id FROM parent ORDER BY id"), []int32{1, 2})
	impatient, cancel := context.WithTimeout(background, 300*time.Millisecond)
	defer cancel()
	own, err := pgx.ConnectConfig(background, conn.Config())
	must(err)
	_, err = own.Exec(impatient, "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 1000000) b")
	expect(err != nil, true)
}

func pools(conn *pgx.Conn) {
	config, err := pgxpool.ParseConfig("")
	must(err)
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(background, config)
	must(err)
	defer pool.Close()
	_, err = pool.Exec(background, "CREATE TABLE counters (id int PRIMARY KEY, n int)")
	must(err)
	_, err = pool.Exec(background, "INSERT INTO counters VALUES (1, 0)")
	must(err)
	finished := make(chan error)
	for range 100 {
		go func() {
			options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
			finished <- pgx.BeginTxFunc(background, pool, options, func(tx pgx.Tx) error {
				_, err := tx.Exec(background, "UPDATE counters SET n = n + 1 WHERE id = $1", 1)
				return err
			})
		}()
	}
	for range 100 {
		must(<-finished)
	}
	expect(one[int32](conn, "SELECT n FROM counters"), int32(100))
}

// run reports whether the part ended well.
func run(name string, part func(*pgx.Conn)) (ended bool) {
	defer func() {
		if failure := recover(); failure != nil {
			fmt.Printf("FAILED %s: %v\n", name, failure)
			ended = false
		}
	}()
	conn, err := pgx.Connect(background, "")
	must(err)
	defer conn.Close(background)
	part(conn)
	fmt.Println("ok", name)
	return true
}

func main() {
	parts := []struct {
		name string
		part func(*pgx.Conn)
	}{
		{"types", types}, {"arrays", arrays}, {"modes", modes}, {"batches", batches}, {"copies", copies},
		{"transactions", transactions}, {"pools", pools},
	}
	failed := false
	for _, each := range parts {
		failed = !run(each.name, each.part) || failed
	}
	if failed {
		os.Exit(1)
	}
}
