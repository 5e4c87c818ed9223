"""An error on one of several processes ends all of them, with its message."""

import os
import subprocess
import sys
import time

import pytest
import torch.distributed as dist

from amcl.training import ranks

FAILING = """
from dataclasses import dataclass
from typing import ClassVar

from amcl.distributed import rank
from amcl.methods import SimCLR, SimCLRSettings, register_method


@dataclass(frozen=True, kw_only=True)
class FailingSettings(SimCLRSettings):
    name: ClassVar[str] = "failing"
    fails_on: int = 1


@register_method(FailingSettings)
class Failing(SimCLR):
    steps = 0

    def forward(self, views, watch=False):
        self.steps += 1
        if self.steps == 2 and rank() == self.settings.fails_on:
            raise ValueError("the cat sat on the keyboard")
        return super().forward(views, watch)
"""


@pytest.mark.slow
@pytest.mark.parametrize("failing", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_an_error_on_one_process_ends_both_with_its_message(tmp_path, failing):
    (tmp_path / "amcl_failing.py").write_text(FAILING, encoding="utf-8")
    info = tmp_path / "amcl_failing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: amcl-failing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[amcl.methods]\nfailing = amcl_failing\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    small = "--subset 64 --batch-size 16 --epochs 2 --threads 1 --probe none --workers 0"
    words = f"pretrain --method failing --plain --fails-on {failing} --devices 2 {small} --out run"
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "amcl", *words.split(), "--accelerator", "cpu"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert time.monotonic() - begin < 100
    assert done.returncode != 0
    told = " ".join(done.stderr.split())
    assert told.count("the cat sat on the keyboard") == 2  # a line of each process
    assert f"process {failing}: the cat" in told
    assert f"(this is process {1 - failing})" in told
    assert "Traceback" not in told


class Store:
    """The store of two processes, which is gone once something of this name is wanted of it."""

    def __init__(self, gone: str) -> None:
        self.gone = gone

    def _ask(self, key: str) -> None:
        if key == self.gone:
            raise dist.DistNetworkError("Connection reset by peer")

    def set(self, key: str, value: str) -> None:
        self._ask(key)

    def add(self, key: str, number: int) -> int:
        self._ask(key)
        return number

    def check(self, keys: list[str]) -> bool:
        return False


@pytest.mark.parametrize("gone", ["amcl/error", "amcl/seen"])
def test_an_error_is_not_hidden_where_the_others_are_gone(monkeypatch, gone):
    """By one of the connection, as it would be where the process that held the store had ended."""
    monkeypatch.setattr(ranks, "world_size", lambda: 2)
    monkeypatch.setattr(ranks, "rank", lambda: 1)
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", lambda: Store(gone))
    with pytest.raises(ValueError, match="the cat sat"), ranks.shared_errors():
        raise ValueError("the cat sat on the keyboard")
