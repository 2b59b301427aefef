// SPDX-License-Identifier: Apache-2.0
//! The statements about domains, parsed: the parser knows neither NOT NULL nor ALTER of one.

use crate::ddl::dependents::Behavior;
use crate::ddl::existence::Missing;
use crate::ddl::role_syntax::{RoleName, behavior, role_name};
use crate::names::fold;
use crate::parse::take_word;
use coeval_store::Validity;
use datafusion::sql::sqlparser::ast::{ColumnOption, ColumnOptionDef, DataType, Expr, Ident, ObjectName};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

/// A statement about domains.
#[derive(Clone, Debug)]
pub(crate) enum DomainStatement {
    /// `CREATE DOMAIN`.
    Create {
        /// Its name.
        name: ObjectName,
        /// The type of its values.
        data_type: DataType,
        /// Its default and constraints.
        options: Vec<ColumnOptionDef>,
    },
    /// `ALTER DOMAIN`.
    Alter {
        /// Its name.
        name: ObjectName,
        /// What changes.
        change: Box<DomainChange>,
    },
    /// `DROP DOMAIN`.
    Drop {
        /// Their names.
        names: Vec<ObjectName>,
        /// What happens if one is not there.
        missing: Missing,
        /// What happens to what depends on them.
        behavior: Behavior,
    },
}

/// What changes of a domain.
#[derive(Clone, Debug)]
pub(crate) enum DomainChange {
    /// `SET DEFAULT`.
    SetDefault(Expr),
    /// `DROP DEFAULT`.
    DropDefault,
    /// `SET NOT NULL`.
    SetNotNull,
    /// `DROP NOT NULL`.
    DropNotNull,
    /// `ADD CHECK`.
    AddCheck {
        /// The name that is given.
        name: Option<Ident>,
        /// What is to hold.
        condition: Box<Expr>,
        /// Whether it is to hold for the values that are there.
        validity: Validity,
    },
    /// `DROP CONSTRAINT`.
    DropConstraint(Ident, Missing),
    /// `RENAME CONSTRAINT`.
    RenameConstraint {
        /// Its name.
        from: Ident,
        /// Its new name.
        to: Ident,
    },
    /// `VALIDATE CONSTRAINT`.
    Validate(Ident),
    /// `RENAME TO`.
    Rename(Ident),
    /// `OWNER TO`.
    Owner(RoleName),
    /// `SET SCHEMA`.
    Schema(String),
}

impl DomainStatement {
    /// The statement at the parser's place, if it is one of these; else the parser is where it was.
    ///
    /// # Errors
    /// A syntax error behind the words that only these statements start with.
    pub(in crate::ddl) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        if parser.parse_keywords(&[Keyword::CREATE, Keyword::DOMAIN]) {
            let name = parser.parse_object_name(false)?;
            let _ = parser.parse_keyword(Keyword::AS);
            let data_type = parser.parse_data_type()?;
            return Ok(Some(Self::Create { name, data_type, options: parse_options(parser)? }));
        }
        if parser.parse_keywords(&[Keyword::DROP, Keyword::DOMAIN]) {
            let missing = parse_missing(parser);
            let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
            return Ok(Some(Self::Drop { names, missing, behavior: behavior(parser) }));
        }
        if parser.parse_keywords(&[Keyword::ALTER, Keyword::DOMAIN]) {
            let name = parser.parse_object_name(false)?;
            return Ok(Some(Self::Alter { name, change: Box::new(parse_change(parser)?) }));
        }
        Ok(None)
    }
}

fn parse_missing(parser: &mut Parser<'_>) -> Missing {
    let skip = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    if skip { Missing::Skip } else { Missing::Refuse }
}

/// A default and constraints, as behind a column's type.
fn parse_options(parser: &mut Parser<'_>) -> Result<Vec<ColumnOptionDef>, ParserError> {
    let mut options = Vec::new();
    loop {
        let name = match parser.parse_keyword(Keyword::CONSTRAINT) {
            true => Some(parser.parse_identifier()?),
            false => None,
        };
        match parser.parse_optional_column_option()? {
            Some(option) => options.push(ColumnOptionDef { name, option }),
            None if name.is_some() => return parser.expected("a constraint", parser.peek_token()),
            None => return Ok(options),
        }
    }
}

fn parse_change(parser: &mut Parser<'_>) -> Result<DomainChange, ParserError> {
    if parser.parse_keywords(&[Keyword::SET, Keyword::NOT, Keyword::NULL]) {
        return Ok(DomainChange::SetNotNull);
    }
    if parser.parse_keywords(&[Keyword::DROP, Keyword::NOT, Keyword::NULL]) {
        return Ok(DomainChange::DropNotNull);
    }
    if parser.parse_keywords(&[Keyword::SET, Keyword::DEFAULT]) {
        return Ok(DomainChange::SetDefault(parser.parse_expr()?));
    }
    if parser.parse_keywords(&[Keyword::DROP, Keyword::DEFAULT]) {
        return Ok(DomainChange::DropDefault);
    }
    if parser.parse_keywords(&[Keyword::SET, Keyword::SCHEMA]) {
        return Ok(DomainChange::Schema(fold(&parser.parse_identifier()?)));
    }
    if parser.parse_keywords(&[Keyword::OWNER, Keyword::TO]) {
        return Ok(DomainChange::Owner(role_name(parser)?));
    }
    if parser.parse_keywords(&[Keyword::DROP, Keyword::CONSTRAINT]) {
        let missing = parse_missing(parser);
        let name = parser.parse_identifier()?;
        // Nothing depends on one.
        behavior(parser);
        return Ok(DomainChange::DropConstraint(name, missing));
    }
    if parser.parse_keywords(&[Keyword::RENAME, Keyword::CONSTRAINT]) {
        let from = parser.parse_identifier()?;
        parser.expect_keyword(Keyword::TO)?;
        return Ok(DomainChange::RenameConstraint { from, to: parser.parse_identifier()? });
    }
    if parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]) {
        return Ok(DomainChange::Rename(parser.parse_identifier()?));
    }
    if parser.parse_keywords(&[Keyword::VALIDATE, Keyword::CONSTRAINT]) {
        return Ok(DomainChange::Validate(parser.parse_identifier()?));
    }
    if parser.parse_keyword(Keyword::ADD) {
        return parse_check(parser);
    }
    parser.expected("what is to change of the domain", parser.peek_token())
}

fn parse_check(parser: &mut Parser<'_>) -> Result<DomainChange, ParserError> {
    let option = parse_options(parser)?.pop();
    let Some(ColumnOptionDef { name, option: ColumnOption::Check(check) }) = option else {
        return parser.expected("CHECK", parser.peek_token());
    };
    let is_unchecked = parser.parse_keyword(Keyword::NOT) && take_word(parser, "valid");
    let validity = if is_unchecked { Validity::NotValid } else { Validity::Valid };
    Ok(DomainChange::AddCheck { name, condition: check.expr, validity })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

    fn parse(sql: &str) -> Option<DomainStatement> {
        let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).unwrap();
        DomainStatement::parse(&mut parser).unwrap()
    }

    #[test]
    fn constraints_come_in_any_order_behind_the_type() {
        let sql =
            "CREATE DOMAIN s.d varchar(10) DEFAULT 'a' NOT NULL CONSTRAINT short CHECK (length(VALUE) < 5)";
        let Some(DomainStatement::Create { options, .. }) = parse(sql) else { panic!("a domain is made") };
        assert!(matches!(options[0].option, ColumnOption::Default(_)));
        assert!(matches!(options[1].option, ColumnOption::NotNull));
        assert!(matches!(&options[2].name, Some(name) if name.value == "short"));
        assert!(parse("CREATE TABLE d (a int)").is_none());
    }

    #[test]
    fn a_check_may_leave_out_the_values_that_are_there() {
        let change = |sql| match parse(sql) {
            Some(DomainStatement::Alter { change, .. }) => *change,
            other => panic!("{other:?}"),
        };
        assert!(matches!(
            change("ALTER DOMAIN d ADD CONSTRAINT c CHECK (VALUE > 0) NOT VALID"),
            DomainChange::AddCheck { validity: Validity::NotValid, .. }
        ));
        assert!(matches!(
            change("ALTER DOMAIN d DROP CONSTRAINT IF EXISTS c CASCADE"),
            DomainChange::DropConstraint(_, Missing::Skip)
        ));
    }
}
