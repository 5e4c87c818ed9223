"""What is measured of each image in one pass over the files, kept in parts that survive a kill."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from amcl.checkpoints.loaded_model import LoadedModel
from amcl.curation.uncertainty import ViewPairs
from amcl.data import Images, stream
from amcl.data.batch import Batch
from amcl.data.images import FileImages
from amcl.errors import RunError
from amcl.evaluation.cache import FeatureCache
from amcl.files import digest, whole_file
from amcl.metrics.features import Features, Transform, batch_features, eval_mode
from amcl.printable import printable
from amcl.progress import Progress
from amcl.seeds import generator
from amcl.tensor_files import read_safetensors, tensor_bytes

PART = 1024  # images of a part: what a kill costs
_BATCH = 128
_DIGEST = hashlib.sha256().digest_size

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Measurements:
    """What was measured of the n images that can be read."""

    indices: torch.Tensor
    """Indices of the images in the set, (n,)."""
    shapes: torch.Tensor
    """True heights and widths, (n, 2)."""
    sizes: torch.Tensor
    """Sizes of the files in bytes, (n,); −1 for images that are no files."""
    files: list[bytes]
    """SHA-256 of the files; empty for images that are no files."""
    pixels: list[bytes]
    """SHA-256 of the decoded pixels and of the shape."""
    pairs: Tensors
    """What `ViewPairs` returns, without `tau_differs`; empty without heads."""
    tau_differs: bool
    """Whether images differ in their temperatures."""
    unreadable: tuple[tuple[int, str], ...]
    """Index and reason of each image that cannot be read."""


@dataclass(frozen=True, kw_only=True)
class Pass:
    """A pass over images that measures what is not known yet.

    Args:
        folder: Folder of the parts.
        images: The images.
        model: The model that computes features.
        transform: Its input from stored images.
        cache: Where features are kept.
        views: Pairs of views in the method, if it has heads.
        seed: Seed of views and negatives.
        device: Device to compute on.
        workers: Processes that decode.
        identity: What parts depend on, beside the images and the features.
    """

    folder: Path
    images: Images
    model: LoadedModel
    transform: Transform
    cache: FeatureCache
    views: ViewPairs | None = None
    seed: int = 0
    device: torch.device | str = "cpu"
    workers: int = 0
    identity: str = ""

    def run(self) -> tuple[Measurements, Features]:
        """Measure all images; return the measurements and the features of those readable."""
        backbone = self.model.backbone.to(self.device)
        with_features = not self.cache.has(backbone, self.images, self.transform)
        self._measure(with_features)
        measurements = self._read()
        if not len(measurements.indices):
            reason = measurements.unreadable[0][1] if measurements.unreadable else "no images"
            raise ValueError(f"none of the {len(self.images)} images can be read; first: {reason}.")
        features = self.cache.get(backbone, self.images, self.transform, self._features)
        for start in self._starts:
            self._path(start, "features").unlink(missing_ok=True)
        return measurements, features

    def _measure(self, with_features: bool) -> None:
        kinds = ("facts", "features") if with_features else ("facts",)
        todo = [
            start
            for start in self._starts
            if not all(self._path(start, kind).is_file() for kind in kinds)
        ]
        if not todo:
            return
        if self.views is not None:
            self.views.fill_bank(self.images, self.seed, self.workers)
        steps = [step for start in todo for step in self._indices(start).split(_BATCH)]
        batches = stream(self.images, steps, workers=self.workers, replace=False)
        with (
            Progress("measuring images", sum(map(len, steps))) as progress,
            eval_mode(self.model.backbone),
        ):
            for start in todo:
                self._measure_part(start, batches, with_features, progress)

    def _measure_part(
        self, start: int, batches: Iterator[Batch], with_features: bool, progress: Progress
    ) -> None:
        facts: list[Tensors] = []
        features: list[torch.Tensor] = []
        unreadable: list[tuple[int, str]] = []
        random = generator(self.seed, "curation", "views", start)
        for step in self._indices(start).split(_BATCH):
            batch = next(batches)
            indices = batch.select(step)
            reasons = dict(batch.unreadable)
            missing = step[~torch.isin(step, indices)].tolist()
            unreadable += [(i, reasons[self._printable_path(i)]) for i in missing]
            if len(indices):
                facts.append(self._facts(batch, indices))
                if self.views is not None:
                    facts[-1] |= self.views(batch.pixels, batch.shapes, indices, random)
                if with_features:
                    features.append(
                        batch_features(self.model.backbone, batch, self.transform, self.device)
                    )
            progress.advance(len(step))
        self._write(start, "facts", _concatenate(facts), unreadable)
        if with_features:
            values = torch.cat(features) if features else torch.empty(0, 0)
            self._write(start, "features", {"values": values}, unreadable)

    def _facts(self, batch: Batch, indices: torch.Tensor) -> Tensors:
        """Return the indices, shapes, sizes and digests of the images of a batch."""
        height, width = batch.pixels.shape[2:]
        shapes = batch.shapes
        if shapes is None:
            shapes = torch.tensor([height, width]).expand(len(indices), 2)
        pixels = [
            digest([f"{shape}".encode(), image.contiguous().numpy().data])
            for shape, image in zip(shapes.tolist(), batch.pixels, strict=True)
        ]
        facts = {"indices": indices, "shapes": shapes.contiguous(), "pixels": _as_tensor(pixels)}
        if isinstance(self.images, FileImages):
            sizes, files = zip(*(self._file(i) for i in indices.tolist()), strict=True)
            facts |= {"sizes": torch.tensor(sizes), "files": _as_tensor(files)}
        return facts

    def _file(self, index: int) -> tuple[int, str]:
        """Return the size and the digest of a file."""
        assert isinstance(self.images, FileImages)
        with self.images.records[index].open() as file:
            content = file.read()
        return len(content), digest([content])

    def _printable_path(self, index: int) -> str:
        assert isinstance(self.images, FileImages)
        return printable(self.images.path(index))

    @property
    def _starts(self) -> range:
        return range(0, len(self.images), PART)

    def _indices(self, start: int) -> torch.Tensor:
        return torch.arange(start, min(start + PART, len(self.images)))

    def _path(self, start: int, kind: str) -> Path:
        return self.folder / f"{start:08d}.{kind}.safetensors"

    def _write(
        self, start: int, kind: str, tensors: Tensors, unreadable: list[tuple[int, str]]
    ) -> None:
        metadata = {"identity": self.identity, "unreadable": unreadable}
        with whole_file(self._path(start, kind)) as file:
            file.write(tensor_bytes(tensors, metadata))

    def _load(self, start: int, kind: str) -> tuple[Tensors, list[tuple[int, str]]]:
        path = self._path(start, kind)
        remedy = f"remove the folder {self.folder} and run again; it is then measured anew"
        try:
            tensors, metadata = read_safetensors(path)
        except ValueError as error:
            raise RunError(f"{error} Or {remedy}.") from error
        if metadata is None or metadata.get("identity") != self.identity:
            raise RunError(f"{path} was measured with another model or other images: {remedy}.")
        return tensors, [(i, reason) for i, reason in metadata["unreadable"]]

    def _features(self) -> Iterator[Features]:
        """Yield the features of each part, which are kept until all are in the cache."""
        for start in self._starts:
            tensors, unreadable = self._load(start, "features")
            facts, _ = self._load(start, "facts")
            names = tuple((self._printable_path(i), reason) for i, reason in unreadable)
            if "indices" in facts:
                yield Features(tensors["values"], facts["indices"], names)

    def _read(self) -> Measurements:
        parts: list[Tensors] = []
        unreadable: list[tuple[int, str]] = []
        for start in self._starts:
            tensors, missing = self._load(start, "facts")
            unreadable += missing
            if tensors:
                parts.append(tensors)
        facts = _concatenate(parts) or {"indices": torch.empty(0), "pixels": torch.empty(0, 32)}
        columns = ("indices", "shapes", "sizes", "files", "pixels", "tau_differs")
        n = len(facts["indices"])
        return Measurements(
            indices=facts["indices"],
            shapes=facts.get("shapes", torch.empty(0, 2)),
            sizes=facts.get("sizes", torch.full((n,), -1)),
            files=_as_bytes(facts["files"]) if "files" in facts else [],
            pixels=_as_bytes(facts["pixels"]),
            pairs={name: value for name, value in facts.items() if name not in columns},
            tau_differs="tau_differs" in facts and bool(facts["tau_differs"].any()),
            unreadable=tuple(unreadable),
        )


def identity_of(values: object) -> str:
    """Return a hash of plain values.

    >>> identity_of({"seed": 0}) == identity_of({"seed": 0}) != identity_of({"seed": 1})
    True
    """
    return digest([json.dumps(values, sort_keys=True).encode()])


def _concatenate(parts: list[Tensors]) -> Tensors:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _as_tensor(digests: list[str] | tuple[str, ...]) -> torch.Tensor:
    values = bytearray(b"".join(map(bytes.fromhex, digests)))
    return torch.frombuffer(values, dtype=torch.uint8).view(-1, _DIGEST)


def _as_bytes(digests: torch.Tensor) -> list[bytes]:
    content = digests.to(torch.uint8).contiguous().numpy().tobytes()
    return [content[i : i + _DIGEST] for i in range(0, len(content), _DIGEST)]
