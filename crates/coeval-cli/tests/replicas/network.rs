// SPDX-License-Identifier: Apache-2.0
//! Connections between a primary and its replica that are cut within messages, and that stall and go on. Bounds of a fraction of a
//! second are met or not: `tests/side-by-side` runs these tests alone.

use super::*;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::AtomicU32;

/// What a proxy does with bytes.
pub(super) const FORWARDING: u32 = 0;
/// They stay where they are.
pub(super) const STALLED: u32 = 1;

/// Stands between a replica and its primary.
pub(super) struct Proxy {
    pub(super) port: u16,
    state: Arc<AtomicU32>,
    /// Of all connections, both sides.
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (state, sockets) = (Arc::new(AtomicU32::new(FORWARDING)), Arc::new(Mutex::new(Vec::new())));
        let proxy = Self { port, state: Arc::clone(&state), sockets: Arc::clone(&sockets) };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                // Those that were there when it stalled stay so, whatever becomes of later ones.
                let ends =
                    [(client.try_clone(), server.try_clone()), (server.try_clone(), client.try_clone())];
                sockets.lock().unwrap().extend([client, server]);
                for (from, into) in ends {
                    let state = Arc::clone(&state);
                    std::thread::spawn(move || forward(from.unwrap(), into.unwrap(), &state));
                }
            }
        });
        proxy
    }

    pub(super) fn set(&self, state: u32) {
        self.state.store(state, Ordering::SeqCst);
    }

    /// Ends all connections, wherever they are in a message.
    fn cut(&self) {
        for socket in self.sockets.lock().unwrap().drain(..) {
            // It may have ended.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Forwards a few bytes at a time, so that a cut comes within a message.
fn forward(mut from: TcpStream, mut into: TcpStream, state: &AtomicU32) {
    let mut bytes = [0; 1_000];
    from.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    loop {
        if state.load(Ordering::SeqCst) == STALLED {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        match from.read(&mut bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Ok(read) if read > 0 && into.write_all(&bytes[..read]).is_ok() => {}
            _ => break,
        }
    }
    let _ = into.shutdown(Shutdown::Both);
}

/// Rows that are committed meanwhile.
pub(super) fn insert(sql: &Sql, range: std::ops::Range<i32>) {
    for n in range {
        sql.run(&format!("INSERT INTO t VALUES ({n}, repeat('x', {}))", n % 3_000)).unwrap();
    }
}

pub(super) const SUM: &str = "SELECT count(*) || ' ' || sum(n) || ' ' || sum(length(filling)) FROM t";

/// A primary with a table, a proxy before it, and where a replica may lie.
pub(super) fn behind_a_proxy() -> (tempfile::TempDir, Server, Sql, Proxy, PathBuf) {
    let (parent, primary_dir, copy_dir) = directories();
    let primary = Server::start(&primary_dir, 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE t (n int PRIMARY KEY, filling text)").unwrap();
    let proxy = Proxy::start(primary.port);
    (parent, primary, sql, proxy, copy_dir)
}

#[test]
fn connections_are_cut_and_stall_and_nothing_is_missing_or_there_twice() {
    let (_parent, primary, sql, proxy, copy_dir) = behind_a_proxy();
    let of = format!("host=127.0.0.1,port={},user=coeval,application_name=copy", proxy.port);
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &of]);
    let copy = Sql::open(replica.port);
    for round in 0..20 {
        insert(&sql, round * 50..round * 50 + 50);
        proxy.cut();
        if round % 4 == 0 {
            until_it_reads(&copy, "SELECT count(*) FROM t", &((round + 1) * 50).to_string());
        }
    }
    until_it_reads(&copy, SUM, &sql.value(SUM).unwrap().unwrap());

    // A commit waits for a connection that stalls; the wait can be ended, and it is seen once the replica has it.
    sql.run("SET synchronous_standby_names = 'copy'; INSERT INTO t VALUES (-1, '')").unwrap();
    proxy.set(STALLED);
    sql.run("SET statement_timeout = '300ms'").unwrap();
    assert_eq!(sql.refused("INSERT INTO t VALUES (-2, '')"), "08007");
    sql.run("SET statement_timeout = 0").unwrap();
    let seen = "SELECT count(*) FROM t WHERE n = -2";
    assert_eq!(sql.value(seen).unwrap().unwrap(), "0", "no replica has it");
    proxy.set(FORWARDING);
    until_it_reads(&copy, seen, "1");
    until_it_reads(&sql, seen, "1");
    sql.run("INSERT INTO t VALUES (-3, '')").unwrap();
    until_it_reads(&copy, SUM, &sql.value(SUM).unwrap().unwrap());
    drop((sql, copy));
    replica.stop();
    primary.stop();
    check(&copy_dir);
}

/// What a query gives whose replica has to meet a bound for it. On a busy machine the primary may answer too late, but not each time; where
/// nobody is asked the refusal comes at once.
fn within_the_bound(copy: &Sql, query: &str) -> String {
    for _ in 0..5 {
        let begun = Instant::now();
        match copy.value(query) {
            Ok(found) => return found.unwrap(),
            Err(error) => {
                assert_eq!(error.code().unwrap().code(), "55000", "{error}");
                // So long the answer is waited for.
                assert!(begun.elapsed() >= Duration::from_secs(2), "{error} after {:?}", begun.elapsed());
            }
        }
    }
    panic!("the primary never answers in time");
}

/// A primary without commits says once a second that nothing is new. A replica that had everything did not meet a bound below that.
#[test]
fn an_idle_replica_meets_a_bound_below_a_second_and_one_that_hears_nothing_does_not() {
    let (_parent, _primary, sql, proxy, copy_dir) = behind_a_proxy();
    let of = format!("host=127.0.0.1,port={},user=coeval", proxy.port);
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &of]);
    insert(&sql, 0..3);
    let copy = Sql::open(replica.port);
    wait_for(&copy, &sql);
    let count = "SELECT count(*) FROM t";
    for isolation in ["serializable", "repeatable read"] {
        copy.run(&format!("SET default_transaction_isolation = '{isolation}'")).unwrap();
        copy.run("SET coeval.max_staleness = '250ms'").unwrap();
        for _ in 0..6 {
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(within_the_bound(&copy, count), "3", "{isolation}");
        }
        copy.run("SET coeval.max_staleness = 0").unwrap();
    }
    copy.run("SET coeval.max_staleness = '250ms'").unwrap();
    proxy.set(STALLED);
    // What was on its way may still have come.
    std::thread::sleep(Duration::from_millis(400));
    let begun = Instant::now();
    assert_eq!(copy.refused(count), "55000");
    // It is not asked for ever, and not at all once it has said nothing for long.
    assert!(begun.elapsed() < Duration::from_secs(30));
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(copy.refused(count), "55000");
    proxy.set(FORWARDING);
    until_it_reads(&copy, count, "3");
}

/// It passed for up to date as long as the replica that it follows was there, which itself heard of nothing new.
#[test]
fn a_replica_of_a_replica_knows_how_old_the_primarys_word_is() {
    let (parent, _primary, sql, proxy, middle_dir) = behind_a_proxy();
    let of = format!("host=127.0.0.1,port={},user=coeval", proxy.port);
    let middle = Server::start(&middle_dir, 0, &["--replica-of", &of]);
    let last = Server::start(&parent.path().join("last"), 0, &["--replica-of", &replica_of(&middle)]);
    insert(&sql, 0..3);
    let copy = Sql::open(last.port);
    wait_for(&copy, &sql);
    copy.run("SET coeval.max_staleness = '500ms'").unwrap();
    let count = "SELECT count(*) FROM t";
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(600));
        assert_eq!(within_the_bound(&copy, count), "3");
    }
    proxy.set(STALLED);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(copy.refused(count), "55000");
    proxy.set(FORWARDING);
    until_it_reads(&copy, count, "3");
}

/// Each replica's word is up to a second older than that of the one before, and the fourth passed for one whose primary is silent.
#[test]
fn the_last_replica_of_a_long_chain_meets_a_bound_as_the_first_does() {
    let (parent, primary_dir, _) = directories();
    let primary = Server::start(&primary_dir, 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE t (n int PRIMARY KEY, filling text)").unwrap();
    let mut chain = vec![primary];
    for name in ["first", "second", "third", "fourth"] {
        let of = replica_of(chain.last().unwrap());
        chain.push(Server::start(&parent.path().join(name), 0, &["--replica-of", &of]));
    }
    insert(&sql, 0..3);
    let copy = Sql::open(chain.last().unwrap().port);
    wait_for(&copy, &sql);
    copy.run("SET coeval.max_staleness = '250ms'").unwrap();
    for round in 0..8 {
        // Long enough for each word to have grown old by itself.
        std::thread::sleep(Duration::from_millis(1000 + 370 * (round % 3)));
        assert_eq!(within_the_bound(&copy, "SELECT count(*) FROM t"), "3", "{round}");
    }
}

/// Waits until a setting of a replica says so.
fn until_it_says(copy: &Sql, part: &str) {
    let begun = Instant::now();
    loop {
        let said = copy.value("SHOW coeval.snapshot_lag").unwrap().unwrap();
        if said.contains(part) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{said:?} says nothing of {part:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// It said how far it is behind, and not because of what.
#[test]
fn a_replica_says_what_holds_its_safe_snapshots_back() {
    let (_parent, primary, sql, proxy, copy_dir) = behind_a_proxy();
    let of = format!("host=127.0.0.1,port={},user=coeval,application_name=copy", proxy.port);
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &of]);
    let copy = Sql::open(replica.port);
    let says_nothing = |copy: &Sql| until_it_reads(copy, "SHOW coeval.snapshot_lag", "0 commits, 0 ms");
    says_nothing(&copy);

    copy.run("SELECT pg_wal_replay_pause()").unwrap();
    until_it_says(&copy, "held by pg_wal_replay_pause()");
    copy.run("SELECT pg_wal_replay_resume()").unwrap();
    says_nothing(&copy);

    let open = Sql::open(primary.port);
    open.run("BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO t VALUES (-1, '')").unwrap();
    insert(&sql, 0..3);
    until_it_says(&copy, "held by transactions at SERIALIZABLE on the primary");
    open.run("COMMIT").unwrap();
    says_nothing(&copy);

    sql.run("SET synchronous_standby_names = 'nobody'").unwrap();
    sql.run("SET statement_timeout = '300ms'").unwrap();
    assert_eq!(sql.refused("INSERT INTO t VALUES (-2, '')"), "08007");
    until_it_says(&copy, "held by commits that the primary has not published");
    sql.run("SET statement_timeout = 0; SET synchronous_standby_names = ''").unwrap();
    says_nothing(&copy);

    primary.kill();
    until_it_says(&copy, "held by the connection to the primary");
}
