"""Random numbers of modules, apart from all others."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def own_randomness(seed: int = 0) -> Iterator[None]:
    """Seed the weights of modules made in this context; other random numbers do not change."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
