// SPDX-License-Identifier: Apache-2.0
//! Tables as DataFusion sees them: providers over the views of one snapshot, and the scan.
