"""What Windows and macOS lack is not needed."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import amcl
from amcl.data.shards import positions

SOURCES = sorted(Path(amcl.__file__).parent.rglob("*.py"))
UNIX_ONLY = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}


def imported(path: Path) -> set[str]:
    """Packages that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def test_no_module_imports_what_only_unix_has():
    assert not {path.name for path in SOURCES if imported(path) & UNIX_ONLY}
    assert any("filelock" in imported(path) for path in SOURCES)


@pytest.mark.slow
def test_training_and_sweeps_without_what_windows_lacks(tmp_path):
    worker = Path(__file__).with_name("windows_like.py")
    path = os.pathsep.join([str(worker.parent), *sys.path])
    done = subprocess.run(
        [sys.executable, worker, tmp_path],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"another process is training in {tmp_path / 'run'} now." in done.stdout
    assert re.search(r"\['(complete|collapsed)', '(complete|collapsed)'\]", done.stdout)
    left = {path.name for path in tmp_path.rglob(".*")} - {".lock"}
    assert left == set()


def test_a_file_is_read_from_a_position_without_pread(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"0123456789")
    number = positions.open_to_read(tmp_path / "file")
    view = memoryview(bytearray(4))
    try:
        for _ in range(2):
            assert positions.read_at(number, 3, 5) == b"567"
            assert positions.read_into(number, view, 8) == 2
            assert bytes(view[:2]) == b"89"
            monkeypatch.delattr(os, "pread", raising=False)
            monkeypatch.delattr(os, "preadv", raising=False)
    finally:
        os.close(number)
