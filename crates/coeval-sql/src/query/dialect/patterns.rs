// SPDX-License-Identifier: Apache-2.0
//! Patterns of `to_char`, `to_date` and `to_timestamp`: PostgreSQL's, written in DataFusion's letters.

use crate::error::SqlError;

/// What PostgreSQL's templates are in DataFusion's; without a translation it is refused. Of two that fit the first is
/// meant, so longer ones come first. Letters count as capitals and small ones alike, but for names.
const TEMPLATES: &[(&str, Option<&str>)] = &[
    ("HH24", Some("%H")),
    ("HH12", Some("%I")),
    ("YYYY", Some("%Y")),
    ("IYYY", Some("%G")),
    ("SSSSS", None),
    ("SSSS", None),
    ("Y,YYY", None),
    ("YYY", None),
    ("DDD", Some("%j")),
    ("TZH", None),
    ("TZM", None),
    ("HH", Some("%I")),
    ("MI", Some("%M")),
    ("MM", Some("%m")),
    ("MS", Some("%3f")),
    ("US", Some("%6f")),
    ("SS", Some("%S")),
    ("YY", Some("%y")),
    ("DD", Some("%d")),
    ("ID", Some("%u")),
    ("IW", Some("%V")),
    ("IY", None),
    ("CC", None),
    ("WW", None),
    ("RM", None),
    ("OF", None),
    ("TZ", None),
    ("TH", None),
    ("FX", None),
    ("TM", None),
    ("BC", None),
    ("AD", None),
    ("Y", None),
    ("D", None),
    ("W", None),
    ("Q", None),
    ("J", None),
    ("I", None),
];

/// Templates whose letters say how the result is written. Names are as long as they are behind FM only.
const NAMES: &[(&str, Option<&str>)] = &[
    ("FMMonth", Some("%B")),
    ("FMDay", Some("%A")),
    ("Month", None),
    ("MONTH", None),
    ("month", None),
    ("Mon", Some("%b")),
    ("MON", None),
    ("mon", None),
    ("Day", None),
    ("DAY", None),
    ("day", None),
    ("Dy", Some("%a")),
    ("DY", None),
    ("dy", None),
    ("AM", Some("%p")),
    ("PM", Some("%p")),
    ("am", Some("%P")),
    ("pm", Some("%P")),
    ("A.M.", None),
    ("P.M.", None),
    ("a.m.", None),
    ("p.m.", None),
];

/// Whether the second argument of a function is such a pattern.
pub(super) fn has_pattern(function: &str) -> bool {
    matches!(function, "to_char" | "to_date" | "to_timestamp")
}

/// The pattern in DataFusion's letters.
///
/// # Errors
/// `0A000` for a template that has no translation.
pub(super) fn translated(pattern: &str) -> Result<String, SqlError> {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        if letter == '"' {
            let (quoted, behind) = rest[1..].split_once('"').unwrap_or((&rest[1..], ""));
            push_plain(quoted, &mut out);
            rest = behind;
            continue;
        }
        let (is_short, behind_mark) = match rest.get(..2) {
            Some(mark) if mark.eq_ignore_ascii_case("FM") => (true, &rest[2..]),
            _ => (false, rest),
        };
        let named = NAMES.iter().find(|(name, _)| rest.starts_with(name)).map(|found| (found, rest));
        let numbered = || {
            let fits = |name: &str| {
                behind_mark.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name))
            };
            TEMPLATES.iter().find(|(name, _)| fits(name)).map(|found| (found, behind_mark))
        };
        match named.or_else(numbered) {
            Some(((name, Some(known)), from)) => {
                // FM leaves out the zeros in front of a number.
                let known =
                    if is_short && from != rest { known.replacen('%', "%-", 1) } else { (*known).to_owned() };
                out.push_str(&known);
                rest = &from[name.len()..];
            }
            Some(((name, None), _)) => {
                return Err(SqlError::unsupported(format_args!("\"{name}\" in a date pattern")).with_hint(
                    "Use YYYY, MM, DD, HH24, MI, SS, MS, US, Mon, FMMonth, Dy or FMDay, or extract().",
                ));
            }
            None => {
                push_plain(&rest[..letter.len_utf8()], &mut out);
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    Ok(out)
}

fn push_plain(text: &str, out: &mut String) {
    out.push_str(&text.replace('%', "%%"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_translated_or_refused() {
        for (pattern, wanted) in [
            ("YYYY-MM-DD HH24:MI:SS", "%Y-%m-%d %H:%M:%S"),
            ("yyyy-mm-dd\"T\"hh24:mi:ss.MS", "%Y-%m-%dT%H:%M:%S.%3f"),
            ("FMDD. Mon YYYY, HH12 am", "%-d. %b %Y, %I %P"),
            ("FMMonth, Dy US 100%", "%B, %a %6f 100%%"),
            ("", ""),
        ] {
            assert_eq!(translated(pattern).unwrap(), wanted, "{pattern}");
        }
        for refused in ["Month", "Q", "TZ", "J", "Y,YYY"] {
            assert_eq!(
                translated(refused).unwrap_err().state,
                crate::SqlState::FeatureNotSupported,
                "{refused}"
            );
        }
    }
}
