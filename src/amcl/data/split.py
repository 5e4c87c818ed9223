"""Seeded choices of images in which every class has its share."""

import torch

_SUBSET_SEED = 0


def hold_out(labels: torch.Tensor, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Hold out `count` images, each class by its share.

    No class is held out whole: where classes are too small for it, fewer than `count` are.

    Args:
        labels: Classes (N,).
        count: Number of images to hold out.
        seed: Seed of the choice.

    Returns:
        Indices of the remaining images and of those held out, both sorted.

    Example:
        >>> labels = torch.tensor([0, 0, 0, 0, 1, 1])
        >>> remaining, held_out = hold_out(labels, 3, seed=0)
        >>> labels[held_out]
        tensor([0, 0, 1])
    """
    return _choose_by_share(labels, count, seed, least_remaining=1)


def choose_subset(
    labels: torch.Tensor, count: int | None, usable: torch.Tensor | None = None
) -> torch.Tensor:
    """Choose `count` images, each class by its share, the same ones whatever a run's seed.

    Args:
        labels: Classes (N,).
        count: Number of images; None takes all.
        usable: True (N,) for images that may be chosen; None for all.

    Returns:
        Indices, sorted.

    Example:
        >>> labels = torch.tensor([0, 0, 0, 0, 1, 1])
        >>> labels[choose_subset(labels, 3)]
        tensor([0, 0, 1])
    """
    if usable is None:
        usable = torch.ones(len(labels), dtype=torch.bool)
    if count is None:
        return usable.nonzero()[:, 0]
    total = int(usable.sum())
    if count > total:
        raise ValueError(
            f"subset={count} is more than the {total:,} images there are: lower it, or leave it "
            "out to take them all."
        )
    return _choose_by_share(labels, count, _SUBSET_SEED, least_remaining=0, usable=usable)[1]


def split_train_validation(
    labels: torch.Tensor,
    count: int,
    seed: int,
    subset: int | None = None,
    usable: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose images to train on and `count` images to hold out.

    Args:
        labels: Classes (N,).
        count: Number of images to hold out.
        seed: Seed of the choice.
        subset: Number of images to train on; None for all that are not held out. It is chosen
            first and is the same for every seed: others are held out.
        usable: True (N,) for images that the subset may be chosen from; None for all.

    Returns:
        Indices of the images to train on and of those held out, both sorted.
    """
    if subset is None:
        return hold_out(labels, count, seed)
    train = choose_subset(labels, subset, usable)
    others = torch.ones(len(labels), dtype=torch.bool).index_fill_(0, train, False).nonzero()[:, 0]
    if count and len(others) <= count:
        raise ValueError(
            f"subset={subset} of {len(labels):,} images leaves {len(others):,} to hold {count:,} "
            "out of: lower subset or validation."
        )
    return train, others[hold_out(labels[others], count, seed)[1]]


def sample(total: int, count: int, seed: int) -> torch.Tensor:
    """Return `count` of `total` indices at random, or all of them if there are fewer; sorted."""
    if count >= total:
        return torch.arange(total)
    chosen = torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:count]
    return chosen.sort().values


def _choose_by_share(
    labels: torch.Tensor,
    count: int,
    seed: int,
    least_remaining: int,
    usable: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the remaining indices and the chosen ones, sorted.

    At least `least_remaining` images of each class remain. Where not all images are `usable`,
    others of the same classes are chosen instead.
    """
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    if usable is not None:
        shuffled = shuffled[usable[shuffled]]
    _, class_index = torch.unique(labels, return_inverse=True)
    sizes = class_index[shuffled].bincount()
    # By class, in shuffled order within each: the first few of a class are its share.
    by_class = shuffled[class_index[shuffled].argsort(stable=True)]
    rank = torch.arange(len(shuffled)) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    chosen = rank < _shares(sizes, count, least_remaining).repeat_interleave(sizes)
    return by_class[~chosen].sort().values, by_class[chosen].sort().values


def _shares(sizes: torch.Tensor, count: int, least_remaining: int) -> torch.Tensor:
    """Return whole shares that add up to `count`: rounded down, the largest remainders up."""
    exact = sizes * (count / max(int(sizes.sum()), 1))
    shares = exact.floor().long()
    missing = max(count - int(shares.sum()), 0)
    order = (exact - shares).argsort(descending=True, stable=True)
    shares[order[:missing]] += 1
    return torch.minimum(shares, sizes - least_remaining)
