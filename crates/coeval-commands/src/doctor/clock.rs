// SPDX-License-Identifier: Apache-2.0
//! Whether the clock is kept right.

use super::{Finding, Verdict};

/// Whether somebody keeps the clock of this machine right. Order and visibility do not depend on it; `now()`, `restore --to` and
/// the age of what a replica shows do.
pub(super) fn finding() -> Finding {
    match is_synchronized() {
        Some(true) => Finding::good("clock", "synchronized"),
        Some(false) => Finding::good("clock", "not known to be synchronized").with(
            Verdict::Note,
            "Commits do not depend on it; now() and restore --to TIME do. Run a time service (chrony, systemd-timesyncd); \
             in a container the host does.",
        ),
        None => Finding::good("clock", "the system does not say whether it is synchronized"),
    }
}

/// What the kernel says of its clock.
#[expect(unsafe_code, reason = "no crate here asks for it")]
fn is_synchronized() -> Option<bool> {
    let mut clock = libc::timex { modes: 0, ..zeroed() };
    // SAFETY: the structure is ours, and with no modes the call only fills it.
    let state = unsafe { libc::adjtimex(&raw mut clock) };
    (state >= 0).then_some(state != libc::TIME_ERROR)
}

#[expect(unsafe_code, reason = "the structure has no other default")]
fn zeroed() -> libc::timex {
    // SAFETY: a structure of integers, for which zeros are a value.
    unsafe { std::mem::zeroed() }
}
