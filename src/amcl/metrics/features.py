"""Features of a set of images, by any module that turns images into vectors."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from amcl.data import Images, Labeled, stream
from amcl.data.batch import Batch
from amcl.files import digest
from amcl.progress import Progress
from amcl.seeds import generator
from amcl.settings import not_a_tensor, positive_number, whole_number
from amcl.views import Views, ViewSettings, suited
from amcl.views.views import IMAGENET_MEAN, IMAGENET_STD

BATCH = 256
PerChannel = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Transform:
    """The model's input from stored images: (N, C, H, W) → float32 (N, C, S, S), normalized.

    Stored images are uint8, uint16 or float32 of C channels, as many as there are means.

    Args:
        image_size: Side S of the input in pixels.
        mean: Mean of each channel, for values in [0, 1]; by default that of ImageNet.
        std: Standard deviation of the channels; by default that of ImageNet.
        crop: Share of the shorter side that a central square takes, in the true shape of the
            image; None takes all of the image.

    Example:
        >>> transform = Transform(image_size=32, crop=0.875)
        >>> transform(torch.randint(256, (4, 3, 48, 48), dtype=torch.uint8)).shape
        torch.Size([4, 3, 32, 32])
    """

    image_size: int
    mean: PerChannel = IMAGENET_MEAN
    std: PerChannel = IMAGENET_STD
    crop: float | None = None

    def __post_init__(self) -> None:
        whole_number("image_size", self.image_size)
        if self.crop is not None and positive_number("crop", self.crop) > 1:
            raise ValueError(
                f"crop must be a share of the shorter side, above 0 and at most 1, got {self.crop}."
            )

    def __call__(self, images: torch.Tensor, shapes: torch.Tensor | None = None) -> torch.Tensor:
        return self.views().plain(images, shapes, self.crop)

    @property
    def channels(self) -> int:
        """Number C of channels of the images."""
        return len(self.mean)

    def views(self, settings: ViewSettings | None = None) -> Views:
        """Return random views of the same size and normalization.

        Args:
            settings: Settings of the views; None for the defaults that suit the channels.
        """
        if settings is None:
            settings, _ = suited(ViewSettings(), self.channels)
        return Views(self.image_size, settings, mean=self.mean, std=self.std)


@dataclass(frozen=True)
class Features:
    """Features of the images that could be read.

    Args:
        values: Features (n, D).
        indices: Indices (n,) of the images.
        unreadable: Path and reason of each file that could not be read.

    Example:
        >>> features = Features(torch.randn(2, 8), torch.tensor([0, 2]), (("b.png", "empty"),))
        >>> labels = torch.tensor([5, 6, 7])
        >>> labels[features.indices]
        tensor([5, 7])
    """

    values: torch.Tensor
    indices: torch.Tensor
    unreadable: tuple[tuple[str, str], ...] = ()


@torch.no_grad()
def extract(
    model: nn.Module,
    batches: Iterable[torch.Tensor],
    prepare: Callable[[torch.Tensor], torch.Tensor],
    device: torch.device | str = "cpu",
) -> torch.Tensor:
    """Compute features of batches of images in evaluation mode; the model's mode is restored.

    Args:
        model: Any module that maps its input to features.
        batches: Batches of stored images.
        prepare: Function that turns a batch into the model's input.
        device: Device of the model.

    Returns:
        Features (N, D), on the CPU.

    Example:
        >>> images = torch.zeros(10, 3, 8, 8, dtype=torch.uint8)
        >>> extract(nn.Flatten(), images.split(4), Transform(image_size=4)).shape
        torch.Size([10, 48])
    """
    with eval_mode(model):
        features = [_tensor(model(prepare(batch.to(device)))).cpu() for batch in batches]
    if not features:
        raise ValueError("there are no images to compute features of.")
    return torch.cat(features)


def features_of(
    model: nn.Module,
    images: Images,
    transform: Transform,
    *,
    device: torch.device | str = "cpu",
    workers: int = 0,
    show_progress: bool = True,
) -> Features:
    """Compute features of all images that can be read.

    Args:
        model: Any module that maps images (N, C, S, S) to features (N, D).
        images: Images in memory, or files.
        transform: The model's input from stored images.
        device: Device of the model.
        workers: Number of processes that decode files.
        show_progress: Show a progress bar on a terminal.

    Returns:
        The features, on the CPU.

    Example:
        >>> from amcl.data import MemoryImages
        >>> images = MemoryImages(torch.zeros(10, 3, 8, 8, dtype=torch.uint8))
        >>> features_of(nn.Flatten(), images, Transform(image_size=4)).values.shape
        torch.Size([10, 48])
    """
    batches = feature_batches(
        model, images, transform, device=device, workers=workers, show_progress=show_progress
    )
    parts = list(batches)
    return Features(
        torch.cat([part.values for part in parts]),
        torch.cat([part.indices for part in parts]),
        tuple(file for part in parts for file in part.unreadable),
    )


def feature_batches(
    model: nn.Module,
    images: Images,
    transform: Transform,
    *,
    device: torch.device | str = "cpu",
    workers: int = 0,
    show_progress: bool = True,
) -> Iterator[Features]:
    """Yield features batch by batch, in order; see `features_of`."""
    steps = torch.arange(len(images)).split(BATCH)
    first_unreadable: tuple[str, str] | None = None
    empty = True
    progress = Progress("features", len(images), show_progress)
    batches = stream(images, steps, workers=workers, replace=False)
    with progress, eval_mode(model), torch.no_grad():
        for step, batch in zip(steps, batches, strict=True):
            first_unreadable = first_unreadable or next(iter(batch.unreadable), None)
            if len(batch.pixels):
                values = batch_features(model, batch, transform, device)
                empty = False
                yield Features(values, batch.select(step), tuple(batch.unreadable))
            progress.advance(len(step))
    if empty:
        reason = ""
        if first_unreadable is not None:
            reason = f": none of {len(images)} can be read; {': '.join(first_unreadable)}"
        raise ValueError(f"there are no images to compute features of{reason}.")


@torch.no_grad()
def batch_features(
    model: nn.Module, batch: Batch, transform: Transform, device: torch.device | str
) -> torch.Tensor:
    """Return the features (n, D) of a batch in float32, on the CPU.

    Args:
        model: Any module that maps images to features, in evaluation mode.
        batch: The images.
        transform: How an image becomes the input of the model.
        device: Device of the model.

    Raises:
        ValueError: They are not finite, or not one vector for each image.
    """
    values = _tensor(model(transform(batch.pixels.to(device), batch.shapes))).cpu()
    return _checked(values, len(batch.pixels))


class AugmentedFeatures:
    """Features of a new random view of each image in every epoch.

    Args:
        model: Any module that maps images (N, C, S, S) to features (N, D).
        data: Labeled images.
        views: Maker of the views; the first of each image is used.
        dim: Width D of the features.
        device: Device of the model.
        workers: Number of processes that decode files.
        seed: Seed of the views.
    """

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
        self.model = model
        self.images = data.images
        self.labels = data.labels
        self.views = views
        self.dim = dim
        self.device = device
        self.workers = workers
        self.seed = seed

    def batches(
        self, epoch: int, steps: Sequence[torch.Tensor]
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield features (n, D) and indices (n,) of the images of each step that can be read."""
        batches = stream(self.images, steps, workers=self.workers, replace=False)
        with eval_mode(self.model), torch.no_grad():
            for number, (step, batch) in enumerate(zip(steps, batches, strict=True)):
                parameters = self.views.draw(
                    len(batch.pixels),
                    generator=generator(self.seed, "augmented", epoch, number),
                    shapes=batch.shapes,
                ).first()
                view = self.views(batch.pixels.to(self.device), parameters.to(self.device))[0]
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
    """Compute features of images as they are and of two random views of each.

    Returns:
        Features (3, n, D) of the images that can be read, and path and reason of other files.
    """
    steps = torch.arange(len(images)).split(BATCH)
    features: list[torch.Tensor] = []
    unreadable: dict[str, str] = {}
    batches = stream(images, steps, workers=workers, replace=False)
    with Progress("features", len(images)) as progress, eval_mode(model), torch.no_grad():
        for number, batch in enumerate(batches):
            n = len(batch.pixels)
            unreadable |= dict(batch.unreadable)
            if n:
                pixels = batch.pixels.to(device)
                parameters = views.draw(
                    n, generator=generator(seed, "pairs", number), shapes=batch.shapes
                )
                two_views = views(pixels, parameters.to(device))
                inputs = torch.cat([transform(pixels, batch.shapes)[None], two_views])
                values = _checked(_tensor(model(inputs.flatten(0, 1))).cpu(), 3 * n)
                features.append(values.unflatten(0, (3, n)))
            progress.advance(n)
    if not features:
        raise ValueError("there are no images to compute features of.")
    return torch.cat(features, 1), tuple(unreadable.items())


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode within a context."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def fingerprint(model: nn.Module) -> str:
    """Return the SHA-256 of a module's structure, as it prints itself, and all its weights.

    The code of a hand-written `forward` is not seen: give modules that differ in that alone
    different names of class.
    """
    metadata = getattr(model, "metadata", None)
    kind = (
        f"{metadata()}"
        if metadata
        else f"{type(model).__module__} {type(model).__qualname__} {model}"
    )
    parts: list[bytes | memoryview] = [kind.encode()]
    for name, value in model.state_dict().items():
        plain = value.detach().cpu().contiguous()
        parts += [f"{name} {plain.dtype} {tuple(plain.shape)}".encode()]
        parts += [plain.flatten().view(torch.uint8).numpy().data]
    return digest(parts)


def _tensor(features: object) -> torch.Tensor:
    """Return the output of a model in float32."""
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
