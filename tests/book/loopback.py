# SPDX-License-Identifier: Apache-2.0
"""A loopback of its own for each page, so that pages say 5432 and meet no server of the machine.

`command` puts a program into new namespaces: of the network, and of processes, so that whatever a page leaves running ends with it.
"""

import fcntl
import functools
import os
import shutil
import socket
import struct
import subprocess

SIOCSIFFLAGS = 0x8914
IFF_UP_AND_RUNNING = 0x1 | 0x40


# As root, and as somebody who is not or whose root may do little.
WAYS = [[], ["--user", "--map-current-user", "--keep-caps"]]


@functools.cache
def way():
    """What makes namespaces here; None if nothing does."""
    for more in WAYS:
        unshare = ["unshare", *more, "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
        if shutil.which("unshare") and subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL).returncode == 0:
            return unshare
    return None


def is_missing(who):
    """Whether there are no namespaces; says so then, also to who makes a summary of what was skipped (`tests/skipped`)."""
    if way() is not None:
        return False
    what = "namespaces of network and processes, which unshare cannot make"
    print(f"skipped: {who} needs {what}")
    if summary := os.environ.get("COEVAL_SKIPPED"):
        with open(summary, "a") as file:
            file.write(f"skipped\t{what}\t{who}\n")
    return True


def command(program):
    """What runs a program so."""
    return [*way(), *program]


def bring_up():
    """Makes 127.0.0.1 answer; for the program that `command` has started."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", IFF_UP_AND_RUNNING)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)
