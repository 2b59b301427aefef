// SPDX-License-Identifier: Apache-2.0
mod interleavings;
mod threads;
mod waits;
