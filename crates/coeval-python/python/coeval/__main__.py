# SPDX-License-Identifier: Apache-2.0
"""The program `coeval`: `coeval serve`, `coeval sql`, `coeval demo` and the rest, as `coeval --help` lists them."""

import os
import sys
import sysconfig

from . import _native


def main() -> None:
    """Runs the program with the command line of this process, and ends it."""
    file = os.path.join(sysconfig.get_path("scripts"), "coeval")
    sys.exit(_native.program(["coeval", *sys.argv[1:]], file))


if __name__ == "__main__":
    main()
