"""Randomness as a function of names: each use has its own stream, whatever ran before it."""

import hashlib

import torch


def seed_of(*names: int | str) -> int:
    """A seed for this use of randomness, such as `seed_of(seed, "order", epoch)`."""
    digest = hashlib.blake2b(repr(names).encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1  # torch takes 63 bits


def generator(*names: int | str) -> torch.Generator:
    """A generator for this use of randomness."""
    return torch.Generator().manual_seed(seed_of(*names))
