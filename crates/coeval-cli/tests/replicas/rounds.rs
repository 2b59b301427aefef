// SPDX-License-Identifier: Apache-2.0
//! Rounds of kill -9 and of primaries that are stopped like machines without power, under load: promotions, and former primaries
//! that come back. What was acknowledged is on whoever is the primary.

use super::machines::{Machines, NAMES};
use super::*;
use std::sync::atomic::AtomicI64;
use tokio_postgres::config::TargetSessionAttrs;

/// Commits between rounds.
const COMMITS: i64 = 200;

/// Clients that write.
const CLIENTS: usize = 3;

/// A client that hears nothing for so long looks for another primary.
const CLIENT_PATIENCE: Duration = Duration::from_secs(2);

/// Clients that insert numbers one after the other, wherever there is a primary.
struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<[AtomicI64; CLIENTS]>,
    clients: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn begin(ports: [u16; 3]) -> Self {
        let (stop, acknowledged) =
            (Arc::new(AtomicBool::new(false)), Arc::new([const { AtomicI64::new(0) }; CLIENTS]));
        let clients = (0..CLIENTS)
            .map(|client| {
                let (stop, acknowledged) = (Arc::clone(&stop), Arc::clone(&acknowledged));
                std::thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        // Why it ended does not matter: another primary is looked for.
                        let _ = runtime.block_on(insert(client, ports, &stop, &acknowledged[client]));
                    }
                })
            })
            .collect();
        Self { stop, acknowledged, clients }
    }

    /// Everything that was acknowledged before now is there.
    fn check(&self, primary: &Sql, round: usize) {
        for (client, acknowledged) in self.acknowledged.iter().enumerate() {
            let wanted = acknowledged.load(Ordering::SeqCst);
            let query = format!("SELECT count(*) FROM written WHERE client = {client} AND n <= {wanted}");
            let found = primary.value(&query).unwrap().unwrap();
            assert_eq!(found, wanted.to_string(), "client {client} in round {round}");
        }
    }

    /// Waits until so many more are acknowledged.
    fn until_more(&self, commits: i64) {
        let acknowledged = || self.acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).sum::<i64>();
        let (begun, wanted) = (Instant::now(), acknowledged() + commits);
        while acknowledged() < wanted {
            assert!(begun.elapsed() < PATIENCE, "commits are not acknowledged");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(self) -> i64 {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().for_each(|client| client.join().unwrap());
        self.acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).sum()
    }
}

/// Inserts over one connection, until it ends.
async fn insert(
    client: usize,
    ports: [u16; 3],
    stop: &AtomicBool,
    acknowledged: &AtomicI64,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut config = Config::new();
    for port in ports {
        config.host("127.0.0.1").port(port);
    }
    config.user("coeval").dbname("coeval").target_session_attrs(TargetSessionAttrs::ReadWrite);
    let (sql, connection) = match tokio::time::timeout(CLIENT_PATIENCE, config.connect(NoTls)).await {
        Ok(Ok(connected)) => connected,
        _ => {
            tokio::time::sleep(Duration::from_millis(20)).await;
            return Ok(());
        }
    };
    tokio::spawn(async move { drop(connection.await) });
    while !stop.load(Ordering::Relaxed) {
        let n = acknowledged.load(Ordering::SeqCst) + 1;
        // The one before may be there without having been acknowledged.
        let text = format!("INSERT INTO written VALUES ({client}, {n}) ON CONFLICT DO NOTHING");
        tokio::time::timeout(CLIENT_PATIENCE, sql.batch_execute(&text)).await??;
        acknowledged.store(n, Ordering::SeqCst);
    }
    Ok(())
}

/// Has one of these become the primary, whichever has all that the others have.
fn promote_one_of(machines: &Machines, candidates: &[usize]) -> usize {
    let begun = Instant::now();
    loop {
        for candidate in candidates {
            let Ok(sql) = Sql::open_as(machines.ports[*candidate], "coeval", None) else { continue };
            match sql.value("SELECT pg_promote()") {
                Ok(_) => {
                    until_writable(machines.ports[*candidate]);
                    return *candidate;
                }
                Err(error) => {
                    let said = format!("{error:?}");
                    assert!(begun.elapsed() < PATIENCE, "{} is not promoted: {said}", NAMES[*candidate]);
                }
            }
        }
        assert!(begun.elapsed() < PATIENCE, "nobody is promoted");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn signal(server: &Server, signal: &str) {
    let pid = server.process.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
}

/// Whether the log does not begin at its very beginning.
fn was_copied(dir: &Path) -> bool {
    let names = std::fs::read_dir(dir.join("log")).unwrap().map(|entry| entry.unwrap().file_name());
    let is_first = |name: &str| name.trim_end_matches(".log").bytes().all(|byte| byte == b'0');
    !names.into_iter().any(|name| is_first(&name.to_string_lossy()))
}

/// A new primary that was copied itself has the log from there on alone (`wal_keep_size` is more than is written here): who lacks
/// earlier log says so, and begins with a copy, as an operator sees to.
fn copy_anew_who_has_stopped(machines: &mut Machines, primary: usize) {
    for replica in [(primary + 1) % 3, (primary + 2) % 3] {
        let has_stopped = machines.server(replica).said.lock().unwrap().contains("does not follow any more");
        if has_stopped {
            assert!(was_copied(&machines.dir(primary)), "{}", machines.server(replica).said.lock().unwrap());
            machines.kill(replica);
            std::fs::remove_dir_all(machines.dir(replica)).unwrap();
            machines.follow(replica, primary);
        }
    }
}

/// Kills, stops and promotes once; the new primary.
fn go_through(machines: &mut Machines, load: &Load, primary: usize, round: usize) -> usize {
    // In turn one and the other of the replicas is the first to be asked, or the one that dies, too.
    let replicas = [1, 2].map(|step| (primary + if round.is_multiple_of(2) { step } else { 3 - step }) % 3);
    match round % 4 {
        0 => {
            machines.kill(primary);
            let new = promote_one_of(machines, &replicas);
            machines.follow(primary, new);
            new
        }
        1 => {
            machines.kill(primary);
            machines.kill(replicas[1]);
            machines.follow(replicas[1], primary);
            let new = promote_one_of(machines, &replicas);
            machines.follow(primary, new);
            new
        }
        // It does not answer, then it runs on as if nothing had been.
        2 => {
            signal(machines.server(primary), "-STOP");
            let new = promote_one_of(machines, &replicas);
            signal(machines.server(primary), "-CONT");
            machines.server(primary).until_said("takes no commits any more");
            machines.servers[primary].take().unwrap().stop();
            machines.follow(primary, new);
            new
        }
        _ => {
            machines.kill(replicas[0]);
            load.until_more(COMMITS / 2);
            machines.kill(primary);
            machines.serve(primary, &[]);
            machines.follow(replicas[0], primary);
            until_writable(machines.ports[primary]);
            primary
        }
    }
}

/// `COEVAL_REPLICA_FAILOVERS` says how many rounds.
#[test]
fn rounds_of_kills_promotions_and_returns_lose_nothing() {
    let rounds = std::env::var("COEVAL_REPLICA_FAILOVERS").ok().map_or(4, |rounds| rounds.parse().unwrap());
    let mut machines = Machines::start();
    machines.sql(0).run("CREATE TABLE written (client int, n int, PRIMARY KEY (client, n))").unwrap();
    let load = Load::begin(machines.ports);
    let mut primary = 0;
    for round in 0..rounds {
        load.until_more(COMMITS);
        copy_anew_who_has_stopped(&mut machines, primary);
        primary = go_through(&mut machines, &load, primary, round);
        load.check(&machines.sql(primary), round);
    }
    load.until_more(COMMITS);
    copy_anew_who_has_stopped(&mut machines, primary);
    let acknowledged = load.end();
    println!("{rounds} rounds, {acknowledged} acknowledged");
    assert!(acknowledged > COMMITS * i64::try_from(rounds).unwrap(), "too little has happened");
    let sum = "SELECT count(*) || ' ' || sum(n) FROM written";
    let sql = machines.sql(primary);
    let wanted = sql.value(sum).unwrap().unwrap();
    for replica in [(primary + 1) % 3, (primary + 2) % 3] {
        until_it_reads(&machines.sql(replica), sum, &wanted);
    }
    drop(sql);
    for machine in 0..3 {
        machines.servers[machine].take().unwrap().stop();
        check(&machines.dir(machine));
    }
}
