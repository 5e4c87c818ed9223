"""The manifest of a folder of shards: names, hashes, numbers of images and sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from amcl.data.shards.index import FOLDER
from amcl.data.shards.write import WrittenShard
from amcl.data.split_folders import role_of
from amcl.files import write_text
from amcl.text_files import read_json, require, to_json

NAME = "manifest.json"
STATE = "packing.jsonl"  # in the folder of indices: shards that are finished
_FORMAT = 1


class ShardRow(TypedDict):
    """A shard in a file: `WrittenShard` as a table."""

    name: str
    sha256: str
    images: int
    bytes: int
    skipped: list[list[str]]


class _File(TypedDict):
    format: int
    shards: list[ShardRow]


@dataclass(frozen=True)
class Manifest:
    """The shards that were packed together.

    Args:
        folder: Their folder.
        shards: What was written, in the order of names.
    """

    folder: Path
    shards: tuple[WrittenShard, ...]

    @property
    def images(self) -> int:
        """Number of images in all shards."""
        return sum(shard.images for shard in self.shards)

    @property
    def size(self) -> int:
        """Size of all shards in bytes."""
        return sum(shard.size for shard in self.shards)

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Path and reason of each image that could not be read."""
        return [file for shard in self.shards for file in shard.skipped]

    def write(self) -> None:
        """Write it into its folder."""
        content: dict[str, Any] = {
            "format": _FORMAT,
            "images": self.images,
            "bytes": self.size,
            "shards": [to_row(shard) for shard in self.shards],
        }
        write_text(self.folder / NAME, to_json(content) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "Manifest | None":
        """Return the manifest in a folder, or in the folder above that of a split; None without.

        Raises:
            ValueError: It is damaged, or of a later version of amcl.
        """
        path = folder / NAME
        if not path.is_file():
            return cls.read(folder.parent) if role_of(folder.name) is not None else None
        content = read_json(path)
        require(content, _File, path)
        if content["format"] != _FORMAT:
            raise ValueError(f"{path} was written by a later version of amcl: use that one.")
        return cls(folder, tuple(from_row(row, path) for row in content["shards"]))


def is_unfinished(folder: Path) -> bool:
    """Return whether a folder, or that of a split in it, is still to be packed to its end."""
    if (folder / FOLDER / STATE).is_file():
        return not (folder / NAME).is_file()
    return role_of(folder.name) is not None and is_unfinished(folder.parent)


def to_row(shard: WrittenShard) -> ShardRow:
    """Return a shard as a table."""
    skipped = [list(file) for file in shard.skipped]
    return ShardRow(
        name=shard.name,
        sha256=shard.sha256,
        images=shard.images,
        bytes=shard.size,
        skipped=skipped,
    )


def from_row(row: Any, where: Path) -> WrittenShard:
    """Return the shard in a table that was read; an error if it leads out of its folder."""
    require(row, ShardRow, where)
    parts = Path(row["name"]).parts
    if not parts or Path(row["name"]).is_absolute() or ".." in parts or "\0" in row["name"]:
        raise ValueError(f"{where} is damaged: {row['name']!r:.60} is no name of a shard.")
    pairs: Sequence[Any] = row["skipped"]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"{where} is damaged: skipped is no list of paths and reasons.")
    skipped = tuple((path, reason) for path, reason in pairs)
    return WrittenShard(row["name"], row["sha256"], row["images"], row["bytes"], skipped)
