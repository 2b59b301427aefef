# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL's regression files, of the version that is installed here: from the source package, which apt fetches once."""

import os
import pathlib
import re
import shutil
import subprocess
import tarfile

PACKAGE = "postgresql-15"
APT = pathlib.Path("/etc/apt")


class Missing(Exception):
    """The files cannot be had here; the text says why."""


def regression_files():
    """The folder with `sql` and `data`, outside of the checkout. What is there already is left alone."""
    version = installed_version()
    cache = pathlib.Path(os.environ.get("COEVAL_REGRESS_DIR") or pathlib.Path.home() / ".cache/coeval-regress")
    folder = cache / version
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        unpack(fetched(cache / "package", version), folder)
    return folder


def installed_version():
    for program in ("dpkg-query", "apt-get"):
        if not shutil.which(program):
            raise Missing(f"there is no {program}, which would tell the version of {PACKAGE} or fetch its source")
    asked = subprocess.run(["dpkg-query", "-W", "-f", "${source:Version}", PACKAGE], capture_output=True, text=True)
    if asked.returncode or not asked.stdout:
        raise Missing(f"the package {PACKAGE} is not installed, so there is no version to fetch the source of")
    return asked.stdout


def fetched(package, version):
    """The archive of the source. The lists are those of this machine with sources asked for, in a folder of their own."""
    shutil.rmtree(package, ignore_errors=True)
    for folder in ("sources", "lists/partial"):
        (package / folder).mkdir(parents=True)
    for place in [APT / "sources.list", *sorted((APT / "sources.list.d").glob("*"))]:
        if place.suffix in (".list", ".sources") and place.is_file():
            asks_for_sources = re.sub(r"^(deb|Types: *deb)\b(?!-)", r"\1-src", place.read_text(), flags=re.M)
            (package / "sources" / place.name).write_text(asks_for_sources)
    own_lists = [
        "-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={package / 'sources'}",
        "-o", f"Dir::State::lists={package / 'lists'}", "-o", "Dir::Cache::srcpkgcache=", "-o", "Dir::Cache::pkgcache=",
    ]
    # A list that cannot be had does no harm if another one has the package.
    subprocess.run(["apt-get", *own_lists, "-qq", "update"], cwd=package, check=False, capture_output=True)
    asked = subprocess.run(
        ["apt-get", *own_lists, "-qq", "source", "--download-only", f"{PACKAGE}={version}"],
        cwd=package, capture_output=True, text=True,
    )
    archives = sorted(package.glob("*.orig.tar.*"))
    if asked.returncode or not archives:
        raise Missing(f"apt-get has no source of {PACKAGE} {version}: {asked.stderr.strip()}")
    return archives[0]


def unpack(archive, folder):
    """The files that the comparison reads; a folder that is there is whole."""
    begin = "/src/test/regress/"
    half = folder.with_name(folder.name + ".new")
    shutil.rmtree(half, ignore_errors=True)
    with tarfile.open(archive) as files:
        for member in files:
            kept = member.name.partition(begin)[2]
            if member.isfile() and kept.startswith(("sql/", "data/")):
                (half / kept).parent.mkdir(parents=True, exist_ok=True)
                (half / kept).write_bytes(files.extractfile(member).read())
    # The server, which is another user, reads the data.
    half.chmod(0o755)
    half.rename(folder)
    shutil.rmtree(archive.parent)
