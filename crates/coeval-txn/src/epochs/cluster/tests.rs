// SPDX-License-Identifier: Apache-2.0
mod paper;
mod rules;
mod scripts;
mod simulator;
