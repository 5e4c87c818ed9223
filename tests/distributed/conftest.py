"""Two processes that communicate by gloo, started once for all tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from shuffle_cases import WORLD_SIZE


@pytest.fixture(scope="session")
def two_processes(tmp_path_factory):
    """What each process computed: `losses`, `shuffle` and `unequal`."""
    folder = tmp_path_factory.mktemp("ranks")
    worker = Path(__file__).parents[1] / "distributed_worker.py"
    done = subprocess.run(
        [sys.executable, str(worker), str(WORLD_SIZE), str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(WORLD_SIZE)]
