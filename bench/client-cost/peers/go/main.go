// Command peer loads a MySQL server through database/sql and go-sql-driver/mysql, as a Go program would: a goroutine and a
// connection each, statements prepared once (or literals put in by the driver), every row read and dropped.
//
// Its statements are those of bench/client-cost/src/workload.rs. Prints one JSON line at the end.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	_ "github.com/go-sql-driver/mysql"
)

const rangeRows = 100

// A statement on the table `{t}`; `args` makes its parameters from a row number.
type statement struct {
	sql  string
	args func(id int64) []any
	rows bool
	// Never prepared, as in sysbench.
	text bool
}

// A step of an event: statements on one table drawn at random, so many times.
type step struct {
	repeat     int
	statements []statement
}

func steps(workload string) ([]step, error) {
	digits := strings.TrimSuffix(strings.Repeat("01234567890-", 10), "-")
	pad := digits[:59]
	id := func(id int64) []any { return []any{id} }
	span := func(id int64) []any { return []any{id, id + rangeRows - 1} }
	point := statement{sql: "SELECT c FROM {t} WHERE id=?", args: id, rows: true}
	ranged := func(sql string) step {
		return step{1, []statement{{sql: sql, args: span, rows: true}}}
	}
	reads := []step{
		{10, []statement{point}},
		ranged("SELECT c FROM {t} WHERE id BETWEEN ? AND ?"),
		ranged("SELECT SUM(k) FROM {t} WHERE id BETWEEN ? AND ?"),
		ranged("SELECT c FROM {t} WHERE id BETWEEN ? AND ? ORDER BY c"),
		ranged("SELECT DISTINCT c FROM {t} WHERE id BETWEEN ? AND ? ORDER BY c"),
	}
	updateIndex := step{1, []statement{{sql: "UPDATE {t} SET k=k+1 WHERE id=?", args: id}}}
	writes := []step{
		updateIndex,
		{1, []statement{{sql: "UPDATE {t} SET c=? WHERE id=?", args: func(id int64) []any { return []any{digits, id} }}}},
		{1, []statement{
			{sql: "DELETE FROM {t} WHERE id=?", args: id},
			{sql: "INSERT INTO {t} (id, k, c, pad) VALUES (?, ?, ?, ?)", args: func(id int64) []any { return []any{id, id, digits, pad} }},
		}},
	}
	insert := statement{
		sql:  "INSERT INTO {t} (k, c, pad) VALUES (?, ?, ?)",
		args: func(id int64) []any { return []any{id, digits, pad} },
		text: true,
	}
	alone := func(sql string) step {
		return step{1, []statement{{sql: sql, args: func(int64) []any { return nil }, text: true}}}
	}
	transaction := func(inner ...step) []step {
		return append(append([]step{alone("BEGIN")}, inner...), alone("COMMIT"))
	}
	switch workload {
	case "oltp_point_select":
		return []step{{1, []statement{point}}}, nil
	case "oltp_read_only":
		return transaction(reads...), nil
	case "oltp_read_write":
		return transaction(append(reads, writes...)...), nil
	case "oltp_update_index":
		return []step{updateIndex}, nil
	case "oltp_insert":
		return []step{{1, []statement{insert}}}, nil
	}
	return nil, fmt.Errorf("unknown workload %s", workload)
}

type options struct {
	tables, tableSize int
	prepared          bool
	end               time.Duration
}

type worker struct {
	connection *sql.Conn
	prepared   map[string]*sql.Stmt
	histogram  [64 << 7]uint64
	events     uint64
}

func (w *worker) run(s statement, table string, id int64) error {
	ctx := context.Background()
	query := strings.Replace(s.sql, "{t}", table, 1)
	args := s.args(id)
	statement := w.prepared[query]
	if !s.rows {
		var err error
		if statement != nil {
			_, err = statement.ExecContext(ctx, args...)
		} else {
			_, err = w.connection.ExecContext(ctx, query, args...)
		}
		return err
	}
	var rows *sql.Rows
	var err error
	if statement != nil {
		rows, err = statement.QueryContext(ctx, args...)
	} else {
		rows, err = w.connection.QueryContext(ctx, query, args...)
	}
	if err != nil {
		return err
	}
	defer rows.Close()
	var value sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&value); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (w *worker) prepare(plan []step, o options) error {
	if !o.prepared {
		return nil
	}
	for _, step := range plan {
		for _, s := range step.statements {
			for table := 1; table <= o.tables && !s.text; table++ {
				query := strings.Replace(s.sql, "{t}", fmt.Sprintf("sbtest%d", table), 1)
				prepared, err := w.connection.PrepareContext(context.Background(), query)
				if err != nil {
					return err
				}
				w.prepared[query] = prepared
			}
		}
	}
	return nil
}

func (w *worker) load(plan []step, o options, names []string) error {
	begun := time.Now()
	last := begun
	for last.Sub(begun) < o.end {
		for _, step := range plan {
			for range step.repeat {
				table, id := names[rand.IntN(len(names))], 1+rand.Int64N(int64(o.tableSize))
				for _, s := range step.statements {
					if err := w.run(s, table, id); err != nil {
						return err
					}
				}
			}
		}
		now := time.Now()
		w.histogram[bucket(uint64(now.Sub(last)))]++
		w.events++
		last = now
	}
	return nil
}

// Buckets at most 0.8 % wide: the highest eight bits choose.
func bucket(ns uint64) int {
	shift := max(bits.Len64(ns)-8, 0)
	return shift<<7 + int(ns>>shift)
}

func lower(index int) uint64 {
	if index < 256 {
		return uint64(index)
	}
	shift := index>>7 - 1
	return uint64(index-shift<<7) << shift
}

func run() error {
	socket, port := flag.String("socket", "", ""), flag.Int("port", 3306, "of 127.0.0.1")
	user, database := flag.String("user", "root", ""), flag.String("database", "sbtest", "")
	workload, threads := flag.String("workload", "oltp_point_select", ""), flag.Int("threads", 1, "connections")
	mode, seconds := flag.String("mode", "prepared", "prepared, text"), flag.Float64("time", 10, "seconds")
	var o options
	flag.IntVar(&o.tables, "tables", 1, "")
	flag.IntVar(&o.tableSize, "table-size", 10000, "")
	flag.Parse()
	o.prepared, o.end = *mode == "prepared", time.Duration(*seconds*1e9)
	address := fmt.Sprintf("tcp(127.0.0.1:%d)", *port)
	if *socket != "" {
		address = fmt.Sprintf("unix(%s)", *socket)
	}
	db, err := sql.Open("mysql", fmt.Sprintf("%s@%s/%s?interpolateParams=%t", *user, address, *database, !o.prepared))
	if err != nil {
		return err
	}
	db.SetMaxIdleConns(*threads)
	plan, err := steps(*workload)
	if err != nil {
		return err
	}
	names := make([]string, o.tables)
	for table := range names {
		names[table] = fmt.Sprintf("sbtest%d", table+1)
	}
	workers := make([]worker, *threads)
	for number := range workers {
		w := &workers[number]
		w.prepared = map[string]*sql.Stmt{}
		if w.connection, err = db.Conn(context.Background()); err != nil {
			return err
		}
		if err = w.prepare(plan, o); err != nil {
			return err
		}
	}
	failures := make([]error, *threads)
	var all sync.WaitGroup
	for number := range workers {
		all.Go(func() { failures[number] = workers[number].load(plan, o, names) })
	}
	all.Wait()
	var total worker
	for number := range workers {
		if failures[number] != nil {
			return failures[number]
		}
		total.events += workers[number].events
		for index, count := range workers[number].histogram {
			total.histogram[index] += count
		}
	}
	quantile := func(q float64) uint64 {
		seen, wanted := uint64(0), uint64(q*float64(total.events))
		for index, count := range total.histogram {
			if seen += count; seen > wanted {
				return lower(index)
			}
		}
		return 0
	}
	quantiles := map[string]uint64{"0.5": quantile(0.5), "0.95": quantile(0.95), "0.99": quantile(0.99)}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"events": total.events, "quantiles_ns": quantiles})
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}
