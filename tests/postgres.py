"""A PostgreSQL server of the system's packages, for the time of some tests."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

USER = "amcl"
MISSING = "PostgreSQL is not installed (apt-get install postgresql)"
_START = 30.0  # seconds


@contextmanager
def postgres() -> Iterator[str | None]:
    """The address of an empty database on loopback, with a password that needs escapes.

    None where PostgreSQL is not installed.
    """
    binaries = _binaries()
    if binaries is None:
        yield None
        return
    password = f"p@ss/{secrets.token_hex(8)}"
    folder = Path(tempfile.mkdtemp(prefix="amcl-postgres-"))  # one that another user can reach
    try:
        (folder / "password").write_text(password, encoding="utf-8")
        if os.geteuid() == 0:  # PostgreSQL refuses to be run by root
            shutil.chown(folder, "postgres")
            shutil.chown(folder / "password", "postgres")
        make = "--auth=scram-sha-256 --encoding=UTF8 --locale=C --no-sync --no-instructions"
        words = [binaries / "initdb", *make.split(), f"--username={USER}"]
        words += [f"--pwfile={folder / 'password'}", f"--pgdata={folder / 'data'}"]
        subprocess.run(_as_user(words), check=True, capture_output=True, timeout=60)
        with _server(binaries, folder) as port:
            yield f"postgresql://{USER}:{quote(password, safe='')}@127.0.0.1:{port}/postgres"
    finally:
        shutil.rmtree(folder)


@contextmanager
def _server(binaries: Path, folder: Path) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [binaries / "postgres", "-D", folder / "data", "-h", "127.0.0.1", "-p", str(port)]
    words += ["-k", folder, "-F"]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(_as_user(words), stdout=log, stderr=log) as server,
    ):
        try:
            ready = [binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
            end = time.monotonic() + _START
            while subprocess.run(ready, check=False).returncode:
                assert server.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < end, (folder / "log").read_text()
                time.sleep(0.05)
            yield port
        finally:
            server.send_signal(signal.SIGINT)  # it drops its connections, and ends
            server.wait(30)


def _binaries() -> Path | None:
    """The newest PostgreSQL; None without any, or where root has no user to run it."""
    users = {entry.pw_name for entry in pwd.getpwall()}
    if os.geteuid() == 0 and ("postgres" not in users or shutil.which("setpriv") is None):
        return None
    installed = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if found := shutil.which("initdb"):
        installed.append(Path(found).resolve().parent)
    whole = [path for path in installed if (path / "pg_isready").is_file()]
    return max(whole, default=None)


def _as_user(words: list[object]) -> list[str]:
    command = [str(word) for word in words]
    if os.geteuid() != 0:
        return command
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
