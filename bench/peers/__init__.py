# SPDX-License-Identifier: Apache-2.0
"""What `bench/compare` is made of: the machine, the servers, the measurements and reports on other systems."""
