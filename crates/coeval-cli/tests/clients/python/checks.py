# SPDX-License-Identifier: Apache-2.0
"""What the Python clients share: the server's address, the checks, and how their parts are run."""

import asyncio
import inspect
import os
import traceback

ADDRESS = {
    "host": os.environ["PGHOST"],
    # Of several servers, as libpq lists them.
    "port": os.environ["PGPORT"] if "," in os.environ["PGPORT"] else int(os.environ["PGPORT"]),
    "user": os.environ["PGUSER"],
    "database": os.environ["PGDATABASE"],
}


def expect(found, wanted):
    """Says what was found when it is something else."""
    if found != wanted:
        raise AssertionError(f"\n  found  {found!r}\n  wanted {wanted!r}")


class raises:
    """A block that has to end with this exception, which is kept as `error`."""

    def __init__(self, kind):
        self.kind = kind
        self.error = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.error = error
        if kind is None:
            raise AssertionError(f"no {self.kind.__name__}")
        return issubclass(kind, self.kind)


def run(*parts):
    """Runs each part against the server and names it; a part that fails does not keep the others from running."""
    conninfo = "host={host} port={port} user={user} dbname={database}".format(**ADDRESS)
    failed = []
    for part in parts:
        try:
            outcome = part(conninfo)
            if inspect.isawaitable(outcome):
                asyncio.run(outcome)
            print(f"ok {part.__name__}", flush=True)
        except Exception:
            failed.append(part.__name__)
            print(f"FAILED {part.__name__}\n{traceback.format_exc()}", flush=True)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")
