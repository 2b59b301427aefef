// SPDX-License-Identifier: Apache-2.0
//! A database that is open, and the options to open one with.

use crate::connection::Connection;
use crate::errors::misplaced;
use crate::location::Location;
use crate::opened::Share;
use crate::options;
use adbc_core::constants::{ADBC_OPTION_PASSWORD, ADBC_OPTION_URI, ADBC_OPTION_USERNAME};
use adbc_core::error::{Error, Result, Status};
use adbc_core::options::{OptionConnection, OptionDatabase, OptionValue};
use coeval::{DatabaseOptions, Durability};

const PATH: &str = "path";
const DURABILITY: &str = "coeval.durability";
const QUERY_MEMORY: &str = "coeval.query_memory";
const DATA_MEMORY: &str = "coeval.data_memory";

/// What a database is opened with.
#[derive(Clone, Default)]
pub(crate) struct Opening {
    location: Option<Location>,
    options: DatabaseOptions,
    /// The options as they were given, for who asks.
    given: Vec<(String, String)>,
}

impl Opening {
    /// Sets an option.
    ///
    /// # Errors
    /// `NotImplemented` for one that there is not, `InvalidArguments` for a value that is none of its.
    pub(crate) fn set(&mut self, key: &str, value: OptionValue) -> Result<()> {
        let shown = match &value {
            OptionValue::String(text) => text.clone(),
            OptionValue::Int(number) => number.to_string(),
            _ => String::new(),
        };
        match key {
            ADBC_OPTION_URI => self.locate(Location::of_uri(&options::text(key, value)?)?)?,
            PATH => self.locate(Location::of_path(&options::text(key, value)?))?,
            DURABILITY => self.options = self.options.durability(durability(&value)?),
            QUERY_MEMORY => {
                let bytes = usize::try_from(options::bytes(key, &value)?).unwrap_or(usize::MAX);
                self.options = self.options.query_memory(bytes);
            }
            DATA_MEMORY => self.options = self.options.data_memory(options::bytes(key, &value)?),
            ADBC_OPTION_USERNAME | ADBC_OPTION_PASSWORD => {
                let message = format!("a database in the process asks nobody who he is: it has no {key}");
                return Err(Error::with_message_and_status(message, Status::NotImplemented));
            }
            _ => return Err(options::unknown(key)),
        }
        self.given.push((key.to_owned(), shown));
        Ok(())
    }

    fn locate(&mut self, location: Location) -> Result<()> {
        if self.location.as_ref().is_some_and(|known| *known != location) {
            let message = "the options uri and path name different databases";
            return Err(Error::with_message_and_status(message, Status::InvalidArguments));
        }
        self.location = Some(location);
        Ok(())
    }

    /// Opens it.
    ///
    /// # Errors
    /// What opening meets.
    pub(crate) fn open(self) -> Result<Database> {
        let location = self.location.unwrap_or(Location::Memory);
        Ok(Database { share: Share::open(&location, self.options)?, given: self.given })
    }
}

fn durability(value: &OptionValue) -> Result<Durability> {
    match value {
        OptionValue::String(text) if text == "fsync" => Ok(Durability::Fsync),
        OptionValue::String(text) if text == "none" => Ok(Durability::None),
        other => Err(options::unfit(DURABILITY, other, "'fsync' or 'none'")),
    }
}

/// An open database. Its connections may outlive it: the last one closes it.
pub struct Database {
    share: Share,
    given: Vec<(String, String)>,
}

impl adbc_core::Optionable for Database {
    type Option = OptionDatabase;

    fn set_option(&mut self, key: OptionDatabase, _value: OptionValue) -> Result<()> {
        let key = key.as_ref();
        Err(misplaced(format!("the option {key} cannot be set any more: the database is open")))
    }

    fn get_option_string(&self, key: OptionDatabase) -> Result<String> {
        let found = self.given.iter().find(|(known, _)| known == key.as_ref());
        found.map(|(_, value)| value.clone()).ok_or_else(|| options::unset(key.as_ref()))
    }

    options::texts_alone!();
}

impl adbc_core::Database for Database {
    type ConnectionType = Connection;

    fn new_connection(&self) -> Result<Connection> {
        self.new_connection_with_opts([])
    }

    fn new_connection_with_opts(
        &self,
        options: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> Result<Connection> {
        let mut connection = Connection::new(self.share.clone())?;
        for (key, value) in options {
            adbc_core::Optionable::set_option(&mut connection, key, value)?;
        }
        Ok(connection)
    }
}
