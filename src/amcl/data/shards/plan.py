"""Which images go into which shards, under which names."""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from amcl.data.decode import EXTENSIONS
from amcl.data.listing import Listing
from amcl.data.options import Labels
from amcl.data.shards.write import Sample, packed_size
from amcl.data.source import Source
from amcl.data.split_folders import Role
from amcl.files import digest
from amcl.text_files import to_json

logger = logging.getLogger("amcl")

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kKMGT]?)(i?)B", re.ASCII)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True)
class ShardSize:
    """The size of a shard in bytes, or in images; the other is None."""

    text: str
    size: int | None = None
    images: int | None = None

    @classmethod
    def parse(cls, text: str) -> "ShardSize":
        """Return the size that a user wrote.

        >>> ShardSize.parse("500MB").size, ShardSize.parse("1.5 GiB").size
        (500000000, 1610612736)
        >>> ShardSize.parse("10000").images
        10000
        """
        if text.isdecimal() and int(text) > 0:
            return cls(text, images=int(text))
        match = _SIZE.fullmatch(text)
        size = 0
        if match is not None:
            number, prefix, binary = match.groups()
            size = int(float(number) * (1024 if binary else 1000) ** _POWERS[prefix.upper()])
        if size < 1:
            raise ValueError(
                f"shard_size must be a number of images, such as 10000, or of bytes, such as 500MB "
                f"or 1GiB, got {text!r}."
            )
        return cls(text, size=size)

    def cut(self, sizes: Sequence[int]) -> list[range]:
        """Return the images of each shard, given the bytes of all images; none is empty.

        >>> ShardSize.parse("100B").cut([60, 30, 20, 500])
        [range(0, 2), range(2, 3), range(3, 4)]
        """
        starts: list[int] = []
        total = 0
        for index, size in enumerate(sizes):
            is_full = self.size is not None and total + size > self.size
            if not starts or is_full or index - starts[-1] == self.images:
                starts.append(index)
                total = 0
            total += size
        return [range(a, b) for a, b in zip(starts, [*starts[1:], len(sizes)], strict=True)]


class Plan:
    """Which images go into which shards.

    Args:
        source: The images.
        labels: Which folders are classes.
        size: The size of shards.
        shuffle: Seed of a random order; None keeps the order.
    """

    def __init__(
        self, source: Source, labels: Labels, size: ShardSize, shuffle: int | None
    ) -> None:
        self.source = source
        self.size = size
        self.shuffle = shuffle
        self.labels = labels
        self.classes: tuple[str, ...] = ()
        self.listings = {
            role: self._ordered(listing, number)
            for number, (role, listing) in enumerate(self._labeled().items())
        }
        self.keys: dict[Role, list[str]] = {}
        self.paths: dict[Role, list[str]] = {}
        for role, listing in self.listings.items():
            parts = source.parts(listing)
            self.paths[role] = ["/".join(part) for part in parts]
            self.keys[role] = unique_keys(parts)

    def _labeled(self) -> dict[Role, Listing]:
        """Return the images of each split with their classes, where they have any."""
        listings = self.source.listings()
        for line in self.source.warnings(listings):
            logger.warning(line)
        roles = [role for role in listings if role == "train" or self.source.has(role)]
        if self.labels == "none":
            return {role: listings[role] for role in roles}
        labeled = {}
        for role in roles:
            listing, reason = listings[role], ""
            if len(listing):
                listing, reason = self.source.label(role, listing, self.labels, self.classes)
            if reason:
                logger.info("%s: %s", self.source.where(role, short=True), reason)
            if role == "train":
                self.classes = listing.classes
            labeled[role] = listing if listing.classes == self.classes else listings[role]
        return labeled

    def _ordered(self, listing: Listing, number: int) -> Listing:
        if self.shuffle is None:
            return listing
        generator = torch.Generator().manual_seed(self.shuffle + number)
        return listing.select(torch.randperm(len(listing), generator=generator))

    @cached_property
    def sizes(self) -> dict[Role, list[int]]:
        """About the number of bytes that each image of a split takes."""
        return {
            role: [packed_size(listing.records[index].size) for index in range(len(listing))]
            for role, listing in self.listings.items()
        }

    @cached_property
    def shards(self) -> dict[str, tuple[Role, range]]:
        """The split and the images of each shard, by its path."""
        several = len(self.listings) > 1
        shards: dict[str, tuple[Role, range]] = {}
        for role in self.listings:
            for number, part in enumerate(self.size.cut(self.sizes[role])):
                shards[f"{f'{role}/' * several}{number:06d}.tar"] = role, part
        return shards

    def samples(self, shard: str) -> Iterator[Sample]:
        """Yield the images of a shard."""
        role, part = self.shards[shard]
        return (self._sample(role, index) for index in part)

    def _sample(self, role: Role, index: int) -> Sample:
        listing = self.listings[role]
        key, path = self.keys[role][index], self.paths[role][index]
        if listing.labels is None:
            return Sample(listing.records[index], key, path)
        label = int(listing.labels[index])
        return Sample(listing.records[index], key, path, label, listing.classes[label])

    def header(self) -> dict[str, Any]:
        """Return what is different for other images and options."""
        parts = (part for listing in self.listings.values() for part in _content(listing))
        return {
            "shard_size": self.size.text,
            "labels": self.labels,
            "shuffle": self.shuffle,
            "images": digest(parts),
        }


def unique_keys(parts: Sequence[Sequence[str]]) -> list[str]:
    """Return a key for each image: its path without its extension, no dots in its name.

    >>> unique_keys([["a", "b.jpg"], ["a", "b.png"], ["c.1.jpg"]])
    ['a/b', 'a/b-2', 'c_1']
    """
    taken: set[str] = set()
    keys = []
    for *folders, name in parts:
        stem, extension = os.path.splitext(name)
        stem = stem if extension.lower() in EXTENSIONS else name
        plain = "/".join([*folders, stem.replace(".", "_")])
        key = plain
        number = 1
        while key in taken:
            number += 1
            key = f"{plain}-{number}"
        taken.add(key)
        keys.append(key)
    return keys


def _content(listing: Listing) -> Iterator[bytes]:
    yield from listing.records.fingerprint()
    if listing.labels is not None:
        yield listing.labels.numpy().tobytes()
        yield to_json(listing.classes).encode()
