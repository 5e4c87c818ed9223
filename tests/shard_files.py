"""Shards of small pictures, written by Python's own tarfile."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image


def picture(seed: int, side: int = 24) -> bytes:
    """A PNG of random pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def write_shard(
    path: Path, files: Iterable[tuple[str, bytes]], kind: int = tarfile.GNU_FORMAT
) -> Path:
    """An archive of files by their names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=kind) as archive:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def samples(numbers: Iterable[int]) -> list[tuple[str, bytes]]:
    """Files of labeled pictures: the label is the number modulo 2."""
    return [
        file
        for n in numbers
        for file in ((f"{n:03}.png", picture(n)), (f"{n:03}.cls", str(n % 2).encode()))
    ]


def folder_and_shards(path: Path, count: int = 40) -> tuple[str, str]:
    """The same labeled pictures in the same order as a folder and as two shards."""
    numbers = [*range(0, count, 2), *range(1, count, 2)]
    for n in numbers:
        file = path / "folder" / str(n % 2) / f"{n:03}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture(n))
    for shard in range(2):
        half = numbers[shard * count // 2 : (shard + 1) * count // 2]
        write_shard(path / "shards" / f"{shard:04}.tar", samples(half))
    return str(path / "folder"), str(path / "shards")
