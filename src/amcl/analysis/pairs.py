"""Two views of some images: their features, similarities and temperatures in a method."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from amcl.backbones import SMALL
from amcl.data import DataSet, Images, stream
from amcl.data.display import Bands, Display
from amcl.data.split import sample
from amcl.evaluation.build import CROP, check_channels
from amcl.losses import SupervisedContrastiveLoss
from amcl.methods import HeadMethod, Method
from amcl.metrics.features import eval_mode
from amcl.metrics.knn import check_finite
from amcl.seeds import generator, seed_of
from amcl.settings import whole_number
from amcl.views import ViewParameters, Views, ViewSettings, suited

BATCH = 256
Bounds = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class PairSettings:
    """Choice of the images that are analyzed."""

    images: int = 500
    """Number of images, or all where there are fewer."""
    seed: int = 0
    """Seed of the choice of images and of their views."""
    bands: Bands | None = None
    """Channels that are shown as red, green and blue, counted from 1; None for the first three."""

    def __post_init__(self) -> None:
        if whole_number("images", self.images, "choose 2 or more") < 2:
            raise ValueError(f"images must be at least 2, to have pairs, got {self.images}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class PairSample:
    """Two views of N images, with what a method computes of them; float32, on the CPU.

    Pair (i, j) is the first view of image i with the second view of image j, so that the diagonal
    holds the positive pairs. What a method does not have is None: MAE has no heads, and the
    temperatures of Barlow Twins are those of channels.
    """

    h: torch.Tensor
    """Backbone features of the images as they are, (N, d)."""
    h0: torch.Tensor
    """Backbone features of the first views, (N, d)."""
    h1: torch.Tensor
    """Backbone features of the second views, (N, d)."""
    s: torch.Tensor | None
    """Similarity of pairs of images in each head, (C, N, N)."""
    tau: torch.Tensor | None
    """τ of these pairs, (C, N, N)."""
    channel_tau: torch.Tensor | None
    """τ of pairs of channels, (C, D, D)."""
    positive_bounds: Bounds | None
    """Bounds of τ of positive pairs; None: it does not adapt, or has no bounds."""
    negative_bounds: Bounds | None
    """Bounds of τ of negative pairs."""
    views: torch.Tensor
    """The views as pictures, uint8 (2, N, 3, S, S): of other images than RGB some channels."""
    images: torch.Tensor
    """The images as pictures, uint8 (N, 3, H, W)."""
    labels: torch.Tensor | None
    """Their classes (N,), where they have some."""
    classes: tuple[str, ...]
    """Names of the classes."""
    source: str = ""
    """Description of the images, such as "validation images of cifar10"."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """Files that could not be read and are left out, each with the reason."""
    channels: int = 3
    """Number of channels of the images."""
    shown: str = ""
    """Description of the pictures of images that are not 8-bit RGB, such as their bands."""

    def __len__(self) -> int:
        return len(self.h)

    @property
    def num_heads(self) -> int:
        """Number of heads C; 0 for a method without heads."""
        return 0 if self.s is None else len(self.s)

    @property
    def positives_differ(self) -> bool:
        """True if positive pairs have different temperatures."""
        if self.tau is None:
            return False
        tau = positives(self.tau)
        return bool((tau.amax(1) > tau.amin(1)).any())

    @property
    def bounds(self) -> Bounds | None:
        """Bounds of τ over pairs of both signs."""
        bounds = [b for b in (self.positive_bounds, self.negative_bounds) if b is not None]
        return (min(b[0] for b in bounds), max(b[1] for b in bounds)) if bounds else None


def positives(matrix: torch.Tensor) -> torch.Tensor:
    """Return the positive pairs of a matrix: its diagonal.

    Args:
        matrix: A number for each pair, (…, N, N).

    Returns:
        The numbers of positive pairs, (…, N).

    Example:
        >>> positives(torch.arange(9).view(3, 3))
        tensor([0, 4, 8])
    """
    return matrix.diagonal(dim1=-2, dim2=-1)


def negatives(matrix: torch.Tensor) -> torch.Tensor:
    """Return the negative pairs of a matrix: all but its diagonal, row by row.

    Args:
        matrix: A number for each pair, (…, N, N).

    Returns:
        The numbers of negative pairs, (…, N (N − 1)).

    Example:
        >>> negatives(torch.arange(9).view(3, 3))
        tensor([1, 2, 3, 5, 6, 7])
    """
    n = matrix.shape[-1]
    return matrix[..., ~torch.eye(n, dtype=torch.bool, device=matrix.device)]


@torch.no_grad()
def pair_sample(
    method: Method,
    data: DataSet,
    views: ViewSettings | None = None,
    settings: PairSettings | None = None,
    *,
    device: torch.device | str = "cpu",
) -> PairSample:
    """Compute features, similarities and temperatures of two random views of some images.

    The images are those held out for probes, if there are any, else the training images. Views have
    the size and the normalization that the backbone was trained with. The method is in evaluation
    mode.

    Args:
        method: The method; it is moved to `device`.
        data: The data set.
        views: Settings of the views; None for the defaults.
        settings: Number of images, and the seed of everything random.
        device: Device to compute on.

    Returns:
        The features, similarities and temperatures, with the views and the images.

    Example:
        >>> from amcl.backbones import Backbone, BackboneSettings
        >>> from amcl.data import MemoryImages
        >>> from amcl.methods import SimCLRSettings, make_method
        >>> images = MemoryImages(torch.randint(256, (8, 3, 32, 32), dtype=torch.uint8))
        >>> half = (0.5, 0.5, 0.5)
        >>> data = DataSet(name="toy", train=images, probe=None, image_size=32, mean=half, std=half)
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> method = make_method(SimCLRSettings(heads=3), backbone)
        >>> sample = pair_sample(method, data)
        >>> sample.s.shape, sample.views.shape
        (torch.Size([3, 8, 8]), torch.Size([2, 8, 3, 32, 32]))
    """
    settings = PairSettings() if settings is None else settings
    images, labels, classes = _source(data)
    part = "training" if data.probe is None else data.probe.split
    chosen = sample(len(images), settings.images, seed_of(settings.seed, "pairs"))
    check_channels("this method", method.backbone.channels, images)
    read = _read(images, chosen)
    display = Display.of(read.pixels, settings.bands)
    if views is None:
        views, _ = suited(ViewSettings(), images.channels)
    compute = _Forward(method.to(device), data, views, device, display)
    with eval_mode(method):
        outputs = compute(read, generator(settings.seed, "views"))
        for name in ("h", "h0", "h1"):
            check_finite(name, getattr(outputs, name))
        labels = None if labels is None else labels[read.indices]
        matrices = _matrices(method, labels, *outputs.projections)
    return PairSample(
        h=outputs.h,
        h0=outputs.h0,
        h1=outputs.h1,
        **matrices,
        views=outputs.views,
        images=display(read.pixels),
        labels=labels,
        classes=classes,
        source=f"{part} images of {data.name}",
        unreadable=read.unreadable,
        channels=images.channels,
        shown=display.describe(images.channels),
    )


def _source(data: DataSet) -> tuple[Images, torch.Tensor | None, tuple[str, ...]]:
    if data.probe is None:
        return data.train, None, ()
    return data.probe.queries.images, data.probe.queries.labels, data.probe.classes


class _Read(NamedTuple):
    """Images as they are stored, without those that cannot be read."""

    pixels: torch.Tensor  # (N, C, H, W)
    shapes: torch.Tensor | None  # (N, 2)
    indices: torch.Tensor  # in the set
    unreadable: tuple[tuple[str, str], ...]


def _read(images: Images, chosen: torch.Tensor) -> _Read:
    (batch,) = stream(images, [chosen], workers=0, replace=False)
    if len(batch.pixels) < 2:
        first = f" ({': '.join(batch.unreadable[0])})" if batch.unreadable else ""
        raise ValueError(
            f"pairs need at least 2 images, and {len(batch.pixels)} of {len(chosen)} can be "
            f"read{first}: give a set with more."
        )
    return _Read(batch.pixels, batch.shapes, batch.select(chosen), tuple(batch.unreadable))


class _Outputs(NamedTuple):
    """Outputs for images and two views of each."""

    h: torch.Tensor
    h0: torch.Tensor
    h1: torch.Tensor
    views: torch.Tensor
    projections: tuple[torch.Tensor, ...]  # two (C, N, D), none without heads

    @staticmethod
    def concatenate(parts: "list[_Outputs]") -> "_Outputs":
        """Return the outputs of several batches as one."""
        h, h0, h1, views, projections = zip(*parts, strict=True)
        both = tuple(torch.cat(z, 1) for z in zip(*projections, strict=True))
        return _Outputs(torch.cat(h), torch.cat(h0), torch.cat(h1), torch.cat(views, 1), both)


class _Forward:
    """Computes the outputs of a method for images and two views of each, in batches."""

    def __init__(
        self,
        method: Method,
        data: DataSet,
        settings: ViewSettings,
        device: torch.device | str,
        display: Display,
    ) -> None:
        size = method.backbone.image_size
        mean, std = method.backbone.normalization or (data.mean, data.std)
        self.method = method
        self.device = device
        self.display = display
        self.views = Views(size, settings, mean=mean, std=std)
        self._mean, self._std = (torch.tensor(x, device=device).view(-1, 1, 1) for x in (mean, std))
        # As in evaluation: the middle of large pictures, all of small ones.
        self._crop = CROP if data.train.canvas[0] > size > SMALL else None

    def __call__(self, read: _Read, random: torch.Generator) -> _Outputs:
        n = len(read.pixels)
        drawn = self.views.draw(n, generator=random, shapes=read.shapes)
        starts = range(0, n, BATCH)
        parts = [self._batch(read, drawn, slice(start, start + BATCH)) for start in starts]
        return _Outputs.concatenate(parts)

    def _batch(self, read: _Read, drawn: ViewParameters, rows: slice) -> _Outputs:
        pixels = read.pixels[rows].to(self.device)
        shapes = None if read.shapes is None else read.shapes[rows]
        views = self.views(pixels, drawn.rows(rows.start, rows.stop).to(self.device))
        plain = self.views.plain(pixels, shapes, self._crop)
        h, h0, h1 = (self.method.backbone(x).float().cpu() for x in (plain, *views))
        projections: tuple[torch.Tensor, ...] = ()
        if isinstance(self.method, HeadMethod):
            projections = self.method.compared(list(views))
        return _Outputs(h, h0, h1, self._pictures(views), projections)

    def _pictures(self, views: torch.Tensor) -> torch.Tensor:
        """Return normalized views as pictures, on the CPU."""
        return self.display.values(views * self._std + self._mean).cpu()


def _matrices(
    method: Method, labels: torch.Tensor | None, *projections: torch.Tensor
) -> dict[str, Any]:
    """Return similarities and temperatures, as `PairSample` names them.

    The labels decide about temperatures where a method learns from them.
    """
    names = ("s", "tau", "channel_tau", "positive_bounds", "negative_bounds")
    matrices: dict[str, Any] = dict.fromkeys(names)
    if not isinstance(method, HeadMethod):
        return matrices
    z0, z1 = projections
    if isinstance(method.loss, SupervisedContrastiveLoss):
        matrix = method.loss.pair_matrix(z0, z1, labels)
    else:
        matrix = method.loss.pair_matrix(z0, z1)
    if not (matrix.s.isfinite().all() and matrix.tau.isfinite().all()):
        raise ValueError("the heads give values that are not finite: the weights are damaged.")
    of_images = method.loss.items == "images"
    matrices["s"] = (matrix.s if of_images else method.loss.cosines(z0, z1)).float().cpu()
    matrices["tau" if of_images else "channel_tau"] = matrix.tau.float().cpu().contiguous()
    return matrices | {name: getattr(matrix, name) for name in names[3:]}
