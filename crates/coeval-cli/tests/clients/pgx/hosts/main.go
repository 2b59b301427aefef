// SPDX-License-Identifier: Apache-2.0

// pgx, given a replica and its primary in both orders (PGHOST, PGPORT), finds the one that it asks for.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
)

func main() {
	hosts, ports := os.Getenv("PGHOST"), strings.Split(os.Getenv("PGPORT"), ",")
	failed := false
	for _, order := range []string{ports[0] + "," + ports[1], ports[1] + "," + ports[0]} {
		for wanted, isReplica := range map[string]bool{
			"read-write": false, "primary": false, "read-only": true, "standby": true, "prefer-standby": true,
		} {
			found, err := isInRecovery(fmt.Sprintf("host=%s port=%s target_session_attrs=%s", hosts, order, wanted))
			if err != nil || found != isReplica {
				fmt.Fprintf(os.Stderr, "%s among the ports %s: in recovery is %t (%v)\n", wanted, order, found, err)
				failed = true
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}

func isInRecovery(address string) (found bool, err error) {
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, address)
	if err != nil {
		return false, err
	}
	defer connection.Close(ctx)
	err = connection.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&found)
	return found, err
}
