# SPDX-License-Identifier: Apache-2.0
"""A program with a console, and its interface as a program uses it."""

import http.cookiejar
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import urllib.request

CONSOLE = re.compile(r"Console at (http://\S+/)")
READY_WITHIN_SECONDS = 30
USER, PASSWORD = "admin", "let me in"


class Server:
    """`coeval serve` with a console, ended with this object."""

    is_coeval = True
    user, password = USER, PASSWORD

    def __init__(self, program):
        self._folder = tempfile.TemporaryDirectory()
        secret = pathlib.Path(self._folder.name, "password")
        secret.touch(mode=0o600)
        secret.write_text(PASSWORD)
        command = [
            program,
            "serve",
            os.path.join(self._folder.name, "data"),
            "--listen",
            "127.0.0.1:0",
            "--console",
            "127.0.0.1:0",
            "--user",
            USER,
            "--password-file",
            str(secret),
        ]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.address = None
        self._found = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        if not self._found.wait(READY_WITHIN_SECONDS) or self.address is None:
            self.close()
            raise RuntimeError("no console: " + "".join(self.lines[-20:]))

    def _read(self):
        # To the end: a full pipe would stop the program.
        for line in self._process.stderr:
            self.lines.append(line)
            found = CONSOLE.search(line)
            if found:
                self.address = found[1]
                self._found.set()
        self._found.set()

    def must_run(self):
        status = self._process.poll()
        assert status is None, f"the server has ended with {status}: " + "".join(self.lines[-20:])

    def close(self):
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()


class Running:
    """A server that runs already, with its tables: COEVAL_CONSOLE=http://user:password@127.0.0.1:8432/."""

    is_coeval = False

    def __init__(self, address):
        parts = re.fullmatch(r"(https?://)(?:([^:@]+):([^@]*)@)?(.+)", address)
        self.address = parts[1] + parts[4]
        self.user, self.password = parts[2] or USER, parts[3] or ""

    def must_run(self):
        pass

    def close(self):
        pass


class Api:
    """A login, and the sessions of its tabs."""

    def __init__(self, server):
        self._address = server.address
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        self._csrf = None
        account = {"user": server.user, "password": server.password, "readOnly": False}
        self._csrf = json.loads(self._call("POST", "login", account))["csrf"]

    def _call(self, method, path, body=None):
        headers = {"Content-Type": "application/json"}
        if self._csrf:
            headers["X-Coeval-Csrf"] = self._csrf
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._address}api/{path}", data, headers, method=method)
        with self._opener.open(request, timeout=60) as response:
            return response.read()

    def tab(self):
        return json.loads(self._call("POST", "tabs", {}))["tab"]

    def close_tab(self, tab):
        self._call("DELETE", f"tabs/{tab}")

    def run(self, tab, sql):
        """The events; an error is one of them."""
        return [json.loads(line) for line in self._call("POST", f"tabs/{tab}/run", {"sql": sql}).splitlines()]

    def must(self, tab, sql):
        events = self.run(tab, sql)
        errors = [event for event in events if event["event"] == "error"]
        assert not errors, (sql, errors)
        return events
