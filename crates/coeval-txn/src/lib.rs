//! Versions, snapshots and certification: the rules of concurrency control over opaque keys.
