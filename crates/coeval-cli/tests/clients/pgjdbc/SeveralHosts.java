// SPDX-License-Identifier: Apache-2.0

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;

/** pgjdbc, given a replica and its primary in both orders (PGHOST, PGPORT): it finds the one that it asks for. */
public final class SeveralHosts {
    public static void main(String[] arguments) throws SQLException {
        String[] hosts = System.getenv("PGHOST").split(",");
        String[] ports = System.getenv("PGPORT").split(",");
        String replica = hosts[0] + ":" + ports[0];
        String primary = hosts[1] + ":" + ports[1];
        boolean failed = false;
        for (String order : new String[] {replica + "," + primary, primary + "," + replica}) {
            for (String wanted : new String[] {"primary", "secondary", "preferPrimary", "preferSecondary"}) {
                String url = "jdbc:postgresql://" + order + "/" + System.getenv("PGDATABASE") + "?user="
                    + System.getenv("PGUSER") + "&targetServerType=" + wanted + "&hostRecheckSeconds=0";
                try (Connection connection = DriverManager.getConnection(url);
                        ResultSet found = connection.createStatement().executeQuery("SELECT pg_is_in_recovery()")) {
                    found.next();
                    boolean isReplica = wanted.toLowerCase().contains("secondary");
                    if (found.getBoolean(1) != isReplica || connection.isReadOnly() && !isReplica) {
                        System.err.println(wanted + " among " + order + ": in recovery is " + found.getBoolean(1));
                        failed = true;
                    }
                }
            }
        }
        System.exit(failed ? 1 : 0);
    }
}
