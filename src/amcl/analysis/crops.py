"""Temperature and similarity of pairs of views by the overlap of their crops."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch

from amcl.analysis.pairs import positives
from amcl.analysis.run import trained_run
from amcl.data import Batch, DataSet, stream
from amcl.data.split import sample
from amcl.methods import HeadMethod, HeadSettings, Method
from amcl.metrics.features import eval_mode
from amcl.seeds import generator, seed_of
from amcl.settings import whole_number
from amcl.training.hardware import find_accelerator
from amcl.views import Views, ViewSettings, suited

_BATCH = 256
_RESAMPLES = 1000
_CONFIDENCE = (0.025, 0.975)


@dataclass(frozen=True, kw_only=True)
class CropSettings:
    """Choice of the pairs of views that are analyzed."""

    images: int = 1000
    """Number of images, or all where there are fewer."""
    pairs: int = 4
    """Pairs of views of each image."""
    seed: int = 0
    """Seed of the choice of images, of their views, and of the intervals."""

    def __post_init__(self) -> None:
        if whole_number("images", self.images, "choose 2 or more") < 2:
            raise ValueError(f"images must be at least 2, to be compared, got {self.images}.")
        whole_number("pairs", self.pairs)


@dataclass(frozen=True, kw_only=True, eq=False)
class CropPairs:
    """k pairs of views of each of N images, made as in training, in C heads."""

    iou: torch.Tensor
    """Area that the two crops share over that of their union, in the original image, (N, k)."""
    tau: torch.Tensor | None
    """τ⁺ of the pairs, (C, N, k); None where pairs do not differ in it."""
    similarity: torch.Tensor
    """Cosine of the projections, (C, N, k)."""
    source: str
    """Description of the images."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """Files that could not be read and are left out, each with the reason."""


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's rank correlation with its 95 % interval; NaN where all pairs are the same."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "none: all pairs are the same"
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


@torch.no_grad()
def crop_pairs(
    method: Method,
    data: DataSet,
    views: ViewSettings | None = None,
    settings: CropSettings | None = None,
    *,
    device: torch.device | str = "cpu",
) -> CropPairs:
    """Compute overlap, temperature and similarity of pairs of views.

    The images are those held out for probes, if there are any, else the training images. The method
    is in evaluation mode.

    Args:
        method: The method, with heads; it is moved to `device`.
        data: The data set.
        views: Settings of the views; None for the defaults.
        settings: Number of images and of pairs, and the seed.
        device: Device to compute on.

    Returns:
        The pairs.

    Raises:
        ValueError: The method has no heads, or the views are not cropped.

    Example:
        >>> from amcl.backbones import Backbone, BackboneSettings
        >>> from amcl.data import MemoryImages
        >>> from amcl.methods import SimCLRSettings, make_method
        >>> images = MemoryImages(torch.randint(256, (8, 3, 32, 32), dtype=torch.uint8))
        >>> half = (0.5, 0.5, 0.5)
        >>> data = DataSet(name="toy", train=images, probe=None, image_size=32, mean=half, std=half)
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> pairs = crop_pairs(make_method(SimCLRSettings(heads=3), backbone), data)
        >>> pairs.iou.shape, pairs.similarity.shape
        (torch.Size([8, 4]), torch.Size([3, 8, 4]))
    """
    settings = CropSettings() if settings is None else settings
    if views is None:
        views, _ = suited(ViewSettings(), data.channels)
    if not isinstance(method, HeadMethod):
        raise ValueError(f"{type(method.settings).title} has no heads, and so no pairs to measure.")
    if "a" not in views.operations or views.crop_scale[0] == 1:
        raise ValueError("the views of this run are not cropped: all crops overlap completely.")
    images = data.train if data.probe is None else data.probe.queries.images
    mean, std = method.backbone.normalization or (data.mean, data.std)
    maker = Views(method.backbone.image_size, views, mean=mean, std=std)
    chosen = sample(len(images), settings.images, seed_of(settings.seed, "crops"))
    random = generator(settings.seed, "crops", "views")
    # Temperatures depend on the mean of a batch: none is small, or has images of one class alone.
    shuffled = chosen[torch.randperm(len(chosen), generator=random)]
    steps = shuffled.tensor_split(math.ceil(len(chosen) / _BATCH))
    method = method.to(device)
    parts: list[_Part] = []
    unreadable: list[tuple[str, str]] = []
    with eval_mode(method):
        for batch in stream(images, steps, workers=0, replace=False):
            unreadable += batch.unreadable
            if len(batch.pixels):
                draws = [_draw(method, maker, batch, random, device) for _ in range(settings.pairs)]
                parts.append(_Part.stack(draws))
    if sum(len(part.iou) for part in parts) < 2:
        first = f" ({': '.join(unreadable[0])})" if unreadable else ""
        raise ValueError(f"fewer than 2 of {len(chosen)} images can be read{first}.")
    return CropPairs(
        iou=torch.cat([part.iou for part in parts]),
        tau=torch.cat([part.tau for part in parts], 1) if any(p.differs for p in parts) else None,
        similarity=torch.cat([part.similarity for part in parts], 1),
        source=f"{'training' if data.probe is None else data.probe.split} images of {data.name}",
        unreadable=tuple(unreadable),
    )


def crop_pairs_of_run(
    run: str | Path,
    settings: CropSettings | None = None,
    *,
    data: str | None = None,
    data_root: str | None = None,
    device: torch.device | str | None = None,
) -> CropPairs:
    """Compute the pairs of a run, by its newest checkpoint and with views as in training.

    Args:
        run: The run folder.
        settings: Number of images and of pairs, and the seed.
        data: The images, if they were moved or are to be others.
        data_root: Folder of named sets, if it was moved.
        device: Device to compute on; None for a GPU where there is one.

    Returns:
        The pairs.

    Example:
        >>> pairs = crop_pairs_of_run("runs/first")  # doctest: +SKIP
        >>> print(rank_correlation(pairs.tau.mean(0), pairs.iou))  # doctest: +SKIP
        -0.68 (-0.70 to -0.66)
    """
    trained = trained_run(run, data=data, data_root=data_root)
    device = find_accelerator("auto") if device is None else device
    return crop_pairs(trained.method, trained.data, trained.views, settings, device=device)


def rank_correlation(x: torch.Tensor, y: torch.Tensor, seed: int = 0) -> RankCorrelation:
    """Return Spearman's rank correlation of two numbers of k pairs of each of N images.

    The interval is a bootstrap over images, whose pairs stay together; ranks are those among all
    pairs.

    Args:
        x: Numbers (N, k).
        y: Numbers (N, k).
        seed: Seed of the bootstrap.

    Returns:
        The correlation and its interval.

    Example:
        >>> x = torch.arange(100.0).view(50, 2)
        >>> print(rank_correlation(x, -(x**3)))
        -1.00 (-1.00 to -1.00)
    """
    if x.amax() == x.amin() or y.amax() == y.amin():
        return RankCorrelation(math.nan, math.nan, math.nan)
    x, y = (_ranks(values.flatten()).view(values.shape) for values in (x, y))
    n = len(x)
    # Sums over the pairs of each image: all that a correlation needs of any resample.
    sums = torch.stack([x.sum(1), y.sum(1), (x * x).sum(1), (y * y).sum(1), (x * y).sum(1)])
    random = generator(seed, "crops", "bootstrap")
    drawn = torch.randint(n, (_RESAMPLES, n), generator=random)
    counts = torch.zeros(_RESAMPLES, n, dtype=torch.float64)
    counts.scatter_add_(1, drawn, torch.ones_like(counts))
    resampled = _correlation(sums @ counts.T / n, x.shape[1])
    low, high = resampled.nanquantile(torch.tensor(_CONFIDENCE, dtype=torch.float64)).tolist()
    return RankCorrelation(_correlation(sums.mean(1), x.shape[1]).item(), low, high)


@dataclass(frozen=True)
class _Part:
    """Pairs of the images of a batch: one of each, (n,) and (C, n), or several, (…, k)."""

    iou: torch.Tensor
    tau: torch.Tensor
    similarity: torch.Tensor
    differs: bool
    """Whether some pairs of one draw differ in τ."""

    @staticmethod
    def stack(draws: "list[_Part]") -> "_Part":
        """Return the pairs of several draws as one."""
        return _Part(
            iou=torch.stack([draw.iou for draw in draws], -1),
            tau=torch.stack([draw.tau for draw in draws], -1),
            similarity=torch.stack([draw.similarity for draw in draws], -1),
            differs=any(draw.differs for draw in draws),
        )


def _draw(
    method: HeadMethod,
    views: Views,
    batch: Batch,
    random: torch.Generator,
    device: torch.device | str,
) -> _Part:
    """Measure one pair of views of each image of a batch."""
    drawn = views.draw(len(batch.pixels), generator=random, shapes=batch.shapes)
    z0, z1 = method.compared(list(views(batch.pixels.to(device), drawn.to(device))))
    similarity = positives(method.loss.cosines(z0, z1)).float().cpu()
    tau = torch.ones_like(similarity)
    differs = False
    if _has_tau(method):
        tau = positives(method.loss.pair_matrix(z0, z1).tau).float().cpu()
        # A temperature of all images of a batch is that of no pair.
        differs = bool((tau.amax(1) > tau.amin(1)).any())
    if not (tau.isfinite().all() and similarity.isfinite().all()):
        raise ValueError("the heads give values that are not finite: the weights are damaged.")
    return _Part(drawn.iou(), tau, similarity, differs)


def _has_tau(method: HeadMethod) -> bool:
    """Return whether temperatures are those of pairs of any images."""
    settings = method.settings
    of_training = isinstance(settings, HeadSettings) and settings.temperature.needs_images
    return method.loss.items == "images" and not of_training


def _ranks(values: torch.Tensor) -> torch.Tensor:
    """Return ranks (n,) in float64; equal values share the mean of theirs.

    >>> _ranks(torch.tensor([5.0, 1.0, 5.0]))
    tensor([2.5000, 1.0000, 2.5000], dtype=torch.float64)
    """
    _, index, counts = values.unique(return_inverse=True, return_counts=True)
    ranks: torch.Tensor = (counts.cumsum(0) - (counts.double() - 1) / 2)[index]
    return ranks


def _correlation(sums: torch.Tensor, k: int) -> torch.Tensor:
    """Return correlations from the mean sums (5, …) of k pairs: x, y, x², y², xy."""
    x, y, xx, yy, xy = sums / k
    correlation: torch.Tensor = (xy - x * y) / ((xx - x * x) * (yy - y * y)).sqrt()
    return correlation
