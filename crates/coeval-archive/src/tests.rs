// SPDX-License-Identifier: Apache-2.0
//! What was archived comes back as it was, whatever the storage did meanwhile.

mod archiving;
#[cfg(feature = "cloud")]
mod cloud_answers;
#[cfg(feature = "cloud")]
mod cloud_servers;
mod collecting;
mod failovers;
mod faulty;
mod following;
mod found_files;
mod list_failovers;
mod primary;
mod restores;
mod spread;
mod standing_by;
mod used_meanwhile;
