"""Features taken once and kept: found again by the weights, the images and the transform."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from amcl.data import Images
from amcl.files import digest, whole_file
from amcl.metrics.features import Features, Transform, feature_batches, features_of, fingerprint

FORMAT = 1


class FeatureCache:
    """A folder of features. They are mapped from disk, not read into memory.

    `KEY.npy` holds values (n, D), float32; `KEY.json` what they are, and their checksum.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(
        self,
        model: nn.Module,
        images: Images,
        transform: Transform,
        take: Callable[[], Iterator[Features]],
    ) -> Features:
        """The features that `take` gives batch by batch, or has given before."""
        made_of = {
            "format": FORMAT,
            "model": fingerprint(model),
            "images": images.fingerprint(),
            "transform": asdict(transform),
        }
        key = digest([json.dumps(made_of, sort_keys=True).encode()])[:16]
        values, about = self.folder / f"{key}.npy", self.folder / f"{key}.json"
        if not about.exists():
            self._write(values, about, made_of, len(images), take())
        return _read(values, about, made_of)

    def _write(
        self,
        values: Path,
        about: Path,
        made_of: dict[str, Any],
        total: int,
        batches: Iterator[Features],
    ) -> None:
        kept: list[torch.Tensor] = []
        unreadable: list[tuple[str, str]] = []
        dim = 0
        # Written, not mapped: a full disk is then an error that can be told.
        with whole_file(values) as file:
            for batch in batches:
                if not kept:
                    dim = batch.values.shape[1]
                    start = _write_header(file, (total, dim))
                file.write(batch.values.numpy().astype("<f4", copy=False).tobytes())
                kept.append(batch.indices)
                unreadable += batch.unreadable
            rows = sum(map(len, kept))
            file.seek(0)
            if _write_header(file, (rows, dim)) != start:
                raise RuntimeError("the header of a NumPy file changed its length")
        missing = sorted(set(range(total)) - set(torch.cat(kept).tolist()))
        with whole_file(about) as file:
            text = json.dumps(
                {
                    **made_of,
                    "shape": [rows, dim],
                    "missing": missing,
                    "unreadable": unreadable,
                    "sha256": digest(_blocks(values)),
                }
            )
            file.write(text.encode())


def kept_features(
    folder: Path | None,
    model: nn.Module,
    images: Images,
    transform: Transform,
    *,
    device: torch.device | str = "cpu",
    workers: int = 0,
) -> Features:
    """Features of images, from `folder` where they were taken before; None keeps nothing."""
    where: dict[str, Any] = {"device": device, "workers": workers}
    if folder is None:
        return features_of(model, images, transform, **where)
    return FeatureCache(folder).get(
        model, images, transform, lambda: feature_batches(model, images, transform, **where)
    )


def _write_header(file: Any, shape: tuple[int, int]) -> int:
    np.lib.format.write_array_header_1_0(
        file, {"descr": "<f4", "fortran_order": False, "shape": shape}
    )
    position: int = file.tell()
    return position


def _read(values: Path, about: Path, made_of: dict[str, Any]) -> Features:
    try:
        kept = json.loads(about.read_text(encoding="utf-8"))
        if not values.is_file():
            raise ValueError(f"{values.name} is missing")
        if {name: kept[name] for name in made_of} != json.loads(json.dumps(made_of)):
            raise ValueError("it says that it holds other features")
        if digest(_blocks(values)) != kept["sha256"]:
            raise ValueError(f"the checksum of {values.name} is wrong")
        mapped = np.load(values, mmap_mode="c", allow_pickle=False)
        if list(mapped.shape) != kept["shape"]:
            raise ValueError(f"{values.name} holds {mapped.shape}, not {kept['shape']}")
        present = torch.ones(mapped.shape[0] + len(kept["missing"]), dtype=torch.bool)
        present[kept["missing"]] = False
        unreadable = tuple((path, reason) for path, reason in kept["unreadable"])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(
            f"the stored features {about} are damaged ({error}): remove the folder {about.parent} "
            "and run again; they are then taken anew."
        ) from error
    return Features(torch.from_numpy(mapped), present.nonzero().squeeze(1), unreadable)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(2**24):
            yield block
