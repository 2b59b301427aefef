# SPDX-License-Identifier: Apache-2.0
"""A way of several steps, each a command that is timed."""

import os
import signal
import subprocess
import time

# A step that takes so long hangs, but for those that compile or fetch.
STEP_SECONDS_MAX = 120


class Failed(Exception):
    """A step that failed, a wrong answer, or a bar that was missed."""


class Way:
    """One way: where it goes on, the seconds of its steps, and those up to the first answer."""

    def __init__(self, name, place, options):
        self.name = name
        self.seconds = []
        self.first_answer = None
        home = place / "home"
        self.folder = place / "here"
        home.mkdir()
        self.folder.mkdir()
        self.environment = environment(home, options)

    def step(self, name, command, within=STEP_SECONDS_MAX):
        """Runs a command; gives what it prints. Its seconds count."""
        began = time.monotonic()
        # A session of its own, so that what it has started ends with it.
        with subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        ) as running:
            try:
                printed, _ = running.communicate(timeout=within)
            except BaseException as error:
                os.killpg(running.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise Failed(f"{self.name}: {name} takes more than {within} s") from None
                raise
        took = time.monotonic() - began
        if running.returncode:
            raise Failed(f"{self.name}: {name} ends with {running.returncode}:\n{printed}")
        self.seconds.append((name, took))
        print(f"{took:8.2f} s  {name}", flush=True)
        return printed

    def write(self, name, text):
        """What a newcomer types into a file, which takes no time here."""
        (self.folder / name).write_text(text)

    def expect(self, found, wanted):
        """Refuses an answer that is not the right one."""
        if found != wanted:
            raise Failed(f"{self.name}: the answer is\n{found}\nand should be\n{wanted}")

    def answered(self):
        """The first answer is there: what comes behind it does not count."""
        if self.first_answer is None:
            self.first_answer = sum(took for _, took in self.seconds)


def environment(home, options):
    """Nothing of the user's own but the compiler, and the packages that cargo has."""
    of_user = os.path.expanduser("~")
    settings = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", f"{of_user}/.rustup"),
        "CARGO_HOME": str(home / "cargo") if options.fresh else os.environ.get("CARGO_HOME", f"{of_user}/.cargo"),
    }
    if options.target:
        settings["CARGO_TARGET_DIR"] = str(options.target.resolve())
    # How the network is reached, where it is not reached directly.
    passed_on = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "TMPDIR")
    return settings | {name: os.environ[name] for name in passed_on if name in os.environ}
