// SPDX-License-Identifier: Apache-2.0
//! Pieces of queries that other nodes do with their bricks: answers are those of one node, rows do not travel, and nodes may go.

use crate::fake::{Node, Shared, Trouble};
use crate::{Nodes, count, refused, rows};
use coeval_sql::{Execution, SqlState};
use std::sync::Arc;

/// Rows that are loaded.
const ROWS: usize = 6_000;

/// What pieces are made of, each of queries that have one on another node.
const QUERIES: [&str; 22] = [
    "SELECT count(*), count(note), sum(likes), min(note), max(note), min(day) FROM facts",
    "SELECT sum(likes::bigint), avg(likes), avg(likes::float8), stddev(likes), bool_and(likes > 5) FROM facts",
    "SELECT region, count(*), sum(likes), avg(likes) FROM facts GROUP BY region ORDER BY region",
    "SELECT region, count(DISTINCT note) FROM facts GROUP BY region ORDER BY region",
    "SELECT note, count(*), max(day) FROM facts WHERE day BETWEEN 15 AND 64 GROUP BY note ORDER BY note",
    "SELECT day / 10, sum(likes) FILTER (WHERE note IS NULL), count(*) FROM facts GROUP BY 1 ORDER BY 1",
    "SELECT count(*) FROM facts WHERE region IN ('a', 'c') AND note LIKE 'note 1%' AND NOT likes < 40",
    "SELECT upper(region), sum(CASE WHEN likes > 100 THEN likes ELSE 0 END) FROM facts GROUP BY 1 ORDER BY 1",
    "SELECT day, region, likes, note FROM facts WHERE likes % 97 = 3 ORDER BY likes",
    "SELECT 1 FROM facts WHERE likes % 97 = 3",
    "SELECT count(*) FROM (SELECT day, region, count(*) n FROM facts GROUP BY 1, 2) g WHERE n > 9",
    "SELECT sum(f.likes) FROM facts f JOIN (SELECT max(likes) AS most FROM facts) m ON f.likes = m.most",
    "SELECT likes, note FROM facts ORDER BY likes DESC LIMIT 5",
    "SELECT day, upper(region) FROM facts WHERE note IS NOT NULL ORDER BY day, likes DESC LIMIT 7 OFFSET 3",
    "SELECT region, max(likes) FROM facts GROUP BY region ORDER BY max(likes) DESC LIMIT 2",
    "SELECT length(note), likes FROM facts ORDER BY likes",
    "SELECT likes, day, region, note FROM facts ORDER BY note DESC NULLS LAST, likes % 11, likes",
    "SELECT day, likes, sum(likes) OVER (ORDER BY likes DESC) FROM facts WHERE day < 40 ORDER BY day, likes",
    "SELECT likes, n FROM (SELECT likes, row_number() OVER (PARTITION BY region ORDER BY likes DESC) AS n
         FROM facts WHERE likes % 5 < 4) r WHERE n <= 2 ORDER BY likes",
    "SELECT region, count(*), sum(likes), max(note) FROM (SELECT region, likes, note FROM facts WHERE day < 30
         UNION ALL SELECT upper(region), likes + 1, note FROM facts WHERE day >= 60
         UNION ALL SELECT 'a', 7, 'none') u GROUP BY region ORDER BY region",
    "SELECT likes, note FROM (SELECT likes, note, dense_rank() OVER (PARTITION BY note ORDER BY day) AS d
         FROM facts) r WHERE d <= 2 ORDER BY note, likes",
    "SELECT likes, region FROM (SELECT likes, region FROM facts WHERE day < 30
         UNION ALL SELECT likes + 100000, upper(region) FROM facts WHERE day > 60) u ORDER BY likes DESC LIMIT 6",
];

/// Queries for some rows, whichever come first: how many there are.
const SOME: [(&str, &str); 5] = [
    ("SELECT count(*) FROM (SELECT likes FROM facts LIMIT 23) s", "23"),
    ("SELECT count(*) FROM (SELECT likes FROM facts WHERE likes >= 1000 LIMIT 17 OFFSET 4) s", "17"),
    ("SELECT count(*) FROM (SELECT upper(note) FROM facts WHERE day < 10 LIMIT 5000) s", "600"),
    ("SELECT count(*), count(DISTINCT region) FROM (SELECT DISTINCT region FROM facts LIMIT 4) s", "4 4"),
    ("SELECT count(*) FROM (SELECT DISTINCT day, region FROM facts WHERE likes % 2 = 0 LIMIT 9) s", "9"),
];

/// Joins of spread tables with tables of rows.
const JOINS: [&str; 16] = [
    "SELECT f.likes, f.day, p.name FROM facts f JOIN places p ON f.region = p.code
         WHERE p.name IN ('place a', 'place d') ORDER BY f.likes",
    "SELECT p.name, count(*), sum(f.likes) FROM places p JOIN facts f ON f.region = p.code
         WHERE p.name > 'place c' GROUP BY p.name ORDER BY p.name",
    "SELECT f.likes, f.note FROM facts f JOIN numbers n ON f.likes = n.id WHERE f.day < 50 ORDER BY 1",
    "SELECT count(*) FROM facts WHERE likes IN (SELECT id FROM numbers WHERE id % 2 = 0)",
    "SELECT count(*) FROM facts WHERE likes NOT IN (SELECT id FROM numbers)",
    "SELECT p.name, f.likes FROM places p LEFT JOIN facts f ON f.region = p.code AND f.likes < 9 ORDER BY 1, 2",
    "SELECT count(*), count(p.name) FROM facts f LEFT JOIN places p ON f.region = p.code AND p.name > 'place d'",
    "SELECT count(*), min(f.likes) FROM facts f JOIN zeros z ON f.likes::float8 = z.zero",
    "SELECT count(*) FROM facts f JOIN places p ON f.region = p.code WHERE p.name = 'nowhere'",
    "SELECT f.likes, p.name FROM facts f JOIN places p ON f.region = p.code JOIN numbers n ON f.likes = n.id
         WHERE p.name < 'place c' ORDER BY f.likes DESC LIMIT 4",
    "SELECT a.likes FROM facts a JOIN facts b ON a.likes = b.likes + 1 JOIN numbers n ON b.likes = n.id
         WHERE b.day = 20 ORDER BY 1",
    "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT f.likes * 2 FROM r JOIN facts f ON f.likes = r.n
         WHERE f.likes < 3000) SELECT count(*), max(n) FROM r",
    "SELECT p.name, n.id % 7, count(*), min(f.day) FROM facts f JOIN places p ON f.region = p.code
         JOIN numbers n ON f.likes = n.id + 1 GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT p.name, count(*) FROM places p JOIN facts f ON f.region = p.code AND f.day > length(p.name) * 8
         GROUP BY 1 ORDER BY 1",
    "SELECT count(*) FROM facts f WHERE NOT EXISTS (SELECT 1 FROM places p WHERE p.code = f.region
         AND p.name > 'place b')",
    "SELECT name, likes, n FROM (SELECT p.name, f.likes, rank() OVER (PARTITION BY p.name ORDER BY f.likes DESC) AS n
         FROM facts f JOIN places p ON f.region = p.code) r WHERE n <= 3 ORDER BY name, likes",
];

/// Tables of rows beside them, on the first node. `many` has more keys than are listed.
const DIMENSIONS: &str = "
    CREATE TABLE places (code text PRIMARY KEY, name text NOT NULL);
    INSERT INTO places VALUES ('a', 'place a'), ('b', 'place b'), ('c', 'place c'), ('d', 'place d'),
        ('e', 'place e'), ('f', 'place f'), ('g', 'place g');
    CREATE TABLE numbers (id int PRIMARY KEY);
    INSERT INTO numbers SELECT g * 60 FROM generate_series(0, 99) g;
    CREATE TABLE many (id int PRIMARY KEY);
    INSERT INTO many SELECT g FROM generate_series(5900, 10899) g;
    CREATE TABLE zeros (zero float8);
    INSERT INTO zeros VALUES ('-0')";

/// Five nodes, of which each brick is on two, with rows on all: NULLs and texts among them.
pub(crate) fn loaded() -> Nodes {
    let shared = Arc::new(Shared::default());
    let nodes = (1..=5).map(|number| Node::numbered(&shared, number)).collect();
    let nodes = Nodes::of(shared, nodes);
    let load = format!(
        "INSERT INTO facts SELECT g % 100, substr('abcdef', (g % 6)::int + 1, 1), g,
             CASE WHEN g % 7 > 2 THEN 'note ' || (g % 13)::text END
         FROM generate_series(0, {}) g",
        ROWS - 1
    );
    assert_eq!(count(&mut nodes.session(0), &load), ROWS as u64);
    nodes.shared.take_reads();
    nodes
}

pub(crate) fn with_pieces() -> Nodes {
    let nodes = loaded();
    nodes.shared.set_engines(&nodes.engines);
    nodes
}

/// Break: leave out a step when a piece is written down, or have `Asking::again` leave out bricks.
#[test]
fn answers_are_those_of_one_node() {
    let nodes = loaded();
    let expected = QUERIES.map(|sql| rows(&mut nodes.session(0), sql));
    nodes.shared.set_engines(&nodes.engines);
    for node in 0..nodes.nodes.len() {
        for (sql, expected) in QUERIES.iter().zip(&expected) {
            nodes.shared.take_pieces();
            assert_eq!(&rows(&mut nodes.session(node), sql), expected, "node {node}: {sql}");
            let (asked, bytes) = nodes.shared.take_pieces();
            assert!(!asked.is_empty() && bytes > 0, "node {node} has asked nobody: {sql}");
        }
    }
    nodes.assert_nothing_is_open();
}

/// Break: wait in `keys::found` for sorts too, leave out `reset_state`, or leave zeros out of what floats look for.
#[test]
fn joins_find_what_they_find_on_one_node() {
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    session.execute(DIMENSIONS).unwrap();
    session.execute("SET coeval.spread_pieces = off").unwrap();
    let expected = JOINS.map(|sql| rows(&mut session, sql));
    assert_eq!(expected[0].len(), 2_000);
    assert_eq!(expected[11], ["13 4096"]);
    session.execute("RESET coeval.spread_pieces").unwrap();
    let troubles: [&[(u32, Trouble)]; 3] =
        [&[], &[(2, Trouble::Goes), (4, Trouble::Gone)], &[(3, Trouble::Gone), (4, Trouble::Goes)]];
    for troubles in troubles {
        nodes.shared.set_troubles(troubles);
        for (sql, expected) in JOINS.iter().zip(&expected) {
            assert_eq!(&rows(&mut session, sql), expected, "{troubles:?}: {sql}");
        }
    }
    nodes.assert_nothing_is_open();
}

/// Break: have `SpreadScan` note no hints, list fewer keys than a hundred, or leave out least and greatest key where there are too many.
#[test]
fn only_rows_travel_that_a_join_may_have_a_partner_for() {
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    session.execute(DIMENSIONS).unwrap();
    let mut bytes = |joined: &str| {
        nodes.shared.take_pieces();
        let sql = format!("SELECT f.likes, f.region, f.note FROM facts f JOIN {joined}");
        let found = rows(&mut session, &sql).len();
        (found, nodes.shared.take_pieces().1)
    };
    let (all, most) = bytes("places p ON f.region = p.code");
    assert_eq!(all, ROWS);
    for (joined, expected) in [
        ("places p ON f.region = p.code WHERE p.name = 'place b'", 1_000),
        ("numbers n ON f.likes = n.id", 100),
        ("many m ON f.likes = m.id", 100),
        ("places p ON f.region = p.code JOIN numbers n ON f.likes = n.id WHERE p.name = 'place a'", 100),
    ] {
        let (found, sent) = bytes(joined);
        assert_eq!(found, expected, "{joined}");
        assert!(sent * 2 < most, "{sent} of {most} bytes have travelled for {joined}");
    }
    let sql = "SELECT f.likes FROM facts f JOIN places p ON f.region = p.code WHERE p.name = 'place b'";
    let plan = rows(&mut session, &format!("EXPLAIN {sql}")).join("\n");
    assert!(plan.contains("keys of joins=[region]"), "{plan}");
}

/// Break: have `SpreadScan::matching` give all bricks, or `SpreadScan` tell no expressions.
#[test]
fn bricks_that_no_join_looks_for_are_read_nowhere() {
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    session
        .execute(
            "CREATE TABLE days (day int PRIMARY KEY, name text NOT NULL);
             INSERT INTO days SELECT g, 'day ' || g FROM generate_series(0, 99) g",
        )
        .unwrap();
    let sql = "SELECT f.likes, f.note FROM facts f JOIN days d ON f.day = d.day WHERE d.name = 'day 7'";
    nodes.shared.take_reads();
    assert_eq!(rows(&mut session, sql).len(), ROWS / 100);
    // Days 0 to 9 are in three bricks, by regions.
    assert!(nodes.shared.take_reads().len() <= 3, "of those that are here");
    let plan = rows(&mut session, &format!("EXPLAIN ANALYZE {sql}")).join("\n");
    assert!(plan.contains("bricks_passed_over=") && plan.contains("keys of joins=[day]"), "{plan}");
    session.execute("SET coeval.spread_pieces = off").unwrap();
    nodes.shared.take_reads();
    assert_eq!(rows(&mut session, sql).len(), ROWS / 100);
    assert_eq!(nodes.shared.take_reads().len(), 3);
    let others = "SELECT count(*) FROM facts f LEFT JOIN days d ON f.day = d.day AND d.name = 'day 7'";
    assert_eq!(rows(&mut session, others), [ROWS.to_string()]);
    nodes.assert_nothing_is_open();
}

/// Break: have `Steps::of` take no joins.
#[test]
fn groups_by_what_a_join_brings_are_begun_where_the_bricks_are() {
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    session.execute(DIMENSIONS).unwrap();
    let sql = "SELECT p.name, count(*), sum(f.likes) FROM facts f JOIN places p ON f.region = p.code
        WHERE p.name < 'place d' GROUP BY p.name ORDER BY p.name";
    let plan = rows(&mut session, &format!("EXPLAIN {sql}")).join("\n");
    let (_, below) = plan.split_once("SpreadPieces").unwrap_or_else(|| panic!("{plan}"));
    for part in ["CodedGroupsExec: gby=[name", "HashJoinExec", "SentInput"] {
        assert!(below.contains(part), "no {part} in\n{plan}");
    }
    nodes.shared.take_pieces();
    let found = rows(&mut session, sql);
    assert_eq!(found, ["place a 1000 2997000", "place b 1000 2998000", "place c 1000 2999000"]);
    let (asked, bytes) = nodes.shared.take_pieces();
    assert_eq!(asked.len(), 3, "one question for each node: {asked:?}");
    assert!(bytes < ROWS * 4, "{bytes} bytes of three groups from each part of three nodes");
    nodes.assert_nothing_is_open();
}

/// Break: send whatever there is.
#[test]
fn an_input_that_turns_out_large_is_not_sent() {
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    let wide = "CREATE TABLE wide (id int PRIMARY KEY, words text);
        INSERT INTO wide SELECT g, repeat('x', 2000) FROM generate_series(0, 2999) g";
    session.execute(wide).unwrap();
    nodes.shared.take_pieces();
    let sql = "SELECT length(w.words), count(*) FROM facts f JOIN wide w ON f.likes = w.id GROUP BY 1";
    assert_eq!(rows(&mut session, sql), ["2000 3000"]);
    assert_eq!(nodes.shared.take_pieces(), (Vec::new(), 0), "six megabytes stay here");
}

/// Each node gives as many rows as the whole may have. Break: have `in_parts` leave out the limit, or `Steps::of` take an aggregate
/// above one.
#[test]
fn there_are_no_more_rows_than_wanted() {
    let nodes = with_pieces();
    let troubles: [&[(u32, Trouble)]; 3] =
        [&[], &[(2, Trouble::Goes)], &[(2, Trouble::Gone), (3, Trouble::Gone)]];
    for troubles in troubles {
        nodes.shared.set_troubles(troubles);
        for node in 0..nodes.nodes.len() {
            for (sql, expected) in SOME {
                let found = rows(&mut nodes.session(node), sql);
                assert_eq!(found, [expected], "node {node}, {troubles:?}: {sql}");
            }
        }
    }
    nodes.assert_nothing_is_open();
}

/// Break: have `Steps::sorted` refuse everything. All rows travel then.
#[test]
fn nodes_give_their_first_rows() {
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    let sql = "SELECT likes, day, region, note FROM facts ORDER BY likes DESC LIMIT 5";
    let plan = rows(&mut session, &format!("EXPLAIN {sql}")).join("\n");
    let (above, below) = plan.split_once("SpreadPieces").unwrap_or_else(|| panic!("{plan}"));
    assert!(above.contains("TopK(fetch=5)") && below.contains("TopK(fetch=5)"), "{plan}");
    nodes.shared.take_reads();
    assert_eq!(rows(&mut session, sql)[0], "5999 99 f ");
    let (asked, bytes) = nodes.shared.take_pieces();
    assert_eq!(asked.len(), 3, "one question for each node: {asked:?}");
    assert!(bytes < ROWS * 4, "{bytes} bytes of five rows from each of three nodes");
    assert!(!nodes.shared.take_reads().is_empty(), "the first node reads what it has");
}

/// Break: have `Steps::sorted` refuse a sort of all rows, or `Asking::again` ask several nodes for what is sorted.
#[test]
fn nodes_sort_all_their_rows_and_what_they_give_is_merged() {
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    for sql in [
        "SELECT likes, note FROM facts WHERE likes % 3 = 0 ORDER BY note, likes",
        "SELECT likes, row_number() OVER (ORDER BY note, likes) FROM facts",
    ] {
        let plan = rows(&mut session, &format!("EXPLAIN {sql}")).join("\n");
        let (above, below) = plan.split_once("SpreadPieces").unwrap_or_else(|| panic!("{plan}"));
        assert!(above.contains("SortPreservingMergeExec: [note@"), "{plan}");
        assert!(!above.contains("SortExec") && below.contains("SortExec: expr=[note@"), "{plan}");
        nodes.shared.take_pieces();
        assert!(rows(&mut session, sql).len() >= ROWS / 3);
        let (asked, _) = nodes.shared.take_pieces();
        assert_eq!(asked.len(), 3, "one question for each node: {asked:?}");
    }
    // An answer that is not whole is had anew as one sequence, of however many nodes.
    nodes.shared.set_troubles(&[(2, Trouble::Goes), (3, Trouble::Gone)]);
    let found = rows(&mut session, "SELECT likes FROM facts ORDER BY likes DESC");
    assert!(found.iter().map(|likes| likes.parse::<usize>().unwrap()).eq((0..ROWS).rev()));
    nodes.assert_nothing_is_open();
}

/// Break: have `Steps::of` take no `GroupTopExec`, or the rule that makes them come behind pieces. All rows travel then.
#[test]
fn nodes_give_the_best_rows_of_groups() {
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    // Nodes read rows by ascending likes: the other way round each row would be the best one so far, and none could be dropped.
    let sql =
        "SELECT likes, day FROM (SELECT likes, day, row_number() OVER (PARTITION BY region ORDER BY likes)
        AS n FROM facts) r WHERE n <= 2 ORDER BY likes";
    let plan = rows(&mut session, &format!("EXPLAIN {sql}")).join("\n");
    let (above, below) = plan.split_once("SpreadPieces").unwrap_or_else(|| panic!("{plan}"));
    assert!(
        !above.contains("GroupTopExec") && below.contains("GroupTopExec: keep=2 rows, group=[region"),
        "{plan}"
    );
    nodes.shared.take_pieces();
    let found = rows(&mut session, sql);
    assert_eq!((found.len(), found[0].as_str(), found[11].as_str()), (12, "0 0", "11 11"));
    let (asked, bytes) = nodes.shared.take_pieces();
    assert_eq!(asked.len(), 3, "one question for each node: {asked:?}");
    assert!(bytes < ROWS * 4, "{bytes} bytes of a few rows of six groups from each part of three nodes");
    nodes.assert_nothing_is_open();
}

/// Break: have `of_union` give nothing. Rows of the branches travel then.
#[test]
fn groups_of_a_union_are_begun_in_its_branches() {
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    let sql = "SELECT region, count(*), sum(likes) FROM (SELECT region, likes FROM facts WHERE day < 50
        UNION ALL SELECT upper(region), likes + 1 FROM facts WHERE day >= 50) u GROUP BY region";
    let plan = rows(&mut session, &format!("EXPLAIN {sql}")).join("\n");
    let (_, branches) = plan.split_once("UnionExec").unwrap_or_else(|| panic!("{plan}"));
    let mut pieces = branches.split("SpreadPieces").skip(1);
    for _ in 0..2 {
        let piece = pieces.next().unwrap_or_else(|| panic!("{plan}"));
        assert!(piece.contains("gby=[region"), "{plan}");
    }
    nodes.shared.take_pieces();
    assert_eq!(rows(&mut session, sql).len(), 12);
    let (_, bytes) = nodes.shared.take_pieces();
    assert!(bytes < ROWS * 8, "{bytes} bytes of six groups from each part of three nodes, twice");
    nodes.assert_nothing_is_open();
}

/// Break: leave `PushPieces` out of the rules. All rows travel then.
#[test]
fn what_is_made_of_rows_travels_and_not_the_rows() {
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    let sql = "SELECT region, count(*), sum(likes) FROM facts GROUP BY region";
    assert_eq!(rows(&mut session, sql).len(), 6);
    let (asked, bytes) = nodes.shared.take_pieces();
    assert_eq!(asked.len(), 3, "nodes 2, 3 and 4 have what is not on node 1: {asked:?}");
    assert!(bytes < ROWS * 4, "{bytes} bytes of six groups from each part of three nodes");
    let here = nodes.shared.take_reads().len();
    let all = {
        nodes.shared.set_engines(&[]);
        rows(&mut session, sql);
        nodes.shared.take_reads().len()
    };
    assert!(0 < here && here * 2 < all, "{here} of {all} bricks were read as rows");
    // Nothing is asked for of bricks that cannot have rows of the answer.
    nodes.shared.set_engines(&nodes.engines);
    assert_eq!(rows(&mut session, "SELECT count(*) FROM facts WHERE day > 99"), ["0"]);
    assert_eq!(nodes.shared.take_pieces(), (Vec::new(), 0));
}

/// Break: take what a node has given before it went for the whole, or read the bricks without leaving out what was given.
#[test]
fn nodes_may_go() {
    let nodes = with_pieces();
    let troubles: [&[(u32, Trouble)]; 4] = [
        &[(2, Trouble::Gone)],
        &[(3, Trouble::Goes)],
        &[(2, Trouble::Goes), (3, Trouble::Goes), (4, Trouble::Gone)],
        &[(2, Trouble::Gone), (3, Trouble::Gone), (4, Trouble::Gone), (5, Trouble::Gone)],
    ];
    let expected = QUERIES.map(|sql| rows(&mut nodes.session(0), sql));
    for troubles in troubles {
        nodes.shared.set_troubles(troubles);
        for (sql, expected) in QUERIES.iter().zip(&expected) {
            assert_eq!(&rows(&mut nodes.session(0), sql), expected, "{troubles:?}: {sql}");
        }
    }
    nodes.assert_nothing_is_open();
}

/// Rows of the large brick, of two kilobytes each. An answer is written batch by batch, of 8192 rows, and nothing of a batch is had before
/// the whole has come: so they are some batches.
const LARGE_ROWS: usize = 20_000;

/// Of an answer with all of them so much has come that whole batches of more than 16 MiB, which are not kept, are among it, and one is not
/// whole.
const TOO_MUCH: usize = 34 << 20;

/// Nodes of which two have a brick with rows of more than that, which come last by `likes`. Three have to ask for it.
fn with_a_large_brick() -> Nodes {
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    let large = format!(
        "INSERT INTO facts SELECT 0, 'a', 100000 + g, repeat('x', 2000) FROM generate_series(1, {LARGE_ROWS}) g"
    );
    let small = "INSERT INTO facts SELECT g % 100, 'b', g, NULL FROM generate_series(6000, 11999) g";
    for load in [small, large.as_str()] {
        session.execute(load).unwrap();
    }
    nodes
}

/// A query to which the notes of the large brick travel, as one sorted answer. It gives one row, when all have come.
const OVER_LARGE: &str = "SELECT count(*), sum(length(note)), max(n) FROM
    (SELECT note, row_number() OVER (ORDER BY likes) AS n FROM facts WHERE likes >= 6000) w";

/// Each node goes once so much of its answer has come that a part has gone out.
fn all_go(nodes: &Nodes) {
    let troubles = [1, 2, 3, 4, 5].map(|node| (node, Trouble::GoesBehind(TOO_MUCH)));
    nodes.shared.set_troubles(&troubles);
}

/// Break: have `Attempts::go_on` take no lost node, or leave out `of_lost_node`. The statement fails then.
#[test]
fn a_statement_runs_again_when_a_node_goes_with_a_part_of_a_large_answer() {
    let nodes = with_a_large_brick();
    let mut gone = 0;
    for node in 0..nodes.nodes.len() {
        all_go(&nodes);
        let found = rows(&mut nodes.session(node), OVER_LARGE);
        assert_eq!(found, ["26000 40000000 26000"], "node {node}");
        gone += nodes.shared.gone().len();
    }
    assert_eq!(gone, 3, "three nodes have to ask for the large brick");
    // A block has one snapshot, which may have been shown: it is its client who begins again.
    let mut failed = 0;
    for node in 0..nodes.nodes.len() {
        all_go(&nodes);
        let mut session = nodes.session(node);
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
        if let Err(error) = session.execute(OVER_LARGE) {
            assert_eq!(error.state, SqlState::CannotConnectNow, "node {node}: {error}");
            failed += 1;
        }
        session.execute("ROLLBACK").unwrap();
    }
    assert_eq!(failed, 3, "whoever has lost a part of the answer fails in a block");
    nodes.assert_nothing_is_open();
}

/// Break: leave out `await_first` in `query::stream`, or `behind_rows`.
#[test]
fn a_stream_runs_again_until_rows_have_been_sent_and_then_says_that_they_have() {
    let nodes = with_a_large_brick();
    let start = |node: usize, sql: &str| {
        let mut session = nodes.session(node);
        let statement = session.parse(sql).unwrap().pop().unwrap();
        match session.start(&statement).unwrap() {
            Execution::Stream(rows) => rows,
            other => panic!("{sql}: {other:?}"),
        }
    };
    let (mut gone, mut told) = (0, 0);
    for node in 0..nodes.nodes.len() {
        all_go(&nodes);
        let mut stream = start(node, OVER_LARGE);
        let mut found = 0;
        while let Some(batch) = stream.next_blocking() {
            found += batch.unwrap().num_rows();
        }
        assert_eq!(found, 1, "node {node}");
        gone += nodes.shared.gone().len();

        all_go(&nodes);
        // The rows of the large brick come last, behind some that are sent before.
        let mut stream = start(node, "SELECT likes, note FROM facts ORDER BY likes");
        let mut batches = std::iter::from_fn(|| stream.next_blocking());
        assert!(batches.next().is_some_and(|first| first.is_ok()), "node {node}");
        if let Some(Err(error)) = batches.find(Result::is_err) {
            assert_eq!(error.state, SqlState::CannotConnectNow, "{error}");
            assert!(error.detail.unwrap().starts_with("Rows of the answer have been sent"));
            told += 1;
        }
    }
    assert_eq!(
        (gone, told),
        (3, 3),
        "nodes gone before the first row, statements that have failed behind some"
    );
    nodes.assert_nothing_is_open();
}

/// Break: give `run_piece` what is there by now.
#[test]
fn pieces_see_the_snapshot_of_their_statement() {
    let nodes = with_pieces();
    let mut reader = nodes.session(0);
    let sql = "SELECT count(*), max(likes) FROM facts";
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    assert_eq!(rows(&mut reader, sql), ["6000 5999"]);
    nodes
        .session(1)
        .execute("INSERT INTO facts SELECT g, 'a', 7000, 'new' FROM generate_series(0, 99) g")
        .unwrap();
    assert_eq!(rows(&mut reader, sql), ["6000 5999"]);
    reader.execute("COMMIT").unwrap();
    assert_eq!(rows(&mut reader, sql), ["6100 7000"]);
}

/// What a row of another node makes fail is told as if it were here. Break: take the answer up to there for the whole.
#[test]
fn errors_of_pieces_are_those_of_the_statement() {
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    for row in [0, 1_001, 2_002, 3_003, 4_004, 5_005] {
        refused(
            &mut session,
            &format!("SELECT sum(1 / (likes - {row})) FROM facts"),
            SqlState::DivisionByZero,
        );
        refused(
            &mut session,
            &format!("SELECT likes FROM facts WHERE 1 / (likes - {row}) > 5"),
            SqlState::DivisionByZero,
        );
        let guarded = format!("SELECT count(*) FROM facts WHERE likes <> {row} AND 1 / (likes - {row}) > 5");
        assert_eq!(rows(&mut session, &guarded), ["0"], "conditions guard each other there too");
    }
    nodes.assert_nothing_is_open();
}

/// Functions of a piece have the memory of what runs, and not that of constants. Break: leave out `while_running`.
#[test]
fn functions_of_pieces_may_make_much() {
    let nodes = with_pieces();
    let sql = "SELECT sum(length(repeat(region, 1000))), count(*) FROM facts";
    assert_eq!(rows(&mut nodes.session(0), sql), ["6000000 6000"]);
    assert!(!nodes.shared.take_pieces().0.is_empty(), "repeat is the same everywhere");
}

/// Break: take the bricks below the pieces for all in `conditions_of`.
#[test]
fn deletes_find_the_bricks_of_all_nodes() {
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    assert_eq!(count(&mut session, "DELETE FROM facts WHERE day < 30"), 1_800);
    assert_eq!(rows(&mut session, "SELECT count(*), min(day) FROM facts"), ["4200 30"]);
}

/// Break: have `fmt_as` tell nothing of the nodes.
#[test]
fn explain_says_who_reads_how_many_bricks() {
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    let sql = "SELECT region, count(*) FROM facts WHERE likes > 10 GROUP BY region";
    let plan = rows(&mut session, &format!("EXPLAIN {sql}")).join("\n");
    for part in ["SpreadPieces: table=", "here=", ", node 2=", ", node 3=", ", node 4=", "mode=Final"] {
        assert!(plan.contains(part), "no {part} in\n{plan}");
    }
    let plan = rows(&mut session, &format!("EXPLAIN ANALYZE {sql}")).join("\n");
    for part in ["node_2_rows=", "node_2_bytes=", "node_4_bytes="] {
        assert!(plan.contains(part), "no {part} in\n{plan}");
    }
    session.execute("SET coeval.spread_pieces = off").unwrap();
    let plan = rows(&mut session, &format!("EXPLAIN {sql}")).join("\n");
    assert!(!plan.contains("SpreadPieces"), "{plan}");
    session.execute("RESET coeval.spread_pieces").unwrap();
    // A value of the session's alone is nobody else's business.
    let plan = rows(&mut session, "EXPLAIN SELECT count(*) FROM facts WHERE random() < 2").join("\n");
    assert!(!plan.contains("SpreadPieces"), "{plan}");
}

/// Who has enough rows asks for no more. Break: have the piece of a dropped stream go on.
#[test]
fn nothing_goes_on_when_nobody_listens() {
    let nodes = with_pieces();
    let mut session = nodes.session(0);
    assert_eq!(rows(&mut session, "SELECT likes FROM facts WHERE likes >= 0 LIMIT 3").len(), 3);
    nodes.assert_nothing_is_open();
}
