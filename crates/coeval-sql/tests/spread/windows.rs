// SPDX-License-Identifier: Apache-2.0
//! Windows with PARTITION BY, for which nodes exchange rows: answers are those of one node, each node has its share, and nodes may go.

use crate::fake::Trouble;
use crate::pieces::{loaded, with_pieces};
use crate::rows;

/// Windows over partitions, a NULL among the keys of some.
const WINDOWS: [&str; 19] = [
    "SELECT likes, row_number() OVER w, rank() OVER w, dense_rank() OVER w, lag(likes) OVER w,
         lead(likes, 2, -1) OVER w FROM facts WINDOW w AS (PARTITION BY note ORDER BY day, likes) ORDER BY likes",
    "SELECT likes, rank() OVER w, dense_rank() OVER w, percent_rank() OVER w, cume_dist() OVER w FROM facts
         WINDOW w AS (PARTITION BY region ORDER BY day) ORDER BY likes",
    "SELECT likes, ntile(4) OVER w, first_value(day) OVER w, last_value(note) OVER w, nth_value(likes, 3) OVER w
         FROM facts WHERE likes % 3 = 1 WINDOW w AS (PARTITION BY region ORDER BY likes) ORDER BY likes",
    "SELECT likes, sum(likes) OVER (PARTITION BY note ORDER BY likes), avg(likes) OVER (PARTITION BY note ORDER BY
         likes), count(note) OVER (PARTITION BY note ORDER BY day), min(likes::float8) OVER (PARTITION BY note
         ORDER BY likes DESC) FROM facts ORDER BY likes",
    "SELECT likes, sum(likes) OVER (PARTITION BY region ORDER BY likes ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING),
         max(day) OVER (PARTITION BY region ORDER BY likes RANGE BETWEEN 100 PRECEDING AND CURRENT ROW),
         count(*) OVER (PARTITION BY region ORDER BY day GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING)
         FROM facts ORDER BY likes",
    "SELECT likes, sum(likes) OVER (PARTITION BY note), count(*) OVER (PARTITION BY note), avg(day) OVER
         (PARTITION BY note) FROM facts ORDER BY likes",
    "SELECT likes, row_number() OVER (PARTITION BY region ORDER BY likes), sum(likes) OVER (PARTITION BY note ORDER
         BY likes), count(*) OVER (PARTITION BY day % 10) FROM facts ORDER BY likes",
    "SELECT likes, sum(likes) OVER (PARTITION BY region, note ORDER BY likes), lag(day) OVER (PARTITION BY region
         ORDER BY likes) FROM facts ORDER BY likes",
    "SELECT likes, sum(likes) OVER (PARTITION BY day / 10, upper(region) ORDER BY likes) FROM facts ORDER BY likes",
    "SELECT likes, note FROM (SELECT likes, note, likes - lag(likes) OVER (PARTITION BY note ORDER BY likes) AS step
         FROM facts) s WHERE step > 13 ORDER BY likes",
    "SELECT likes, n, s FROM (SELECT likes, row_number() OVER w AS n, sum(likes) OVER w AS s FROM facts
         WINDOW w AS (PARTITION BY region ORDER BY likes DESC)) r WHERE n <= 3 ORDER BY likes",
    "SELECT region, count(*), sum(step), max(step) FROM (SELECT region, likes - lag(likes) OVER (PARTITION BY region
         ORDER BY likes) AS step FROM facts) s GROUP BY region ORDER BY region",
    "SELECT day % 7, max(step), count(DISTINCT note) FROM (SELECT day, note, likes - lag(likes) OVER (PARTITION BY
         region ORDER BY likes) AS step FROM facts) s GROUP BY 1 ORDER BY 1",
    "SELECT a.likes, a.n, b.note FROM (SELECT likes, region, row_number() OVER (PARTITION BY region ORDER BY likes)
         AS n FROM facts) a JOIN (SELECT region, note, row_number() OVER (PARTITION BY region ORDER BY likes DESC)
         AS n FROM facts) b ON a.region = b.region AND a.n = b.n ORDER BY a.likes",
    "SELECT likes, region, lag(likes) OVER (PARTITION BY region ORDER BY likes) FROM facts ORDER BY region, likes",
    "SELECT likes, lead(day) OVER (PARTITION BY note ORDER BY likes) FROM facts ORDER BY likes DESC LIMIT 9",
    "SELECT likes, count(*) FILTER (WHERE day > 50) OVER (PARTITION BY region ORDER BY likes) FROM facts
         ORDER BY likes",
    "SELECT region, note, sum(sum(likes)) OVER (PARTITION BY region ORDER BY note) FROM facts
         GROUP BY region, note ORDER BY 1, 2",
    "SELECT likes, lag(likes) OVER (PARTITION BY region ORDER BY likes) FROM facts WHERE day < 20
         UNION ALL SELECT likes, sum(likes) OVER (PARTITION BY note ORDER BY likes) FROM facts WHERE day > 80
         ORDER BY 1, 2",
];

/// Break: take the keys of another exchange for those of the shares, or leave out one of the nodes in `SpreadPieces::all_but`.
#[test]
fn windows_are_those_of_one_node() {
    let nodes = loaded();
    let expected = WINDOWS.map(|sql| rows(&mut nodes.session(0), sql));
    nodes.shared.set_engines(&nodes.engines);
    for node in [0, 3] {
        for (sql, expected) in WINDOWS.iter().zip(&expected) {
            assert_eq!(&rows(&mut nodes.session(node), sql), expected, "node {node}: {sql}");
        }
    }
    nodes.assert_nothing_is_open();
}

/// Rows are divided among nodes as among threads, of which there have to be several.
fn divides_rows() -> bool {
    std::thread::available_parallelism().is_ok_and(|threads| threads.get() > 1)
}

/// Break: have `in_shares` give nothing. All rows come to the first node then, which does the windows alone.
#[test]
fn each_node_does_windows_for_its_share() {
    if !divides_rows() {
        return;
    }
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    let sql = "SELECT likes, lag(likes) OVER (PARTITION BY region ORDER BY likes) FROM facts";
    let plan = rows(&mut session, &format!("EXPLAIN {sql}")).join("\n");
    let (above, below) = plan.split_once("SpreadShares").unwrap_or_else(|| panic!("{plan}"));
    assert!(!above.contains("Window") && !above.contains("SortExec"), "{plan}");
    for part in
        ["by=[region@", "here, node 2, node 3, node 4", "BoundedWindowAggExec", "SortExec: expr=[region@"]
    {
        assert!(below.contains(part), "no {part} in\n{plan}");
    }
    let (window, pieces) = below.split_once("SpreadPieces").unwrap_or_else(|| panic!("{plan}"));
    assert!(window.contains("RepartitionExec: partitioning=Hash([region@"), "{plan}");
    assert!(pieces.contains("ShareExec: share=0 of 4, by=[region@"), "{plan}");
    nodes.shared.take_pieces();
    assert_eq!(rows(&mut session, sql).len(), 6_000);
    let (asked, _) = nodes.shared.take_pieces();
    let times = |node: u32| asked.iter().filter(|asked| **asked == node).count();
    // For their shares, and for what they have of those of the others.
    assert!([2, 3, 4].into_iter().all(|node| times(node) >= 4) && times(1) >= 3, "{asked:?}");
    let plan = rows(&mut session, &format!("EXPLAIN ANALYZE {sql}")).join("\n");
    let shares = plan.lines().find(|line| line.contains("SpreadShares")).unwrap_or_else(|| panic!("{plan}"));
    assert!(shares.contains("node_2_rows=") && shares.contains("node_4_bytes="), "{plan}");
    session.execute("SET coeval.spread_pieces = off").unwrap();
    let plan = rows(&mut session, &format!("EXPLAIN {sql}")).join("\n");
    assert!(!plan.contains("SpreadShares"), "{plan}");
}

/// Break: have `Following::of` take no aggregates, or no filters.
#[test]
fn what_follows_a_window_is_done_with_it() {
    if !divides_rows() {
        return;
    }
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    let step =
        "SELECT region, day, likes - lag(likes) OVER (PARTITION BY region ORDER BY likes) AS step FROM facts";
    for (sql, part) in [
        (format!("SELECT region, sum(step) FROM ({step}) s GROUP BY region"), "gby=[region@"),
        (format!("SELECT day, max(step) FROM ({step}) s GROUP BY day"), "gby=[day@"),
        (format!("SELECT day FROM ({step}) s WHERE step > 6"), "> 6"),
        (format!("SELECT day, step FROM ({step}) s ORDER BY day, step LIMIT 3"), "TopK(fetch=3)"),
    ] {
        let plan = rows(&mut session, &format!("EXPLAIN {sql}")).join("\n");
        let (above, below) = plan.split_once("SpreadShares").unwrap_or_else(|| panic!("{plan}"));
        assert!(!above.contains("Window") && below.contains(part), "no {part} in\n{plan}");
    }
    // What lets few rows of each group through is done without an exchange.
    let best = "SELECT likes FROM (SELECT likes, row_number() OVER (PARTITION BY region ORDER BY likes) AS n FROM facts) r
        WHERE n <= 2";
    let plan = rows(&mut session, &format!("EXPLAIN {best}")).join("\n");
    assert!(!plan.contains("SpreadShares") && plan.contains("GroupTopExec"), "{plan}");
}

/// Break: have `Asking::read` read bricks whatever the share is, or `Asking::again` ask other nodes for it.
#[test]
fn nodes_may_go_while_rows_are_exchanged() {
    let nodes = with_pieces();
    let expected = WINDOWS.map(|sql| rows(&mut nodes.session(0), sql));
    let troubles: [&[(u32, Trouble)]; 4] = [
        &[(2, Trouble::Gone)],
        &[(3, Trouble::Goes)],
        &[(2, Trouble::Goes), (3, Trouble::Goes), (4, Trouble::Gone)],
        &[(2, Trouble::Gone), (3, Trouble::Gone), (4, Trouble::Gone), (5, Trouble::Gone)],
    ];
    for troubles in troubles {
        nodes.shared.set_troubles(troubles);
        for (sql, expected) in WINDOWS.iter().zip(&expected) {
            assert_eq!(&rows(&mut nodes.session(0), sql), expected, "{troubles:?}: {sql}");
        }
    }
    nodes.assert_nothing_is_open();
}
