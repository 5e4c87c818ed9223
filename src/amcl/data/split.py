"""Which images are held out: seeded, and with every class in its share."""

import torch


def hold_out(labels: torch.Tensor, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices to keep and `count` indices to hold out, each class by its share; both sorted.

    No class is held out whole: where classes are too small for it, fewer than `count` are.

    >>> kept, held = hold_out(torch.tensor([0, 0, 0, 0, 1, 1]), 3, seed=0)
    >>> torch.tensor([0, 0, 0, 0, 1, 1])[held]
    tensor([0, 0, 1])
    """
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    _, of_class, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
    # By class, in shuffled order within each: the first few of a class are its share.
    by_class = shuffled[of_class[shuffled].argsort(stable=True)]
    place = torch.arange(len(labels)) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    chosen = place < _shares(sizes, count).repeat_interleave(sizes)
    return by_class[~chosen].sort().values, by_class[chosen].sort().values


def sample(total: int, count: int, seed: int) -> torch.Tensor:
    """`count` of `total` indices, or all of them; sorted."""
    if count >= total:
        return torch.arange(total)
    chosen = torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:count]
    return chosen.sort().values


def _shares(sizes: torch.Tensor, count: int) -> torch.Tensor:
    """Whole shares that add up to `count`: rounded down, then the largest remainders up."""
    exact = sizes * (count / max(int(sizes.sum()), 1))
    shares = exact.floor().long()
    left = max(count - int(shares.sum()), 0)
    order = (exact - shares).argsort(descending=True, stable=True)
    shares[order[:left]] += 1
    return torch.minimum(shares, sizes - 1)
