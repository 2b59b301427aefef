# SPDX-License-Identifier: Apache-2.0
"""The machine under a comparison: who uses it, and the binary that is measured on it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
ROOT = BENCH.parent
# What others may use of the machine before a round does not count (cores).
FOREIGN_CPU_MAX = 0.1
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def command_line(program):
    """How this run was started, without places of this machine."""
    words, left_out = [], {"--coeval", "--work", "--keep", "--files"}
    arguments = iter(sys.argv[1:])
    for word in arguments:
        if word in left_out:
            next(arguments, None)
        elif word.split("=")[0] not in left_out:
            words.append(word)
    return " ".join([program, *words])


def build_coeval():
    """Builds the binary and returns where it is."""
    subprocess.run(["cargo", "build", "--release", "--package", "coeval-cli"], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "coeval"


def coeval(binary, *arguments):
    """Runs a workload and returns its JSON line."""
    command = [str(binary), "bench", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    # A run that found a violated check says so in its exit code and still prints its line.
    lines = done.stdout.strip().splitlines()
    if not lines:
        sys.exit(f"no report from: {' '.join(command)}")
    return json.loads(lines[-1])


class CpuWatch:
    """Cores that others used since the watch began: others than this process, its children that ended, and the
    processes under `servers`."""

    def __init__(self, *servers):
        self.servers = servers
        self.started = time.monotonic()
        self.busy = self.machine_busy_s()
        self.own = self.own_s()

    @staticmethod
    def machine_busy_s():
        fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        return sum(fields[place] for place in (0, 1, 2, 5, 6, 7)) / TICKS_PER_S

    def own_s(self):
        return sum(os.times()[:4]) + sum(tree_s(server) for server in self.servers)

    def foreign_cores(self):
        busy = self.machine_busy_s() - self.busy - (self.own_s() - self.own)
        return round(max(0.0, busy / max(time.monotonic() - self.started, 0.01)), 2)


def stat(pid):
    """The fields of a process behind its name, which may hold blanks; none if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def tree(root):
    """A process and all that it started, as far as they still run."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = stat(entry)
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def tree_s(root):
    """Processor time of a process, of those it started, and of their children that have ended."""
    ticks = 0
    for pid in tree(root):
        ticks += sum(int(field) for field in stat(pid)[11:15])
    return ticks / TICKS_PER_S


def resident_kib(pid):
    """Memory that a process has resident."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0
