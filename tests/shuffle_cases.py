"""What two processes exchange and agree on, in one of them."""

import torch
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


def run(me: int) -> dict:
    """What one process computes."""
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
