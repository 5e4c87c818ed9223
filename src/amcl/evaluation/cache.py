"""Features on disk, computed once for the same weights, images and transform."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from torch import nn

from amcl.data import Images
from amcl.files import digest, file_digest, whole_file, write_text
from amcl.metrics.features import Features, Transform, feature_batches, features_of, fingerprint
from amcl.text_files import read_json, require, to_json

FORMAT = 1


class FeatureCache:
    """A folder of features, which are mapped from disk rather than read into memory.

    `KEY.npy` holds values (n, D), float32; `KEY.json` describes them, with their checksum.

    Args:
        folder: The folder; it is made when it is first written to.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from amcl.data import MemoryImages
        >>> images = MemoryImages(torch.zeros(10, 3, 8, 8, dtype=torch.uint8))
        >>> transform = Transform(image_size=4)
        >>> model = nn.Flatten()
        >>> with TemporaryDirectory() as folder:
        ...     cache = FeatureCache(Path(folder))
        ...     features = cache.get(
        ...         model, images, transform, lambda: feature_batches(model, images, transform)
        ...     )
        ...     features.values.shape
        torch.Size([10, 48])
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(
        self,
        model: nn.Module,
        images: Images,
        transform: Transform,
        compute: Callable[[], Iterator[Features]],
    ) -> Features:
        """Return the features, from disk if they were computed before.

        Args:
            model: The module that computes them.
            images: The images.
            transform: How an image becomes the input of the model.
            compute: Returns the features batch by batch.
        """
        source = _source(model, images, transform)
        values, description = self._files(source)
        if not description.exists():
            _write(values, description, source, len(images), compute())
        return _read(values, description, source)

    def has(self, model: nn.Module, images: Images, transform: Transform) -> bool:
        """Return whether the features were computed before.

        Args:
            model: The module that computes them.
            images: The images.
            transform: How an image becomes the input of the model.
        """
        return self._files(_source(model, images, transform))[1].exists()

    def path(self, model: nn.Module, images: Images, transform: Transform) -> Path:
        """Return the file that holds the values, a NumPy array (n, D).

        Args:
            model: The module that computes them.
            images: The images.
            transform: How an image becomes the input of the model.
        """
        return self._files(_source(model, images, transform))[0]

    def _files(self, source: dict[str, Any]) -> tuple[Path, Path]:
        key = digest([json.dumps(source, sort_keys=True).encode()])[:16]
        return self.folder / f"{key}.npy", self.folder / f"{key}.json"


def cached_features(
    folder: Path | None,
    model: nn.Module,
    images: Images,
    transform: Transform,
    *,
    device: torch.device | str = "cpu",
    workers: int = 0,
) -> Features:
    """Return features of images, from `folder` if they were computed before.

    Args:
        folder: Folder of a `FeatureCache`; None keeps nothing.
        model: The module that computes the features.
        images: The images.
        transform: How an image becomes the input of the model.
        device: Device of the model.
        workers: Processes that decode pictures.
    """
    if folder is None:
        return features_of(model, images, transform, device=device, workers=workers)

    def compute() -> Iterator[Features]:
        return feature_batches(model, images, transform, device=device, workers=workers)

    return FeatureCache(folder).get(model, images, transform, compute)


def _source(model: nn.Module, images: Images, transform: Transform) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "model": fingerprint(model),
        "images": images.fingerprint(),
        "transform": asdict(transform),
    }


def _write(
    values: Path,
    description: Path,
    source: dict[str, Any],
    total: int,
    batches: Iterator[Features],
) -> None:
    indices: list[torch.Tensor] = []
    unreadable: list[tuple[str, str]] = []
    dim = 0
    # Written, not mapped: a full disk is then an error with a message.
    with whole_file(values) as file:
        for batch in batches:
            if not indices:
                dim = batch.values.shape[1]
                start = _write_header(file, (total, dim))
            file.write(batch.values.numpy().astype("<f4", copy=False).tobytes())
            indices.append(batch.indices)
            unreadable += batch.unreadable
        rows = sum(map(len, indices))
        file.seek(0)
        if _write_header(file, (rows, dim)) != start:
            raise RuntimeError("the header of a NumPy file changed its length")
    facts = {
        **source,
        "shape": [rows, dim],
        "missing": sorted(set(range(total)) - set(torch.cat(indices).tolist())),
        "unreadable": unreadable,
        "sha256": file_digest(values),
    }
    write_text(description, to_json(facts, indent=None))


def _write_header(file: Any, shape: tuple[int, int]) -> int:
    """Write the header of a NumPy file; return its length."""
    np.lib.format.write_array_header_1_0(
        file, {"descr": "<f4", "fortran_order": False, "shape": shape}
    )
    position: int = file.tell()
    return position


class _Facts(TypedDict):
    """What is stored of features beside what they are made from."""

    shape: tuple[int, int]
    missing: list[int]
    unreadable: list[tuple[str, str]]
    sha256: str


def _read(values: Path, description: Path, source: dict[str, Any]) -> Features:
    try:
        facts = read_json(description)
        require(facts, _Facts, description)
        if not values.is_file():
            raise ValueError(f"{values.name} is missing")
        if {name: facts[name] for name in source} != json.loads(json.dumps(source)):
            raise ValueError("it says that it holds other features")
        if file_digest(values) != facts["sha256"]:
            raise ValueError(f"the checksum of {values.name} is wrong")
        mapped = np.load(values, mmap_mode="c", allow_pickle=False)
        if list(mapped.shape) != facts["shape"]:
            raise ValueError(f"{values.name} holds {mapped.shape}, not {facts['shape']}")
        present = torch.ones(mapped.shape[0] + len(facts["missing"]), dtype=torch.bool)
        present[facts["missing"]] = False
        unreadable = tuple((path, reason) for path, reason in facts["unreadable"])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(
            f"the stored features {description} are damaged ({error}): remove the folder "
            f"{description.parent} and run again; they are then computed anew."
        ) from error
    return Features(torch.from_numpy(mapped), present.nonzero().squeeze(1), unreadable)
