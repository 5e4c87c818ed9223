"""A record of the attacks that were survived.

Lines are added to the file that the environment variable AMCL_FAULT_TABLE names; `make test-faults`
prints them as a table. A test that fails records nothing.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image

from amcl.cli import main
from amcl.training import pretrain
from faults.hostile_values import CPU
from tiny_runs import tiny_vit

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


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """A folder with a run that is trained, evaluated and exported. Do not write into it."""
    folder = tmp_path_factory.mktemp("hostile")
    generator = torch.Generator().manual_seed(0)
    for i in range(24):
        name = ("caf\udce9", "b\x1b[31m", "c")[i % 3]  # not UTF-8; a color; nothing special
        path = folder / "pictures" / name / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = torch.randint(256, (16, 16, 3), dtype=torch.uint8, generator=generator)
        Image.fromarray(pixels.numpy()).save(path)
    config = tiny_vit("simclr", folder / "pictures", knn_k=3, epochs=1)
    pretrain(config, folder / "run")
    evaluate = ["evaluate", str(folder / "run"), "--protocols", "knn", "--workers", "0", *CPU]
    assert main(evaluate) == 0
    assert main(["export", str(folder / "run"), *CPU]) == 0
    return folder


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    """A copy of the run, beside a file that nobody may touch."""
    (tmp_path / "escape").write_text("thesis")
    return shutil.copytree(original / "run", tmp_path / "runs" / "run")
