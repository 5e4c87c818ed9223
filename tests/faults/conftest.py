"""A record of the attacks: how many were tried, and how many were survived."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Record = Callable[[str, int], None]


@pytest.fixture
def record() -> Iterator[Record]:
    """Record that attacks were survived; a test that fails records nothing.

    Lines are added to the file that the environment variable AMCL_FAULT_TABLE names:
    ``python tests/faults/table.py FILE`` prints them as a table.
    """
    lines: list[str] = []

    def add(attack: str, count: int) -> None:
        lines.append(f"{attack}\t{count}\n")

    yield add
    if name := os.environ.get("AMCL_FAULT_TABLE"):
        with Path(name).open("a", encoding="utf-8") as file:
            file.writelines(lines)
