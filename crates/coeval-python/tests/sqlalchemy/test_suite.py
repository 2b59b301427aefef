# SPDX-License-Identifier: Apache-2.0
from sqlalchemy.testing.suite import *  # noqa: F403 -- its classes are the tests
