"""Two processes on gloo exchange items, give them back, and agree on means.

This file is also the program that each process runs: python test_shuffle.py RANK WORLD FOLDER.
"""

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from amcl.distributed import mean_over_ranks, rank, shuffle, world_size
from amcl.modules import Queue

WORLD_SIZE, N = 2, 8


class Flat(nn.Module):
    dim = 4

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, self.dim), nn.BatchNorm1d(self.dim))

    def forward(self, x):
        return self.layers(x)


def moco(shuffled):
    from amcl.methods import MoCoSettings, make_method

    torch.manual_seed(0)
    settings = MoCoSettings(heads=2, projector=(3,), queue=2 * WORLD_SIZE * N, shuffle=shuffled)
    return make_method(settings, Flat())


def run(me: int, world: int) -> dict:
    """What one process finds."""
    torch.manual_seed(me)  # processes' own random numbers are unlike
    items = (me * N + torch.arange(N)).float().view(N, 1, 1).expand(N, 2, 3)
    exchanged = shuffle(items)
    queue = Queue(1, WORLD_SIZE * N, 1)
    queue.push(items[:, :1, 0].unsqueeze(0))
    with_grad = torch.tensor([1.0 + me, 10.0 * me], requires_grad=True)
    mean = mean_over_ranks(with_grad)

    x = torch.randn(WORLD_SIZE * N, 3, generator=torch.Generator().manual_seed(5))
    own = x[me * N :][:N]
    keys = {
        f"{mode}, {shuffled}": getattr(moco(shuffled), mode)()._keys_of(own)
        for mode in ("train", "eval")
        for shuffled in (True, False)
    }
    return {
        "rank": rank(),
        "world_size": world_size(),
        "own": items,
        "items": exchanged.items,
        "place": exchanged.order,
        "undone": exchanged.undo(exchanged.items * 10),
        "queue": queue.z,
        "mean": mean.detach(),
        "mean has gradient": mean.requires_grad,
        "unchanged": with_grad.detach(),
        "keys": keys,
    }


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of two processes found."""
    folder = tmp_path_factory.mktemp("shuffle")
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, str(me), str(WORLD_SIZE), str(folder)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for me in range(WORLD_SIZE)
    ]
    try:
        for process in processes:
            _, error = process.communicate(timeout=120)
            assert process.returncode == 0, error
    finally:
        for process in processes:
            process.kill()
    return [torch.load(folder / f"{me}.pt", weights_only=True) for me in range(WORLD_SIZE)]


def test_processes_know_their_place(ranks):
    assert [found["rank"] for found in ranks] == [0, 1]
    assert [found["world_size"] for found in ranks] == [2, 2]


def test_each_item_goes_to_one_process(ranks):
    assert torch.equal(ranks[0]["place"], ranks[1]["place"])
    together = torch.cat([found["items"] for found in ranks])
    assert sorted(together[:, 0, 0].tolist()) == list(range(WORLD_SIZE * N))
    for found in ranks:
        assert found["items"].shape == (N, 2, 3)
        come = found["items"][:, 0, 0] // N
        assert len(set(come.tolist())) == 2  # from both processes


def test_results_come_back_to_where_items_came_from(ranks):
    for found in ranks:
        assert torch.equal(found["undone"], 10 * found["own"])


def test_queue_takes_the_items_of_all_processes_in_their_order(ranks):
    for found in ranks:
        assert found["queue"].flatten().tolist() == list(range(WORLD_SIZE * N))


def test_mean_is_over_processes(ranks):
    for me, found in enumerate(ranks):
        assert found["mean"].tolist() == [1.5, 5.0]
        assert not found["mean has gradient"]
        assert found["unchanged"].tolist() == [1.0 + me, 10.0 * me]


def test_shuffled_keys_are_those_of_their_images(ranks):
    for found in ranks:
        keys = found["keys"]
        torch.testing.assert_close(keys["eval, True"], keys["eval, False"])
        # In training, batch norm has seen the images of others.
        assert not torch.allclose(keys["train, True"], keys["train, False"], atol=1e-3)


def test_one_process_keeps_its_own():
    items = torch.randn(5, 3)
    alone = shuffle(items)
    assert torch.equal(alone.items, items)
    assert torch.equal(alone.undo(2 * items), 2 * items)
    assert torch.equal(mean_over_ranks(items), items)
    assert (rank(), world_size()) == (0, 1)


def test_mean_of_one_process_has_no_gradient_either():
    assert not mean_over_ranks(torch.ones(3, requires_grad=True)).requires_grad


if __name__ == "__main__":
    # timm takes seconds to import, and a stand-in serves as the backbone here.
    sys.modules["amcl.backbones"] = types.ModuleType("amcl.backbones")
    sys.modules["amcl.backbones"].Backbone = Flat
    me, world, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=me, world_size=world
    )
    torch.save(run(me, world), folder / f"{me}.pt")
    dist.destroy_process_group()
