"""Features of a set of images, by any module that turns images into vectors."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from amcl.data import Images, Labeled, stream
from amcl.files import digest
from amcl.progress import Progress
from amcl.seeds import generator
from amcl.settings import not_a_tensor, positive_number, whole_number
from amcl.views import Views, ViewSettings
from amcl.views.views import IMAGENET_MEAN, IMAGENET_STD

BATCH = 256
Rgb = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Transform:
    """How an image becomes the model's input: uint8 (N, 3, H, W) → (N, 3, S, S), normalized.

    - `crop`: a central square of this share of the shorter side, in the picture's true shape; None
      takes all of the picture;
    - `mean`, `std`: of the channels, for values in [0, 1]; those of ImageNet unless given.

    >>> transform = Transform(image_size=32, crop=0.875)
    >>> transform(torch.randint(256, (4, 3, 48, 48), dtype=torch.uint8)).shape
    torch.Size([4, 3, 32, 32])
    """

    image_size: int
    mean: Rgb = IMAGENET_MEAN
    std: Rgb = IMAGENET_STD
    crop: float | None = None

    def __post_init__(self) -> None:
        whole_number("image_size", self.image_size)
        if self.crop is not None and positive_number("crop", self.crop) > 1:
            raise ValueError(
                f"crop must be a share of the shorter side, above 0 and at most 1, got {self.crop}."
            )

    def __call__(self, images: torch.Tensor, shapes: torch.Tensor | None = None) -> torch.Tensor:
        return self.views().plain(images, shapes, self.crop)

    def views(self, settings: ViewSettings | None = None) -> Views:
        """Random views of the same size and normalization."""
        settings = ViewSettings() if settings is None else settings
        return Views(self.image_size, settings, mean=self.mean, std=self.std)


@dataclass(frozen=True)
class Features:
    """Features (n, D) of the images `kept` (n,); the others could not be read."""

    values: torch.Tensor
    kept: torch.Tensor
    unreadable: tuple[tuple[str, str], ...] = ()


@torch.no_grad()
def extract(
    model: nn.Module,
    batches: Iterable[torch.Tensor],
    prepare: Callable[[torch.Tensor], torch.Tensor],
    device: torch.device | str = "cpu",
) -> torch.Tensor:
    """Features (N, D) of batches of images, in evaluation mode, on the CPU.

    `prepare` turns a batch as stored (uint8) into the model's input. The model's mode is put back.
    """
    with evaluating(model):
        features = [_tensor(model(prepare(batch.to(device)))).cpu() for batch in batches]
    if not features:
        raise ValueError("there are no images to take features of.")
    return torch.cat(features)


def features_of(
    model: nn.Module,
    images: Images,
    transform: Transform,
    *,
    device: torch.device | str = "cpu",
    workers: int = 0,
    shown: bool = True,
) -> Features:
    """Features of all images that can be read; `shown` allows a bar on a terminal.

    >>> from amcl.data import MemoryImages
    >>> images = MemoryImages(torch.zeros(10, 3, 8, 8, dtype=torch.uint8))
    >>> features_of(nn.Flatten(), images, Transform(image_size=4)).values.shape
    torch.Size([10, 48])
    """
    parts = list(
        feature_batches(model, images, transform, device=device, workers=workers, shown=shown)
    )
    unreadable = tuple(bad for part in parts for bad in part.unreadable)
    values, kept = (torch.cat(p) for p in zip(*((p.values, p.kept) for p in parts), strict=True))
    return Features(values, kept, unreadable)


def feature_batches(
    model: nn.Module,
    images: Images,
    transform: Transform,
    *,
    device: torch.device | str = "cpu",
    workers: int = 0,
    shown: bool = True,
) -> Iterator[Features]:
    """Features batch by batch, in order; no image at all is an error."""
    steps = torch.arange(len(images)).split(BATCH)
    found = 0
    first: tuple[str, str] | None = None
    progress = Progress("features", len(images), shown)
    with progress, evaluating(model), torch.no_grad():
        for step, batch in zip(
            steps, stream(images, steps, workers=workers, replace=False), strict=True
        ):
            first = first or next(iter(batch.unreadable), None)
            if len(batch.pixels):
                values = model(transform(batch.pixels.to(device), batch.shapes))
                values = _checked(_tensor(values).cpu(), len(batch.pixels))
                found += len(values)
                yield Features(values, batch.select(step), tuple(batch.unreadable))
            progress.advance(len(step))
    if not found:
        reason = f": none of {len(images)} can be read; {': '.join(first)}" if first else ""
        raise ValueError(f"there are no images to take features of{reason}.")


class AugmentedFeatures:
    """Features of a fresh random view of each image, every time they are asked for."""

    def __init__(
        self,
        model: nn.Module,
        data: Labeled,
        views: Views,
        *,
        dim: int,
        device: torch.device | str = "cpu",
        workers: int = 0,
        seed: int = 0,
    ) -> None:
        self.model, self.images, self.labels = model, data.images, data.labels
        self.views, self.dim, self.device = views, dim, device
        self.workers, self.seed = workers, seed

    def batches(
        self, epoch: int, steps: Sequence[torch.Tensor]
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """(features (n, D), indices (n,)) of the images of each step that can be read."""
        batches = stream(self.images, steps, workers=self.workers, replace=False)
        with evaluating(self.model), torch.no_grad():
            for number, (step, batch) in enumerate(zip(steps, batches, strict=True)):
                chance = generator(self.seed, "augmented", epoch, number)
                drawn = self.views.draw(len(batch.pixels), generator=chance, shapes=batch.shapes)
                view = self.views(batch.pixels.to(self.device), drawn.first().to(self.device))[0]
                yield _tensor(self.model(view)), batch.select(step)


def pair_features(
    model: nn.Module,
    images: Images,
    transform: Transform,
    views: Views,
    *,
    device: torch.device | str = "cpu",
    workers: int = 0,
    seed: int = 0,
) -> tuple[torch.Tensor, tuple[tuple[str, str], ...]]:
    """Features (3, n, D) of images as they are and of two random views of each.

    With them the files that could not be read, which are left out.
    """
    steps = torch.arange(len(images)).split(BATCH)
    found, unreadable = [], dict[str, str]()
    with Progress("features", len(images)) as progress, evaluating(model), torch.no_grad():
        batches = stream(images, steps, workers=workers, replace=False)
        for number, batch in enumerate(batches):
            n = len(batch.pixels)
            unreadable |= dict(batch.unreadable)
            if n:
                pixels = batch.pixels.to(device)
                chance = generator(seed, "pairs", number)
                drawn = views.draw(n, generator=chance, shapes=batch.shapes).to(device)
                inputs = torch.cat([transform(pixels, batch.shapes)[None], views(pixels, drawn)])
                values = _checked(_tensor(model(inputs.flatten(0, 1))).cpu(), 3 * n)
                found.append(values.unflatten(0, (3, n)))
            progress.advance(n)
    if not found:
        raise ValueError("there are no images to take features of.")
    return torch.cat(found, 1), tuple(unreadable.items())


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode; its mode is put back."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def fingerprint(model: nn.Module) -> str:
    """SHA-256 of a module's structure, as it prints itself, and all its weights.

    What a hand-written `forward` does is not seen: give modules that differ in that alone different
    names of class.
    """
    made = getattr(model, "metadata", None)
    kind = f"{made()}" if made else f"{type(model).__module__} {type(model).__qualname__} {model}"
    parts: list[bytes | memoryview] = [kind.encode()]
    for name, value in model.state_dict().items():
        plain = value.detach().cpu().contiguous()
        parts += [f"{name} {plain.dtype} {tuple(plain.shape)}".encode()]
        parts += [plain.flatten().view(torch.uint8).numpy().data]
    return digest(parts)


def _tensor(features: object) -> torch.Tensor:
    """What a model put out, in float32."""
    if not isinstance(features, torch.Tensor):
        raise TypeError(not_a_tensor("an evaluation needs a model whose output is", features))
    return features.float()


def _checked(values: torch.Tensor, n: int) -> torch.Tensor:
    if values.ndim != 2 or len(values) != n:
        raise ValueError(
            f"the model turned {n} images into {tuple(values.shape)}: it must give one vector for "
            "each, (N, D). Pool its output first, or take num_classes=0 for a timm model."
        )
    if not torch.isfinite(values).all():
        raise ValueError("the model gives features that are not finite: its weights are damaged.")
    return values
