// SPDX-License-Identifier: Apache-2.0
//! The PostgreSQL wire protocol, authentication, metrics: what existing clients, drivers and tools speak.
