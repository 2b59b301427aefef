// SPDX-License-Identifier: Apache-2.0
//! A primary is lost with commits that no replica had, and comes back: it is cut back and follows, without a copy; or it is copied
//! anew, where its checkpoint has them.

use super::*;

/// What the former primary alone has committed.
const LOST: &str = "nobody else has this";

/// Two directories whose histories have parted, and the server of the promoted one.
struct Parted {
    parent: tempfile::TempDir,
    former_dir: PathBuf,
    promoted: Server,
    sql: Sql,
}

impl Parted {
    /// The last of what the former primary does, alone, is `last`.
    fn begin(last: &str) -> Self {
        let (parent, former_dir, copy_dir) = directories();
        let primary = Server::start(&former_dir, 0, &[]);
        let sql = Sql::open(primary.port);
        sql.run(
            "CREATE TABLE items (id bigint PRIMARY KEY, amount bigint NOT NULL, word text);
             INSERT INTO items SELECT g, g * 7 % 1000, 'word ' || g FROM generate_series(1, 20000) g;
             CREATE SEQUENCE numbers; SELECT nextval('numbers')",
        )
        .unwrap();
        let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_of(&primary)]);
        wait_for(&Sql::open(replica.port), &sql);
        replica.stop();
        sql.run(&format!("INSERT INTO items VALUES (-1, 0, '{LOST}'); SELECT nextval('numbers')")).unwrap();
        sql.run("INSERT INTO items SELECT g, 1, 'loaded' FROM generate_series(100001, 110000) g").unwrap();
        sql.run("CREATE TABLE lost (n int)").unwrap();
        sql.run(last).unwrap();
        drop(sql);
        primary.kill();
        run(&["promote", copy_dir.to_str().unwrap()]);
        let promoted = Server::start(&copy_dir, 0, &[]);
        let sql = until_writable(promoted.port);
        sql.run("INSERT INTO items VALUES (-1, 5, 'in the new history'); SELECT nextval('numbers')").unwrap();
        Self { parent, former_dir, promoted, sql }
    }

    /// Starts the former primary as a replica of the promoted one, which it has to follow.
    fn come_back(&self) -> Server {
        let former = Server::start(&self.former_dir, 0, &["--replica-of", &replica_of(&self.promoted)]);
        let copy = Sql::open(former.port);
        until_it_reads(&copy, SUM, &self.sql.value(SUM).unwrap().unwrap());
        let query = "SELECT word FROM items WHERE id = -1";
        assert_eq!(copy.value(query).unwrap().unwrap(), "in the new history");
        assert_eq!(copy.refused("SELECT * FROM lost"), "42P01");
        let last: i64 = self.sql.value("SELECT max(id) FROM items").unwrap().unwrap().parse().unwrap();
        let load = format!("generate_series({}, {}) g", last + 1, last + 6_000);
        self.sql.run(&format!("INSERT INTO items SELECT g, 2, 'later' FROM {load}")).unwrap();
        wait_for(&copy, &self.sql);
        let (is_equal, said) = compared(&former, &self.promoted);
        assert!(is_equal, "{said}");
        former
    }

    /// The directories beside the two that were served.
    fn put_aside(&self) -> Vec<PathBuf> {
        let beside = std::fs::read_dir(self.parent.path()).unwrap().map(|entry| entry.unwrap().path());
        beside.filter(|path| path.to_string_lossy().contains(".term-")).collect()
    }
}

fn said(server: &Server) -> String {
    server.said.lock().unwrap().clone()
}

/// Whether some file in the directory has this text.
fn is_in_files_of(dir: &Path, text: &str) -> bool {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let mut found = files.map(|file| file.windows(text.len()).any(|bytes| bytes == text.as_bytes()));
    found.any(|is_here| is_here)
}

#[test]
fn a_former_primary_is_cut_back_and_follows_without_a_copy() {
    let parted = Parted::begin("SELECT 1");
    let former = parted.come_back();
    let begun = said(&former);
    assert!(begun.contains("its log is cut back to LSN ") && !begun.contains("Copying"), "{begun}");
    assert!(parted.put_aside().is_empty(), "{begun}");
    let rewound: Vec<PathBuf> = std::fs::read_dir(parted.former_dir.join("rewound"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let [aside] = rewound.as_slice() else { panic!("{rewound:?}") };
    let name = aside.file_name().unwrap().to_str().unwrap();
    assert!(begun.contains(name) && name.starts_with("term-1."), "{begun}");
    assert!(is_in_files_of(aside, LOST), "the lost row lies aside");
    let is_load = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().path().extension().is_some_and(|extension| extension == "arrow")
    };
    assert!(std::fs::read_dir(aside).unwrap().any(is_load), "so do the lost rows of the load");

    // It goes on as any other replica does, and is cut back no more.
    former.stop();
    let former = parted.come_back();
    let begun = said(&former);
    assert!(!begun.contains("cut back") && !begun.contains("Copying"), "{begun}");
    former.stop();
    check(&parted.former_dir);
    parted.promoted.stop();
}

#[test]
fn a_former_primary_whose_checkpoint_has_what_is_lost_is_put_aside_and_copied() {
    let parted = Parted::begin("CHECKPOINT");
    // Written while it is a primary. A copy has no rules: the next start would have let in everybody.
    let rules = "host all coeval 127.0.0.1/32 trust\n";
    std::fs::write(parted.former_dir.join("pg_hba.conf"), rules).unwrap();
    let secret = std::fs::read(parted.former_dir.join("mock-secret")).unwrap();
    let former = parted.come_back();
    let begun = said(&former);
    assert!(begun.contains("cannot go on as a replica: the histories part at LSN "), "{begun}");
    assert!(
        begun.contains("its checkpoint contains the log up to LSN ") && begun.contains("Copying"),
        "{begun}"
    );
    assert!(!parted.former_dir.join("rewound").exists());
    let aside = parted.put_aside();
    let [aside] = aside.as_slice() else { panic!("{aside:?}") };
    let aside = aside.to_str().unwrap();
    assert!(run(&["sql", aside, "-c", "SELECT word FROM items WHERE id = -1"]).contains(LOST));
    former.stop();
    assert_eq!(std::fs::read_to_string(parted.former_dir.join("pg_hba.conf")).unwrap(), rules);
    assert_eq!(std::fs::read(parted.former_dir.join("mock-secret")).unwrap(), secret);
    parted.promoted.stop();
}

/// The program ended while the log was being cut: nobody opens the directory but who goes on with that, and that needs the mark.
#[test]
fn a_directory_whose_log_is_being_cut_is_opened_by_nobody() {
    let parted = Parted::begin("SELECT 1");
    parted.come_back().stop();
    std::fs::write(parted.former_dir.join("rewinding"), b"damaged").unwrap();
    let dir = parted.former_dir.to_str().unwrap();
    let of = replica_of(&parted.promoted);
    let follow = ["serve", dir, "--listen", "127.0.0.1:0", "--replica-of", &of];
    for (arguments, what) in [
        (&["sql", dir, "-c", "SELECT 1"][..], "is being cut back"),
        (&["promote", dir][..], "is being cut back"),
        (&["check", dir][..], "is being cut back"),
        (&follow[..], "where the log is to be cut"),
    ] {
        let refused = bounded::output(Command::new(PROGRAM).args(arguments));
        let said = [refused.stdout, refused.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(!refused.status.success() && said.contains(what), "{arguments:?}: {said}");
    }
    parted.promoted.stop();
}
