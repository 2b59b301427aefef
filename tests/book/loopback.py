# SPDX-License-Identifier: Apache-2.0
"""A loopback of its own for each page, so that pages say 5432 and meet no server of the machine.

`command` puts a program into new namespaces: of the network, and of processes, so that whatever a page leaves running ends with it.
"""

import fcntl
import os
import socket
import struct

SIOCSIFFLAGS = 0x8914
IFF_UP_AND_RUNNING = 0x1 | 0x40


def command(program):
    """What runs a program so, as root or as anybody else."""
    as_root = ["--user", "--map-current-user", "--keep-caps"] if os.getuid() != 0 else []
    return ["unshare", *as_root, "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--", *program]


def bring_up():
    """Makes 127.0.0.1 answer; for the program that `command` has started."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", IFF_UP_AND_RUNNING)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)
