"""Two processes on gloo give the loss and the gradients of one process on the whole batch."""

import pytest
import torch

from distributed_cases import CASES, METHOD_CASES, run


@pytest.fixture
def ranks(two_processes):
    """The losses and gradients of each of two processes, for all cases."""
    return [results["losses"] for results in two_processes]


@pytest.mark.parametrize("case", [*CASES, *METHOD_CASES])
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
