"""A record of the attacks that were survived.

Lines are added to the file that the environment variable AMCL_FAULT_TABLE names; `make test-faults`
prints them as a table. A test that fails records nothing.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Record = Callable[[str, int], None]


def _write(lines: list[str]) -> None:
    if name := os.environ.get("AMCL_FAULT_TABLE"):
        with Path(name).open("a", encoding="utf-8") as file:
            file.writelines(lines)


@pytest.fixture
def record() -> Iterator[Record]:
    """Record that attacks of a kind were survived, and their number."""
    lines: list[str] = []
    yield lambda attack, count: lines.append(f"{attack}\t{count}\n")
    _write(lines)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Record each test of a module that names its ATTACK as one attack."""
    report = yield
    attack = getattr(item.module, "ATTACK", None)
    if attack is not None and report.passed and call.when == "call":
        _write([f"{attack}\t1\n"])
    return report
