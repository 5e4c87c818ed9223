"""Hostile values in files, and what commands may do with them."""

import copy
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amcl.cli import main

VALUES = [
    *(None, True, -1, 0, 2**70, 1.5, float("nan"), "", "x", "../../escape", "a\x1b[31mb\n<b>"),
    *([], ["x"], [[[]]], {}, {"x": 1}, {"../escape": {"images": 1}}),
]
FAST = 10  # replacements of each file in the fast tests
SLOW = 400  # and in the slow ones, at most
CPU = ["--threads", "1"]
FEW = ["--images", "8", *CPU]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values within a value."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list) and len(value) < 20:
        for i, item in enumerate(value):
            yield from places(item, (*path, i))


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    """A copy of a value that has another value at a place."""
    changed = copy.deepcopy(value)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = by
    return changed


def variants(value: Any, count: int) -> list[Any]:
    """Copies of a value with one replacement each, at most `count` of them."""
    pairs = [(path, by) for path in places(value) for by in VALUES]
    pairs = random.Random(count).sample(pairs, min(count, len(pairs)))
    return [replaced(value, path, by) for path, by in pairs]


def check(commands: list[list[str]], run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run commands; each must end with an exit code, and print nothing that a terminal acts on."""
    for words in commands:
        code = main(words)
        output = capsys.readouterr()
        assert code in (0, 1, 2, 3, 4), words
        assert "Traceback" not in output.err + output.out
        assert "there is no option" not in output.err
        assert "\x1b" not in output.err + output.out
        if code:
            # The error is the last message: others are on what is done before.
            assert re.search(r"^amcl \w+: .*\n(  .*\n)*\Z", output.err, re.MULTILINE), output.err
    assert (run.parents[1] / "escape").read_text() == "thesis"
    for page in run.parent.rglob("*.html"):
        assert "\x1b" not in page.read_text()


def attack(
    run: Path,
    file: Path,
    texts: list[str],
    commands: list[list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Write each text to a file of the run, and run the commands."""
    before = file.read_bytes()
    for words in commands:
        assert main(words) == 0, words  # as it is, the run is fine
    capsys.readouterr()
    for text in texts:
        file.write_text(text, encoding="utf-8")
        check(commands, run, capsys)
        for page in run.parent.glob("*.html"):
            page.unlink()
    file.write_bytes(before)


def dumped(variant: Any) -> str:
    return json.dumps(variant)


def amounts(function: Callable[..., None]) -> Callable[..., None]:
    """Run a test with a few replacements, and as a slow test with many."""
    mark = pytest.mark.parametrize("count", [FAST, pytest.param(SLOW, marks=pytest.mark.slow)])
    return mark(function)


def commands_on(run: Path, *names: str) -> list[list[str]]:
    every = {
        "compare": ["compare", str(run)],
        "report": [
            "report",
            str(run),
            "--images",
            "8",
            *CPU,
            "--out",
            str(run.parent / "page.html"),
        ],
        "export": ["export", str(run), "--overwrite", *CPU],
        "cost": ["cost", str(run), *CPU],
        "resume": ["pretrain", "--resume", str(run)],
    }
    return [every[name] for name in names]
