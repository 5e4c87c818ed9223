"""Two processes on gloo give the loss and the gradients of one process on the whole batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from distributed_cases import CASES, run

WORLD_SIZE = 2


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of two processes found, for all cases."""
    folder = tmp_path_factory.mktemp("ranks")
    worker = Path(__file__).parents[1] / "distributed_worker.py"
    processes = [
        subprocess.Popen(
            [sys.executable, str(worker), str(rank), str(WORLD_SIZE), str(folder)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(WORLD_SIZE)
    ]
    try:
        for process in processes:
            _, error = process.communicate(timeout=120)
            assert process.returncode == 0, error
    finally:
        for process in processes:
            process.kill()
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(WORLD_SIZE)]


@pytest.mark.parametrize("case", CASES)
def test_two_processes_equal_one(ranks, case):
    whole_loss, whole_gradients = run(case, rank=0, world_size=1)
    losses = torch.stack([results[case][0] for results in ranks])
    torch.testing.assert_close(losses.mean(), whole_loss, rtol=1e-10, atol=1e-10)
    assert whole_gradients.keys() == ranks[0][case][1].keys()
    for name, whole in whole_gradients.items():
        if not name.endswith("bias"):  # centering takes some of them away
            assert whole.abs().max() > 1e-12, name
        for results in ranks:
            torch.testing.assert_close(results[case][1][name], whole, rtol=1e-9, atol=1e-11)
