"""The analysis of a run by the overlap of crops: numbers in bins, a JSON file and a picture."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from amcl.analysis.crops import CropPairs, CropSettings, RankCorrelation, rank_correlation
from amcl.drawing import DARK, FAINT, PALETTE, bare, legend_below, save_png
from amcl.files import write_text
from amcl.results.charts import panels
from amcl.text_files import to_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

JSON = "crop-overlap.json"
PICTURE = "crop-overlap.png"
BINS = 10
_FEW = 10  # pairs below which a bin is not drawn

TAU = "temperature of the pair, τ⁺"
SIMILARITY = "similarity of the pair, s⁺"


@dataclass(frozen=True)
class ByOverlap:
    """A number of pairs, in bins of the overlap of their crops."""

    heads: torch.Tensor
    """Mean in each head and bin, (C, B); NaN where a bin is empty."""
    mean: torch.Tensor
    """Mean over heads, (B,)."""
    quartiles: torch.Tensor
    """Quartiles of the mean over heads, (2, B)."""
    correlation: RankCorrelation
    """Rank correlation of the mean over heads with the overlap."""
    of_heads: tuple[RankCorrelation, ...]
    """The same in each head."""


@dataclass(frozen=True)
class CropOverlap:
    """What a run makes of pairs by the overlap of their crops."""

    counts: torch.Tensor
    """Number of pairs in each bin of overlap, (B,)."""
    tau: ByOverlap | None
    """τ⁺; None where pairs do not differ in it."""
    similarity: ByOverlap
    """Cosine of the projections."""
    tau_by_similarity: RankCorrelation | None
    """Rank correlation of τ⁺ and similarity, in the mean over heads."""


def crop_overlap(pairs: CropPairs, seed: int = 0) -> CropOverlap:
    """Summarize pairs in bins of the overlap (IoU) of their crops.

    Args:
        pairs: The pairs, as `crop_pairs` returns them.
        seed: Seed of the intervals.

    Returns:
        Means in bins, and rank correlations over pairs with intervals.

    Raises:
        ValueError: All crops overlap by the same share.

    Example:
        >>> iou = torch.linspace(0.1, 0.9, 40).view(20, 2)
        >>> pairs = CropPairs(iou=iou, tau=1 - iou[None], similarity=iou[None], source="toy")
        >>> print(crop_overlap(pairs).tau.correlation)
        -1.00 (-1.00 to -1.00)
    """
    if pairs.iou.amax() - pairs.iou.amin() < 1e-4:
        raise ValueError(
            f"all crops overlap by {float(pairs.iou.mean()):.2f}: nothing can depend on it."
        )
    index = (pairs.iou * BINS).long().clamp_max(BINS - 1)
    tau = None if pairs.tau is None else _by_overlap(pairs.tau, pairs.iou, index, seed)
    both = None
    if pairs.tau is not None:
        both = rank_correlation(pairs.tau.mean(0), pairs.similarity.mean(0), seed)
    return CropOverlap(
        counts=index.flatten().bincount(minlength=BINS),
        tau=tau,
        similarity=_by_overlap(pairs.similarity, pairs.iou, index, seed),
        tau_by_similarity=both,
    )


def picture(found: CropOverlap) -> "Figure":
    """Return a chart of temperature and of similarity by overlap, head by head."""
    sides = [(TAU, found.tau), (SIMILARITY, found.similarity)]
    drawn = [(title, side) for title, side in sides if side is not None]
    figure, axes, _ = panels(len(drawn), 3.6, 3.0)
    for ax, (title, side) in zip(axes, drawn, strict=True):
        _draw(ax, side, found.counts >= _FEW)
        ax.set_title(f"{title}\nrank correlation {side.correlation}", fontsize=9)
        ax.set_xlabel("overlap of the crops (IoU)", fontsize=9)
        bare(ax)
    legend_below(figure)
    return figure


def write_crop_overlap(
    folder: Path, found: CropOverlap, pairs: CropPairs, settings: CropSettings, run: str
) -> None:
    """Write the numbers and the picture into a folder.

    Args:
        folder: The folder; files of the same analysis in it are replaced.
        found: What was found.
        pairs: The pairs that it was found in.
        settings: The choice of the pairs.
        run: The run, as the user named it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    n, k = pairs.iou.shape
    content = {
        "run": run,
        "source": pairs.source,
        "images": n,
        "pairs_of_each": k,
        "seed": settings.seed,
        "unreadable": [list(each) for each in pairs.unreadable],
        "bins": [
            {"iou_from": i / BINS, "iou_to": (i + 1) / BINS, "pairs": int(count)}
            for i, count in enumerate(found.counts)
        ],
        "tau": None if found.tau is None else _plain(found.tau),
        "similarity": _plain(found.similarity),
        "tau_by_similarity": _interval(found.tau_by_similarity),
    }
    write_text(folder / JSON, to_json(content, indent=1) + "\n")
    save_png(picture(found), folder / PICTURE)


def _by_overlap(
    values: torch.Tensor, iou: torch.Tensor, index: torch.Tensor, seed: int
) -> ByOverlap:
    """Summarize values (C, N, k) in the bins (N, k) of overlap."""
    mean = values.mean(0)
    members = [index == i for i in range(BINS)]
    levels = torch.tensor([0.25, 0.75])
    missing = torch.full((2,), torch.nan)
    return ByOverlap(
        heads=torch.stack([values[:, rows].mean(1) for rows in members], 1),
        mean=torch.stack([mean[rows].mean() for rows in members]),
        quartiles=torch.stack(
            [mean[rows].quantile(levels) if rows.any() else missing for rows in members], 1
        ),
        correlation=rank_correlation(mean, iou, seed),
        of_heads=tuple(rank_correlation(head, iou, seed) for head in values),
    )


def _draw(ax: "Axes", side: ByOverlap, enough: torch.Tensor) -> None:
    x = ((torch.arange(BINS) + 0.5) / BINS)[enough].numpy()
    low, high = side.quartiles[:, enough].numpy()
    ax.fill_between(x, low, high, color=FAINT, alpha=0.4, lw=0, label="middle half of the pairs")
    several = len(side.heads) > 1
    width = 5 if several else 2  # heads are drawn upon their mean, which may be theirs exactly
    label = "mean of heads" if several else "mean"
    ax.plot(x, side.mean[enough].numpy(), color=DARK, alpha=0.5, lw=width, label=label)
    for c, head in enumerate(side.heads if several else ()):
        color = PALETTE[c % (len(PALETTE) - 1)]
        dashes = (3 * c, (4, 3 * len(side.heads) - 1))
        label = f"head {c + 1}"
        ax.plot(x, head[enough].numpy(), "o", color=color, lw=1.4, ls=dashes, ms=2, label=label)
    ax.set_xlim(0, 1)


def _plain(side: ByOverlap) -> dict[str, Any]:
    """Return plain values; means of empty bins are None."""

    def numbers(values: torch.Tensor) -> list[float | None]:
        return [None if value != value else value for value in values.tolist()]

    return {
        "mean": numbers(side.mean),
        "heads": [numbers(head) for head in side.heads],
        "quartiles": [numbers(each) for each in side.quartiles],
        "rank_correlation": _interval(side.correlation),
        "rank_correlation_of_heads": [_interval(each) for each in side.of_heads],
    }


def _interval(correlation: RankCorrelation | None) -> dict[str, float] | None:
    if correlation is None or math.isnan(correlation.value):
        return None
    return asdict(correlation)
