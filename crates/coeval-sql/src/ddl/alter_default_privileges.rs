// SPDX-License-Identifier: Apache-2.0
//! ALTER DEFAULT PRIVILEGES, read and run.
//!
//! | objects | GRANT | REVOKE |
//! |---|---|---|
//! | tables and views, sequences, schemas | kept, see [`DefaultPrivileges`] | takes back what a GRANT gave |
//! | functions, types | does nothing: everyone has these rights | refused |

use super::default_privileges;
use super::dependents::Behavior;
use super::grants::{Grantee, grantees, privileges_on, refuse_option_for_public, take_back};
use super::role_syntax::{
    GrantOption, Named, RoleName, behavior, expect_word, option_for, privileges, role_names, skip,
    with_option, word_at,
};
use super::{grants, lookup, named_roles, ownership};
use crate::cancel;
use crate::context::StatementContext;
use crate::error::SqlError;
use crate::names::fold;
use crate::parse::take_word;
use crate::result::StatementResult;
use crate::rights::Kind;
use coeval_store::{DefaultPrivileges, Grant, NewObjects, ObjectAccess, Privilege, Privileges};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

/// The statement.
#[derive(Clone, Debug)]
pub(crate) struct AlterDefaultPrivileges {
    /// Who makes the objects; none named: the session's role.
    roles: Vec<RoleName>,
    /// Where they are made; none named: anywhere.
    schemas: Vec<String>,
    verb: Verb,
    /// `None`: ALL.
    privileges: Option<Vec<Privilege>>,
    target: Target,
    grantees: Vec<RoleName>,
    option: GrantOption,
}

/// Whether something is given or taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Grant,
    Revoke(Behavior),
}

/// Which objects are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// Those that have rights of their own.
    Checked(NewObjects),
    /// Those that everyone has all rights on, by their name in SQL.
    Unchecked(&'static str),
}

/// The words behind ON.
const TARGETS: [(&str, Target); 6] = [
    ("tables", Target::Checked(NewObjects::Tables)),
    ("sequences", Target::Checked(NewObjects::Sequences)),
    ("schemas", Target::Checked(NewObjects::Schemas)),
    ("functions", Target::Unchecked("FUNCTIONS")),
    ("routines", Target::Unchecked("ROUTINES")),
    ("types", Target::Unchecked("TYPES")),
];

impl AlterDefaultPrivileges {
    /// The statement at the parser's place, if it is this one; else the parser is where it was.
    ///
    /// # Errors
    /// A syntax error behind the words that only this statement starts with.
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        let first = ["alter", "default", "privileges"];
        if (0..).zip(first).any(|(place, word)| word_at(parser, place).as_deref() != Some(word)) {
            return Ok(None);
        }
        skip(parser, first.len());
        let (mut roles, mut schemas) = (Vec::new(), Vec::new());
        loop {
            if roles.is_empty() && take_word(parser, "for") {
                if !take_word(parser, "user") {
                    expect_word(parser, "role")?;
                }
                roles = role_names(parser)?;
            } else if schemas.is_empty() && take_word(parser, "in") {
                expect_word(parser, "schema")?;
                schemas = parser
                    .parse_comma_separated(|parser| parser.parse_identifier().map(|ident| fold(&ident)))?;
            } else {
                break;
            }
        }
        let is_grant = take_word(parser, "grant");
        if !is_grant {
            expect_word(parser, "revoke")?;
        }
        let mut option = if is_grant { GrantOption::Unnamed } else { option_for(parser) };
        let Some(Named { whole: privileges, on_columns }) = privileges(parser)? else {
            return parser.expected("privileges and ON", parser.peek_token());
        };
        if !on_columns.is_empty() {
            let message = "default privileges cannot be set for columns".to_owned();
            return Err(ParserError::ParserError(message));
        }
        let Some((_, target)) = TARGETS.into_iter().find(|(word, _)| take_word(parser, word)) else {
            return parser
                .expected("TABLES, SEQUENCES, FUNCTIONS, ROUTINES, TYPES or SCHEMAS", parser.peek_token());
        };
        expect_word(parser, if is_grant { "to" } else { "from" })?;
        let grantees = role_names(parser)?;
        let verb = if is_grant {
            option = with_option(parser)?;
            Verb::Grant
        } else {
            Verb::Revoke(behavior(parser))
        };
        Ok(Some(Self { roles, schemas, verb, privileges, target, grantees, option }))
    }

    /// Changes what new objects are granted.
    ///
    /// # Errors
    /// `42704` for an unknown role, `3F000` for an unknown schema, `42501` for a role that the session could not act as, `0LP01` for
    /// a privilege that such objects have not, and for schemas in a schema; `0A000` for what everyone may do.
    pub(super) fn execute(&self, context: &mut StatementContext<'_>) -> Result<StatementResult, SqlError> {
        let owners = self.owners(context)?;
        let grantees = grantees(context, &self.grantees)?;
        if self.verb == Verb::Grant {
            refuse_option_for_public(&grantees, self.option)?;
        }
        let catalog = context.transaction.catalog();
        if let Some(schema) = self.schemas.iter().find(|schema| !catalog.has_schema(schema)) {
            return Err(lookup::unknown_schema(schema));
        }
        match (self.target, self.verb) {
            (Target::Checked(objects), _) => {
                let privileges = self.privileges_on(objects)?;
                for owner in &owners {
                    for schema in self.places() {
                        cancel::check()?;
                        self.change(context, owner, schema, objects, &grantees, privileges)?;
                    }
                }
            }
            (Target::Unchecked(_), Verb::Grant) => {}
            (Target::Unchecked(objects), Verb::Revoke(_)) => {
                return Err(SqlError::unsupported(format!("REVOKE on {objects}")));
            }
        }
        Ok(StatementResult::plain("ALTER DEFAULT PRIVILEGES"))
    }

    /// Whose objects are meant: of each role that the session could act as.
    fn owners(&self, context: &StatementContext<'_>) -> Result<Vec<Option<String>>, SqlError> {
        let owners = if self.roles.is_empty() {
            vec![context.settings.principal().as_owner().map(str::to_owned)]
        } else {
            let named = self.roles.iter().map(|role| named_roles::owner_named(context, role));
            named.collect::<Result<Vec<_>, _>>()?
        };
        owners.iter().try_for_each(|owner| ownership::require_member(context, owner.as_deref()))?;
        Ok(owners)
    }

    /// The schemas; nothing in the place of one stands for all.
    fn places(&self) -> Vec<Option<&str>> {
        if self.schemas.is_empty() {
            return vec![None];
        }
        self.schemas.iter().map(|schema| Some(schema.as_str())).collect()
    }

    /// What is granted or taken back.
    fn privileges_on(&self, objects: NewObjects) -> Result<Privileges, SqlError> {
        if objects == NewObjects::Schemas && !self.schemas.is_empty() {
            return Err(grants::invalid("cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS"));
        }
        let (kind, word) = match objects {
            NewObjects::Tables => (Kind::Table, "relation"),
            NewObjects::Sequences => (Kind::Sequence, "sequence"),
            NewObjects::Schemas => (Kind::Schema, "schema"),
        };
        privileges_on(kind, word, self.privileges.as_deref())
    }

    fn change(
        &self,
        context: &mut StatementContext<'_>,
        owner: &Option<String>,
        schema: Option<&str>,
        objects: NewObjects,
        grantees: &[Grantee],
        privileges: Privileges,
    ) -> Result<(), SqlError> {
        let known = context.transaction.catalog().default_privileges(owner.as_deref(), schema, objects);
        let before = known.map(|known| known.access.clone());
        let before = before.unwrap_or_else(|| ObjectAccess::owned_by(owner.as_deref()));
        let mut access = before.clone();
        for grantee in grantees {
            // The owner may do everything.
            let Some(grantee) = grantee.in_access(&access) else { continue };
            match self.verb {
                Verb::Grant => {
                    let is_passed_on = self.option == GrantOption::Named;
                    let grantable = if is_passed_on { privileges } else { Privileges::NONE };
                    let grant = Grant { grantee, grantor: owner.clone(), privileges, grantable };
                    grant.add_to(&mut access.grants);
                }
                Verb::Revoke(behavior) => {
                    take_back(&mut access.grants, &grantee, owner, privileges, self.option, behavior)?;
                }
            }
        }
        access.keep(|_| true);
        if access == before {
            return Ok(());
        }
        let schema = schema.map(str::to_owned);
        default_privileges::put(context, DefaultPrivileges { objects, schema, access })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Token;

    fn parse(sql: &str) -> Result<Option<AlterDefaultPrivileges>, ParserError> {
        let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).unwrap();
        let found = AlterDefaultPrivileges::parse(&mut parser)?;
        match found {
            Some(_) => assert_eq!(parser.peek_token().token, Token::EOF, "{sql}"),
            None => assert_eq!(parser.index(), 0, "{sql}"),
        }
        Ok(found)
    }

    #[test]
    fn its_clauses_stand_in_any_order_and_each_once() {
        let read = |sql: &str| parse(sql).unwrap().unwrap();
        let long = read(
            "ALTER DEFAULT PRIVILEGES FOR ROLE a, \"B\" IN SCHEMA s, t GRANT SELECT, Insert ON TABLES TO c, PUBLIC WITH GRANT OPTION",
        );
        assert_eq!(long.roles, [RoleName::Named("a".to_owned()), RoleName::Named("B".to_owned())]);
        assert_eq!(long.schemas, ["s", "t"]);
        assert_eq!(long.privileges, Some(vec![Privilege::Select, Privilege::Insert]));
        assert_eq!((long.verb, long.option), (Verb::Grant, GrantOption::Named));
        assert_eq!(long.grantees, [RoleName::Named("c".to_owned()), RoleName::Public]);
        let other = read(
            "alter default privileges in schema s for user current_user revoke grant option for all on sequences from c cascade",
        );
        assert_eq!((other.roles.as_slice(), other.privileges), ([RoleName::CurrentUser].as_slice(), None));
        assert_eq!((other.verb, other.option), (Verb::Revoke(Behavior::Cascade), GrantOption::Named));
        assert_eq!(other.target, Target::Checked(NewObjects::Sequences));
        let on_functions = read("ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO c");
        assert_eq!(on_functions.target, Target::Unchecked("FUNCTIONS"));
        for sql in [
            "ALTER DEFAULT PRIVILEGES FOR ROLE a FOR ROLE b GRANT SELECT ON TABLES TO c",
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON t TO c",
            "ALTER DEFAULT PRIVILEGES GRANT a TO c",
            "ALTER DEFAULT PRIVILEGES GRANT SELECT (a) ON TABLES TO c",
            "ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES TO c",
        ] {
            assert!(parse(sql).is_err(), "{sql}");
        }
        assert!(parse("ALTER TABLE t ADD COLUMN a int").unwrap().is_none());
    }
}
