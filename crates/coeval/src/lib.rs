//! Coeval: transactions and analytics on the same live data.
