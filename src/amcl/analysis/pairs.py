"""Two views of some images as a method sees them: features, similarities, temperatures."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from amcl.backbones import SMALL
from amcl.data import DataSet, Images, stream
from amcl.data.split import sample
from amcl.evaluation.build import CROP
from amcl.methods import HeadMethod, Method
from amcl.metrics.features import evaluating
from amcl.metrics.knn import check_finite
from amcl.seeds import generator, seed_of
from amcl.settings import whole_number
from amcl.views import ViewParameters, Views, ViewSettings

BATCH = 256
Bounds = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class PairSettings:
    """Which images are looked at."""

    images: int = 500
    """Number of images, or all where there are fewer."""
    seed: int = 0
    """Which images, and which views of them."""

    def __post_init__(self) -> None:
        if whole_number("images", self.images, "choose 2 or more") < 2:
            raise ValueError(f"images must be at least 2, to have pairs, got {self.images}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class PairSample:
    """Two views of N images as a method sees them; tensors on the CPU, values in float32.

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
    """Between which τ of positive pairs adapts; None: it does not, or without bounds."""
    negative_bounds: Bounds | None
    """Between which τ of negative pairs adapts."""
    views: torch.Tensor
    """The views as pictures, uint8 (2, N, 3, S, S)."""
    images: torch.Tensor
    """The images as they are stored, uint8 (N, 3, H, W)."""
    labels: torch.Tensor | None
    """Their classes (N,), where they have some."""
    classes: tuple[str, ...]
    """Names of the classes."""
    source: str = ""
    """Which images they are: "validation images of cifar10"."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """Files that were drawn and could not be read, with the reason: they are left out."""

    def __len__(self) -> int:
        return len(self.h)

    @property
    def num_heads(self) -> int:
        """C, 0 for a method without heads."""
        return 0 if self.s is None else len(self.s)

    @property
    def positives_differ(self) -> bool:
        """Return whether positive pairs have different temperatures."""
        if self.tau is None:
            return False
        tau = positives(self.tau)
        return bool((tau.amax(1) > tau.amin(1)).any())

    @property
    def bounds(self) -> Bounds | None:
        """Between which τ adapts, in pairs of either sign."""
        bounds = [b for b in (self.positive_bounds, self.negative_bounds) if b is not None]
        return (min(b[0] for b in bounds), max(b[1] for b in bounds)) if bounds else None


def positives(matrix: torch.Tensor) -> torch.Tensor:
    """The positive pairs of (…, N, N): the diagonal, (…, N)."""
    return matrix.diagonal(dim1=-2, dim2=-1)


def negatives(matrix: torch.Tensor) -> torch.Tensor:
    """The negative pairs of (…, N, N): all but the diagonal, row by row, (…, N (N − 1)).

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
    """What a method sees of two random views of some images; it is moved to `device`.

    The images are those that the set probes with, where there are some, else those it is trained
    on; files that cannot be read are left out. Views have the size and the normalization that the
    backbone was trained with. The method is looked at in evaluation mode, where batch norm has the
    statistics it has learned. Everything random follows from `settings.seed`.

    >>> from amcl.backbones import Backbone, BackboneSettings
    >>> from amcl.data import load_dataset
    >>> from amcl.methods import SimCLRSettings, make_method
    >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
    >>> method = make_method(SimCLRSettings(heads=3), backbone)
    >>> sample = pair_sample(method, load_dataset("builtin"), settings=PairSettings(images=8))
    >>> sample.s.shape, sample.views.shape
    (torch.Size([3, 8, 8]), torch.Size([2, 8, 3, 32, 32]))
    """
    settings = PairSettings() if settings is None else settings
    images, labels, classes = _source(data)
    part = "training" if data.probe is None else data.probe.split
    chosen = sample(len(images), settings.images, seed_of(settings.seed, "pairs"))
    read = _read(images, chosen)
    look = _Look(method.to(device), data, ViewSettings() if views is None else views, device)
    with evaluating(method):
        seen = look(read, generator(settings.seed, "views"))
        for name, h in (("h", seen.h), ("h0", seen.h0), ("h1", seen.h1)):
            check_finite(name, h)
        matrices = _matrices(method, *seen.compared)
    return PairSample(
        h=seen.h,
        h0=seen.h0,
        h1=seen.h1,
        **matrices,
        views=seen.views,
        images=read.pixels,
        labels=None if labels is None else labels[read.kept],
        classes=classes,
        source=f"{part} images of {data.name}",
        unreadable=read.unreadable,
    )


def _source(data: DataSet) -> tuple[Images, torch.Tensor | None, tuple[str, ...]]:
    if data.probe is None:
        return data.train, None, ()
    return data.probe.queries.images, data.probe.queries.labels, data.probe.classes


class _Read(NamedTuple):
    """Images as they are stored; those that can be read."""

    pixels: torch.Tensor  # uint8 (N, 3, H, W)
    shapes: torch.Tensor | None  # (N, 2)
    kept: torch.Tensor  # which images of their set they are
    unreadable: tuple[tuple[str, str], ...]


def _read(images: Images, chosen: torch.Tensor) -> _Read:
    (batch,) = stream(images, [chosen], workers=0, replace=False)
    if len(batch.pixels) < 2:
        first = f" ({': '.join(batch.unreadable[0])})" if batch.unreadable else ""
        raise ValueError(
            f"pairs need at least 2 images, and {len(batch.pixels)} of {len(chosen)} can be "
            f"read{first}: give a set with more."
        )
    return _Read(batch.pixels, batch.shapes, batch.of(chosen), tuple(batch.unreadable))


class _Seen(NamedTuple):
    """What is seen of images and two views of each."""

    h: torch.Tensor
    h0: torch.Tensor
    h1: torch.Tensor
    views: torch.Tensor
    compared: tuple[torch.Tensor, ...]  # two (C, N, D), none without heads

    @staticmethod
    def of(parts: "list[_Seen]") -> "_Seen":
        """All of them together."""
        h, h0, h1, views, compared = zip(*parts, strict=True)
        both = tuple(torch.cat(z, 1) for z in zip(*compared, strict=True))
        return _Seen(torch.cat(h), torch.cat(h0), torch.cat(h1), torch.cat(views, 1), both)


class _Look:
    """Shows images and two views of each to a method, some at a time."""

    def __init__(
        self, method: Method, data: DataSet, settings: ViewSettings, device: torch.device | str
    ) -> None:
        size = method.backbone.image_size
        mean, std = method.backbone.normalization or (data.mean, data.std)
        self.method, self.device = method, device
        self.views = Views(size, settings, mean=mean, std=std)
        self._mean, self._std = (torch.tensor(x, device=device).view(3, 1, 1) for x in (mean, std))
        # As in evaluation: of large pictures the middle, of small ones all.
        self._crop = CROP if data.train.canvas[0] > size > SMALL else None

    def __call__(self, read: _Read, random: torch.Generator) -> _Seen:
        n = len(read.pixels)
        drawn = self.views.draw(n, generator=random, shapes=read.shapes)
        starts = range(0, n, BATCH)
        return _Seen.of([self._part(read, drawn, slice(i, i + BATCH)) for i in starts])

    def _part(self, read: _Read, drawn: ViewParameters, rows: slice) -> _Seen:
        pixels = read.pixels[rows].to(self.device)
        shapes = None if read.shapes is None else read.shapes[rows]
        views = self.views(pixels, drawn.of(rows).to(self.device))
        plain = self.views.plain(pixels, shapes, self._crop)
        h, h0, h1 = (self.method.backbone(x).float().cpu() for x in (plain, *views))
        compared: tuple[torch.Tensor, ...] = ()
        if isinstance(self.method, HeadMethod):
            compared = self.method.compared(list(views))
        return _Seen(h, h0, h1, self._pictures(views), compared)

    def _pictures(self, views: torch.Tensor) -> torch.Tensor:
        """Normalized views as bytes, on the CPU."""
        values = (views * self._std + self._mean) * 255
        return values.round_().clamp_(0, 255).to(torch.uint8).cpu()


def _matrices(method: Method, *compared: torch.Tensor) -> dict[str, Any]:
    """Similarities and temperatures, as `PairSample` names them."""
    names = ("s", "tau", "channel_tau", "positive_bounds", "negative_bounds")
    matrices: dict[str, Any] = dict.fromkeys(names)
    if not isinstance(method, HeadMethod):
        return matrices
    z0, z1 = compared
    matrix = method.loss.pair_matrix(z0, z1)
    if not (matrix.s.isfinite().all() and matrix.tau.isfinite().all()):
        raise ValueError("the heads give values that are not finite: the weights are damaged.")
    of_images = method.loss.items == "images"
    matrices["s"] = (matrix.s if of_images else method.loss.cosines(z0, z1)).float().cpu()
    matrices["tau" if of_images else "channel_tau"] = matrix.tau.float().cpu().contiguous()
    return matrices | {name: getattr(matrix, name) for name in names[3:]}
