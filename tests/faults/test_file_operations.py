"""A process that is killed, or whose disk is full, at each of its file operations loses nothing.

Afterwards the command is run again, as a user would, and must end as if nothing had happened.
"""

import random
from pathlib import Path

import pytest

from faults.commands import COMMANDS, Command, copy, make_configs, make_pictures, make_shapes
from faults.injection import CRASH, Fault, import_modules_of, run

SAMPLE = 4  # operations that the fast tests try, the first and the last among them
FAST = ("pretrain", "evaluate", "export", "embed", "pack")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """Pictures and settings; ``run`` below it has a trained run too. Do not write into it."""
    folder = tmp_path_factory.mktemp("faults")
    work = folder / "work"  # settings hold absolute paths: every attack is made in this folder
    make_pictures(work)
    make_shapes(work)
    make_configs(work)
    copy(work, folder / "new")
    outcome = run(lambda: COMMANDS["pretrain"](work), work / "out")
    assert outcome.code == 0, outcome.output
    copy(work, folder / "run")
    return folder


def undisturbed(command: Command, prepared: Path) -> tuple[object, int]:
    """The result of a command that nothing happens to, and the number of its operations."""
    before = prepared / ("run" if command.needs_run else "new")
    work = copy(before, prepared / "work")
    import_modules_of(lambda: command(work), work / "out")
    copy(before, work)
    outcome = run(lambda: command(work), work / "out")
    assert outcome.code == 0, outcome.output
    assert outcome.operations >= command.at_least
    return command.result(work), outcome.operations


def attack(command: Command, prepared: Path, fault: Fault, at: int, expected: object) -> None:
    """Let one operation go wrong, run the command again, and compare."""
    work = copy(prepared / ("run" if command.needs_run else "new"), prepared / "work")
    outcome = run(lambda: command(work), work / "out", fault, at)
    if fault == "kill":
        assert outcome.code == -9, (at, outcome.output)
    else:
        assert outcome.code != CRASH, (at, outcome.output)
        assert "Traceback" not in outcome.output, (at, outcome.output)
    again = run(lambda: command(work, again=True), work / "out")
    assert again.code == 0, (at, outcome.output, again.output)
    assert "Traceback" not in again.output, (at, again.output)
    assert command.result(work) == expected, (at, outcome.output, again.output)
    assert not list((work / "out").rglob("*.writing")), at


@pytest.mark.parametrize("fault", ["kill", "full disk"])
@pytest.mark.parametrize("name", FAST)
def test_some_operations(name: str, fault: Fault, prepared: Path):
    expected, count = undisturbed(COMMANDS[name], prepared)
    between = random.Random(0).sample(range(2, count), SAMPLE - 2)
    for at in (1, *sorted(between), count):
        attack(COMMANDS[name], prepared, fault, at, expected)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["kill", "full disk"])
@pytest.mark.parametrize("name", COMMANDS)
def test_every_operation(name: str, fault: Fault, prepared: Path, record):
    expected, count = undisturbed(COMMANDS[name], prepared)
    for at in range(1, count + 1):
        attack(COMMANDS[name], prepared, fault, at, expected)
    record(f"{name}: {fault} before each of its file operations", count)
