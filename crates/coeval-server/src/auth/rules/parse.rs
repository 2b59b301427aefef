// SPDX-License-Identifier: Apache-2.0
//! Reading rules from their text. What PostgreSQL takes and we cannot do is an error that names the line: a rule that
//! was passed over would let somebody in whom it was to keep out.

use super::{AddressRule, CertificateRule, DatabaseRule, Family, Kind, Method, Requirement};
use super::{Rule, Rules, UserRule};
use std::net::IpAddr;

/// A line that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub(crate) struct RulesError {
    /// Its number, from 1.
    pub(crate) line: usize,
    /// What is wrong with it.
    pub(crate) message: String,
}

/// A word of a line. What stands in quotes is a name even where it reads like a keyword.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    is_quoted: bool,
}

impl Word {
    /// The keyword that it can be.
    fn keyword(&self) -> Option<&str> {
        (!self.is_quoted).then_some(self.text.as_str())
    }
}

impl Rules {
    /// Reads the text of a `pg_hba.conf`.
    ///
    /// # Errors
    /// The first line that is no rule, or one that asks for what there is not.
    pub(crate) fn parse(text: &str) -> Result<Self, RulesError> {
        let mut rules = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let fields = fields(line).and_then(|fields| match fields.is_empty() {
                true => Ok(None),
                false => rule(number, &fields).map(Some),
            });
            rules.extend(fields.map_err(|message| RulesError { line: number, message })?);
        }
        Ok(Self { rules })
    }
}

/// The fields of a line, each a list of words that commas divide.
fn fields(line: &str) -> Result<Vec<Vec<Word>>, String> {
    let mut fields: Vec<Vec<Word>> = Vec::new();
    let mut rest = line.trim_start();
    let mut goes_on = false;
    while !rest.is_empty() && !rest.starts_with('#') {
        let (word, behind) = word(rest)?;
        match fields.last_mut() {
            Some(field) if goes_on => field.push(word),
            Some(_) | None => fields.push(vec![word]),
        }
        rest = behind.trim_start();
        goes_on = rest.starts_with(',');
        if goes_on {
            rest = rest[1..].trim_start();
        }
    }
    if goes_on {
        return Err("a comma has nothing behind it".to_owned());
    }
    Ok(fields)
}

/// The word at the beginning, and what is behind it.
fn word(text: &str) -> Result<(Word, &str), String> {
    if let Some(quoted) = text.strip_prefix('"') {
        let (name, rest) = quoted.split_once('"').ok_or("a quote is not closed")?;
        return Ok((Word { text: name.to_owned(), is_quoted: true }, rest));
    }
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, ',' | '#' | '"')).unwrap_or(text.len());
    match end {
        0 => Err("a comma has nothing before it".to_owned()),
        _ => Ok((Word { text: text[..end].to_owned(), is_quoted: false }, &text[end..])),
    }
}

fn rule(line: usize, fields: &[Vec<Word>]) -> Result<Rule, String> {
    let [kind, databases, users, address, rest @ ..] = fields else {
        // What it is about is more telling than what it lacks.
        kind(&fields[0])?;
        return Err("a rule has a kind, databases, users, an address and a method".to_owned());
    };
    let kind = self::kind(kind)?;
    let (address, rest) = addresses(single(address, "address")?, rest)?;
    let (method, options) = rest.split_first().ok_or("the rule has no method")?;
    let method = self::method(single(method, "method")?)?;
    let certificate = certificate(kind, method, options)?;
    Ok(Rule {
        line,
        kind,
        databases: databases.iter().map(database).collect::<Result<_, _>>()?,
        users: users.iter().map(user).collect::<Result<_, _>>()?,
        address,
        requirement: Requirement { method, certificate },
    })
}

fn single<'f>(field: &'f [Word], what: &str) -> Result<&'f Word, String> {
    match field {
        [word] => Ok(word),
        _ => Err(format!("a rule has one {what}")),
    }
}

fn kind(field: &[Word]) -> Result<Kind, String> {
    match single(field, "kind")?.keyword() {
        Some("host" | "hostnogssenc") => Ok(Kind::Any),
        Some("hostssl") => Ok(Kind::Encrypted),
        Some("hostnossl") => Ok(Kind::Unencrypted),
        Some("local") => {
            Err("there are no local connections: the server listens on no Unix socket".to_owned())
        }
        Some("hostgssenc") => Err("there is no encryption by GSSAPI".to_owned()),
        Some(word) if word.starts_with("include") => Err("rules of other files are not included".to_owned()),
        _ => Err(format!("host, hostssl or hostnossl is wanted, not \"{}\"", field[0].text)),
    }
}

fn database(word: &Word) -> Result<DatabaseRule, String> {
    Ok(match word.keyword() {
        Some("all") => DatabaseRule::All,
        Some("sameuser") => DatabaseRule::SameUser,
        Some("samerole" | "samegroup") => DatabaseRule::SameRole,
        Some("replication") => DatabaseRule::Replication,
        _ => DatabaseRule::Named(name(word)?.into()),
    })
}

fn user(word: &Word) -> Result<UserRule, String> {
    Ok(match word.keyword() {
        Some("all") => UserRule::All,
        Some(text) if text.len() > 1 && text.starts_with('+') => UserRule::MemberOf(text[1..].into()),
        _ => UserRule::Named(name(word)?.into()),
    })
}

fn name(word: &Word) -> Result<&str, String> {
    match word.keyword() {
        Some(text) if text.starts_with('@') => {
            Err(format!("names are not read from files, as in \"{text}\""))
        }
        Some(text) if text.starts_with('/') => Err(format!("a name is no pattern, as in \"{text}\"")),
        _ if word.text.is_empty() => Err("a name is empty".to_owned()),
        _ => Ok(&word.text),
    }
}

/// The addresses of a rule, and the fields behind them: a mask can be a field of its own.
fn addresses<'f>(word: &Word, rest: &'f [Vec<Word>]) -> Result<(AddressRule, &'f [Vec<Word>]), String> {
    if word.keyword() == Some("all") {
        return Ok((AddressRule::All, rest));
    }
    let invalid = || format!("\"{}\" is no address: 10.0.0.0/8, 2001:db8::/32 or all is wanted", word.text);
    let (address, length) = match word.text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (word.text.as_str(), None),
    };
    let (family, bits) = Family::of(address.parse::<IpAddr>().map_err(|_| invalid())?);
    if let Some(length) = length {
        let length =
            length.parse::<u32>().ok().filter(|length| *length <= family.width()).ok_or_else(invalid)?;
        // The bits of a family's addresses are the lower ones.
        let mask = ones(family.width()) & !ones(family.width() - length);
        return Ok((AddressRule::Network { bits, mask, family }, rest));
    }
    let (mask, rest) = rest.split_first().ok_or_else(invalid)?;
    let mask = single(mask, "mask")?;
    let wrong = || format!("\"{}\" is no mask of the address {address}", mask.text);
    let (mask_family, mask) = Family::of(mask.text.parse::<IpAddr>().map_err(|_| wrong())?);
    if mask_family != family {
        return Err(wrong());
    }
    Ok((AddressRule::Network { bits, mask, family }, rest))
}

/// So many ones at the lower end.
fn ones(count: u32) -> u128 {
    1_u128.checked_shl(count).map_or(u128::MAX, |above| above - 1)
}

fn method(word: &Word) -> Result<Method, String> {
    match word.keyword() {
        Some("trust") => Ok(Method::Trust),
        Some("reject") => Ok(Method::Reject),
        // As in PostgreSQL, md5 is SCRAM-SHA-256 where passwords are kept for that, which ours are.
        Some("scram-sha-256" | "md5") => Ok(Method::Password),
        Some("cert") => Ok(Method::Certificate),
        _ => Err(format!(
            "there is no method \"{}\": trust, reject, scram-sha-256 or cert is wanted",
            word.text
        )),
    }
}

/// The certificate that a rule demands, by its method or by the option `clientcert`, of which the last counts.
fn certificate(kind: Kind, method: Method, options: &[Vec<Word>]) -> Result<CertificateRule, String> {
    if method == Method::Certificate && kind != Kind::Encrypted {
        return Err("cert authentication is only supported on hostssl connections".to_owned());
    }
    let mut certificate = match method {
        Method::Certificate => CertificateRule::OfUser,
        Method::Trust | Method::Reject | Method::Password => CertificateRule::NotNeeded,
    };
    for option in options {
        let text = &single(option, "value for an option")?.text;
        let value = match text.split_once('=') {
            Some(("clientcert", value)) => value,
            Some((name, _)) => {
                return Err(format!("there is no option \"{name}\" of a method, only clientcert"));
            }
            None => {
                let example = "clientcert=verify-full";
                return Err(format!(
                    "\"{text}\" is no option: a name and a value are wanted, as in {example}"
                ));
            }
        };
        if kind != Kind::Encrypted {
            return Err("clientcert can only be configured for hostssl rules".to_owned());
        }
        certificate = match value {
            "verify-full" => CertificateRule::OfUser,
            "verify-ca" if method == Method::Certificate => {
                return Err("clientcert only accepts verify-full when using cert authentication".to_owned());
            }
            "verify-ca" => CertificateRule::Verified,
            _ => {
                return Err(format!(
                    "invalid value for clientcert: \"{value}\", verify-ca or verify-full is wanted"
                ));
            }
        };
    }
    Ok(certificate)
}
