"""Which images are held out: seeded, and with every class in its share."""

import torch

_SUBSET_SEED = 0


def hold_out(labels: torch.Tensor, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices to keep and `count` indices to hold out, each class by its share; both sorted.

    No class is held out whole: where classes are too small for it, fewer than `count` are.

    >>> kept, held = hold_out(torch.tensor([0, 0, 0, 0, 1, 1]), 3, seed=0)
    >>> torch.tensor([0, 0, 0, 0, 1, 1])[held]
    tensor([0, 0, 1])
    """
    return _by_share(labels, count, seed, spared=1)


def _by_share(
    labels: torch.Tensor, count: int, seed: int, spared: int, usable: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The indices left and those chosen; `spared` images of each class are never chosen.

    Where not all images are `usable`, others of the same classes take their places.
    """
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    if usable is not None:
        shuffled = shuffled[usable[shuffled]]
    _, of_class = torch.unique(labels, return_inverse=True)
    sizes = of_class[shuffled].bincount()
    # By class, in shuffled order within each: the first few of a class are its share.
    by_class = shuffled[of_class[shuffled].argsort(stable=True)]
    place = torch.arange(len(shuffled)) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    chosen = place < _shares(sizes, count, spared).repeat_interleave(sizes)
    return by_class[~chosen].sort().values, by_class[chosen].sort().values


def subset(
    labels: torch.Tensor, count: int | None, usable: torch.Tensor | None = None
) -> torch.Tensor:
    """`count` indices, each class by its share, sorted: the same ones whatever a run's seed.

    `usable` (N,) says which images can be chosen at all.

    >>> torch.tensor([0, 0, 0, 0, 1, 1])[subset(torch.tensor([0, 0, 0, 0, 1, 1]), 3)]
    tensor([0, 0, 1])
    >>> len(subset(torch.arange(6), None))
    6
    """
    total = len(labels) if usable is None else int(usable.sum())
    if count is None:
        return torch.arange(len(labels)) if usable is None else usable.nonzero()[:, 0]
    if count > total:
        raise ValueError(
            f"subset={count} is more than the {total:,} images there are: lower it, or leave it "
            "out to take them all."
        )
    return _by_share(labels, count, _SUBSET_SEED, spared=0, usable=usable)[1]


def parted(
    labels: torch.Tensor,
    count: int,
    seed: int,
    chosen: int | None = None,
    usable: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices to train on and `count` to hold out; `chosen`: the size of a subset to train on.

    The subset comes first and is the same for every seed: others are held out.
    """
    if chosen is None:
        return hold_out(labels, count, seed)
    kept = subset(labels, chosen, usable)
    rest = torch.ones(len(labels), dtype=torch.bool).index_fill_(0, kept, False).nonzero()[:, 0]
    if count and len(rest) <= count:
        raise ValueError(
            f"subset={chosen} of {len(labels):,} images leaves {len(rest):,} to hold {count:,} "
            "out of: lower subset or validation."
        )
    return kept, rest[hold_out(labels[rest], count, seed)[1]]


def sample(total: int, count: int, seed: int) -> torch.Tensor:
    """`count` of `total` indices, or all of them; sorted."""
    if count >= total:
        return torch.arange(total)
    chosen = torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:count]
    return chosen.sort().values


def _shares(sizes: torch.Tensor, count: int, spared: int) -> torch.Tensor:
    """Whole shares that add up to `count`: rounded down, then the largest remainders up."""
    exact = sizes * (count / max(int(sizes.sum()), 1))
    shares = exact.floor().long()
    left = max(count - int(shares.sum()), 0)
    order = (exact - shares).argsort(descending=True, stable=True)
    shares[order[:left]] += 1
    return torch.minimum(shares, sizes - spared)
