// SPDX-License-Identifier: Apache-2.0
//! Prepared statements of the protocol and of PREPARE are the same; settings of the startup packet are what RESET
//! goes back to.
#![allow(clippy::unwrap_used)]

mod support;

use support::{Running, bind, close, describe, error_code, execute, kinds, parse, sync, unnamed};

#[test]
fn sql_runs_and_forgets_what_the_protocol_has_prepared() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.send_all(&[parse("s", "SELECT $1::int + 1", &[]), parse("nothing", " -- nothing", &[]), sync()]);
    assert_eq!(kinds(&raw.until_ready()), "11Z");
    assert_eq!(raw.run("EXECUTE s (41)")[1].texts(), ["42"]);
    assert_eq!(error_code(&raw.run("PREPARE s AS SELECT 1")), "42P05");
    assert_eq!(raw.run("DEALLOCATE s")[0].tag(), "DEALLOCATE");
    raw.send_all(&[bind("", "s", &[Some("1")]), sync()]);
    assert_eq!(error_code(&raw.until_ready()), "26000");
    assert_eq!(raw.run("DEALLOCATE nothing")[0].tag(), "DEALLOCATE");
    for forget in ["DEALLOCATE ALL", "DISCARD ALL"] {
        raw.send_all(&[parse("s", "SELECT 1", &[]), sync()]);
        assert_eq!(kinds(&raw.until_ready()), "1Z", "behind the one before {forget}");
        assert_eq!(raw.run(forget)[0].tag(), forget);
        raw.send_all(&[describe('S', "s"), sync()]);
        assert_eq!(error_code(&raw.until_ready()), "26000", "{forget}");
    }
}

#[test]
fn the_protocol_runs_and_forgets_what_sql_has_prepared() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("PREPARE p (int) AS SELECT $1 + 1 AS n");
    raw.send_all(&[describe('S', "p"), bind("", "p", &[Some("41")]), execute("", 0), sync()]);
    let messages = raw.until_ready();
    assert_eq!(kinds(&messages), "tT2DCZ");
    assert_eq!(
        (&messages[0].body[..], messages[3].texts()),
        (&[0, 1, 0, 0, 0, 23][..], vec!["42".to_owned()])
    );
    raw.send_all(&[parse("p", "SELECT 1", &[]), sync()]);
    assert_eq!(error_code(&raw.until_ready()), "42P05");
    // Another one of the same name is another one.
    raw.run("DEALLOCATE p");
    raw.run("PREPARE p AS SELECT 'other'");
    raw.send_all(&[bind("", "p", &[]), execute("", 0), sync()]);
    assert_eq!(raw.until_ready()[1].texts(), ["other"]);
    raw.send_all(&[close('S', "p"), sync()]);
    assert_eq!(kinds(&raw.until_ready()), "3Z");
    assert_eq!(error_code(&raw.run("EXECUTE p")), "26000");
    // A statement in quotes is no keyword.
    raw.run("PREPARE \"all\" AS SELECT 1");
    raw.run("PREPARE q AS SELECT 2");
    assert_eq!(raw.run("DEALLOCATE \"all\"")[0].tag(), "DEALLOCATE");
    assert_eq!(raw.run("EXECUTE q")[1].texts(), ["2"]);
}

#[test]
fn reset_goes_back_to_what_the_client_asked_for_at_the_beginning() {
    let server = Running::new();
    let mut raw = server.unopened();
    raw.send_startup(&[
        ("user", "tester"),
        ("TimeZone", "Europe/Berlin"),
        ("options", "-c statement_timeout=5s -c my.own=a"),
    ]);
    raw.until_ready();
    let settings = ["TimeZone", "statement_timeout", "my.own"];
    let shown =
        |raw: &mut support::Raw| settings.map(|name| raw.run(&format!("SHOW {name}"))[1].texts().remove(0));
    let initial = ["Europe/Berlin", "5s", "a"];
    for reset in ["RESET ALL", "DISCARD ALL", "RESET TimeZone; RESET statement_timeout; RESET my.own"] {
        raw.run("SET TimeZone = 'UTC'; SET statement_timeout = '7s'; SET my.own = 'b'; SET lock_timeout = 1");
        assert_eq!(shown(&mut raw), ["UTC", "7s", "b"]);
        let messages = raw.run(reset);
        assert!(messages.iter().any(|message| message.body == b"TimeZone\0Europe/Berlin\0"), "{messages:?}");
        assert_eq!(shown(&mut raw), initial, "{reset}");
    }
    raw.run("SET TimeZone = 'UTC'");
    raw.run("SET TimeZone TO DEFAULT");
    assert_eq!(shown(&mut raw), initial);
    // What was not asked for goes back to its default, and who the client is stays.
    raw.run("RESET ALL");
    assert_eq!(raw.run("SHOW lock_timeout")[1].texts(), ["0"]);
    assert_eq!(raw.run("SELECT current_user")[1].texts(), ["tester"]);
}

#[test]
fn numbers_of_objects_are_parameters_in_binary_form_too() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY)");
    let number: u32 = raw.run("SELECT oid FROM pg_class WHERE relname = 't'")[1].texts()[0].parse().unwrap();
    for oid in [26, 2205] {
        raw.send_all(&[
            parse("", "SELECT relname FROM pg_class WHERE oid = $1", &[oid]),
            support::bind_as("", "", &[Some(&number.to_be_bytes())], 1, 0),
            execute("", 0),
            sync(),
        ]);
        let messages = raw.until_ready();
        assert_eq!(kinds(&messages), "12DCZ", "{oid}: {messages:?}");
        assert_eq!(messages[2].texts(), ["t"]);
    }
    raw.send_all(&[
        parse("", "SELECT relname FROM pg_class WHERE oid = $1", &[26]),
        support::bind_as("", "", &[Some(&[1, 2])], 1, 0),
        sync(),
    ]);
    assert_eq!(error_code(&raw.until_ready()), "22P03");
    raw.send_all(&[unnamed("SELECT 1"), sync()]);
    assert_eq!(kinds(&raw.until_ready()), "12DCZ");
}
