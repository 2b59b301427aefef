// SPDX-License-Identifier: Apache-2.0
//! What one statement hands to its own scans and functions, through DataFusion's options.

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{Result, internal_err};
use std::any::Any;
use std::fmt::Debug;

/// Something that travels with a statement's options, where physical planning, optimizer rules and functions
/// find it. It has no options of its own that a user could set.
pub(crate) trait Carry: Clone + Debug + Send + Sync + 'static {
    /// A name that nothing else has among the options.
    const NAME: &'static str;

    /// Puts it into the options of its statement.
    fn carry_in(self, options: &mut ConfigOptions) {
        options.extensions.insert(Carried(self));
    }

    /// What the options carry of this type.
    fn carried_by(options: &ConfigOptions) -> Option<&Self> {
        options.extensions.get::<Carried<Self>>().map(|carried| &carried.0)
    }
}

#[derive(Clone, Debug)]
struct Carried<T>(T);

impl<T: Carry> ConfigExtension for Carried<T> {
    const PREFIX: &'static str = T::NAME;
}

impl<T: Carry> ExtensionOptions for Carried<T> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _value: &str) -> Result<()> {
        internal_err!("{} has no option {key}", T::NAME)
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}
