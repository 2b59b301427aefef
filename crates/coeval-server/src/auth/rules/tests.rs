// SPDX-License-Identifier: Apache-2.0
//! Tests of the rules: which connection meets which line, and which lines are none.

use super::*;

fn caller<'a>(user: &'a str, database: &'a str, address: &str, encryption: Encryption) -> Caller<'a> {
    let (purpose, address) = (Purpose::Session, address.parse().unwrap());
    Caller { purpose, user, database, address, encryption, certificate: None }
}

/// Ann is of the staff.
fn is_member(name: &str, role: &str) -> bool {
    (name, role) == ("ann", "staff")
}

#[test]
fn the_first_rule_that_fits_decides() {
    let rules = Rules::parse(
        "# who comes from where\n\
         hostssl all      all         10.0.0.0/8                trust\n\
         \n\
         host    db,other \"ann\",bob 192.168.1.0 255.255.255.0 reject   # these two not\n\
         hostnossl sameuser all       192.168.0.0/16            scram-sha-256\n\
         host    samerole +staff      2001:db8::/32             md5\n\
         host    \"all\"  all         0.0.0.0/0                 trust\n",
    )
    .unwrap();
    assert_eq!(rules.lines_for_tls().collect::<Vec<_>>(), [2]);
    let (plain, tls) = (Encryption::None, Encryption::Tls);
    let cases = [
        (caller("ann", "db", "10.1.2.3", tls), Some(Method::Trust)),
        (caller("ann", "db", "10.1.2.3", plain), None),
        (caller("ann", "db", "11.1.2.3", tls), None),
        (caller("ann", "db", "192.168.1.7", plain), Some(Method::Reject)),
        (caller("bob", "other", "::ffff:192.168.1.7", tls), Some(Method::Reject)),
        (caller("ann", "third", "192.168.1.7", plain), None),
        (caller("ann", "db", "192.168.2.7", plain), None),
        (caller("bob", "bob", "192.168.2.7", plain), Some(Method::Password)),
        (caller("bob", "bob", "192.168.2.7", tls), None),
        (caller("ann", "staff", "2001:db8::1", plain), Some(Method::Password)),
        (caller("staff", "staff", "2001:db8::1", plain), Some(Method::Password)),
        (caller("bob", "staff", "2001:db8::1", plain), None),
        (caller("ann", "bob", "2001:db8::1", plain), None),
        (caller("ann", "staff", "2001:db9::1", plain), None),
        (caller("bob", "all", "8.8.8.8", plain), Some(Method::Trust)),
    ];
    for (caller, expected) in cases {
        let what = (caller.user, caller.database, caller.address, caller.encryption);
        let requirement = rules.requirement(&caller, &is_member);
        assert_eq!(requirement.map(|requirement| requirement.method), expected, "{what:?}");
    }
    let nobody = Rules::parse("").unwrap();
    assert_eq!(nobody.requirement(&caller("ann", "db", "10.1.2.3", tls), &is_member), None);
}

#[test]
fn a_rule_can_demand_a_certificate_beside_its_method() {
    let rules = Rules::parse(
        "hostssl all ann  all cert\n\
         hostssl all bob  all trust \"clientcert=verify-full\"\n\
         hostssl all cora all cert  clientcert=verify-full\n\
         hostssl all dan  all md5   clientcert=verify-full clientcert=verify-ca\n\
         hostssl all all  all trust\n",
    )
    .unwrap();
    assert_eq!(rules.lines_for_client_certificates().collect::<Vec<_>>(), [1, 2, 3, 4]);
    for (user, method, certificate) in [
        ("ann", Method::Certificate, CertificateRule::OfUser),
        ("bob", Method::Trust, CertificateRule::OfUser),
        ("cora", Method::Certificate, CertificateRule::OfUser),
        ("dan", Method::Password, CertificateRule::Verified),
        ("eve", Method::Trust, CertificateRule::NotNeeded),
    ] {
        let caller = caller(user, "db", "10.1.2.3", Encryption::Tls);
        let expected = Requirement { method, certificate };
        assert_eq!(rules.requirement(&caller, &is_member), Some(expected), "{user}");
    }
}

#[test]
fn a_line_that_is_no_rule_is_named_with_its_number() {
    let cases = [
        ("local all all trust", "no Unix socket"),
        ("local all all all trust", "no Unix socket"),
        ("hostgssenc all all all trust", "GSSAPI"),
        ("include other.conf", "not included"),
        ("door all all all trust", "hostnossl"),
        ("host all all all", "no method"),
        ("host all all", "a rule has a kind"),
        ("host all all 10.0.0.0/33 trust", "no address"),
        ("host all all 10.0.0/8 trust", "no address"),
        ("host all all 10.0.0.0 trust", "no mask"),
        ("host all all 10.0.0.0 ffff:: trust", "no mask"),
        ("host all all 10.0.0.0", "no address"),
        ("host all all example.org trust", "no address"),
        ("host all all samenet trust", "no address"),
        ("host all all 10.0.0.0/8,11.0.0.0/8 trust", "one address"),
        ("host all all all ident", "no method \"ident\""),
        ("host all all all cert", "only supported on hostssl"),
        ("hostnossl all all all cert", "only supported on hostssl"),
        ("host all all all trust clientcert=verify-full", "hostssl rules"),
        ("hostssl all all all trust clientcert=1", "invalid value for clientcert"),
        ("hostssl all all all trust clientcert=no-verify", "invalid value for clientcert"),
        ("hostssl all all all trust clientcert", "is no option"),
        ("hostssl all all all cert clientcert=verify-ca", "only accepts verify-full"),
        ("hostssl all all all cert map=robots", "no option \"map\""),
        ("hostssl all all all cert clientcert=verify-full,verify-ca", "one value"),
        ("host @file all all trust", "not read from files"),
        ("host all /^a all trust", "no pattern"),
        ("host all \"\" all trust", "empty"),
        ("host all \"ann all trust", "not closed"),
        ("host all ann, ,bob all trust", "nothing before"),
        ("host all all all trust,", "nothing behind"),
    ];
    for (line, expected) in cases {
        let error = Rules::parse(&format!("host all all all reject\n{line}\n")).unwrap_err();
        assert_eq!(error.line, 2, "{line}");
        assert!(error.message.contains(expected), "{line}: {error}");
    }
}
