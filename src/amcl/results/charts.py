"""Charts of results: curves, error bars, histograms and matrices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from amcl.drawing import BLUE, DARK, FAINT, PALETTE, VERMILION, bare, figure_of, plain
from amcl.metrics.unlabeled import Histograms
from amcl.results.groups import Measurement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 4.6  # inches
HEIGHT = 2.6
_STYLES = ("-", "--", ":")
_BARS = 40  # bars of a histogram beyond which they are drawn two by two
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


@dataclass(frozen=True)
class Line:
    """Points that belong together; those that are not finite are left out.

    Args:
        label: Name in the legend.
        points: The points (x, y).
        order: Number that decides color and style.
    """

    label: str
    points: Sequence[tuple[float, float]]
    order: int = 0

    @property
    def finite_points(self) -> list[tuple[float, float]]:
        """Points whose numbers are finite."""
        return [(x, y) for x, y in self.points if math.isfinite(x) and math.isfinite(y)]


def curves(
    lines: Sequence[Line],
    x: str,
    y: str,
    bounds: tuple[float, float] | None = None,
    span: float = 0.0,
) -> "Figure":
    """Return a chart of lines, with a legend where there are several.

    Args:
        lines: The lines.
        x: Name of the horizontal axis.
        y: Name of the vertical axis.
        bounds: Values that are marked.
        span: Length of the vertical axis at least, so that small changes look small.
    """
    figure = figure_of(WIDTH, HEIGHT)
    ax = figure.subplots()
    for line in lines:
        if points := line.finite_points:
            xs, ys = zip(*points, strict=True)
            ax.plot(xs, ys, lw=1.6, label=plain(line.label, 32), **_mark(line.order, len(points)))
    for bound in bounds or ():
        ax.axhline(bound, color=FAINT, lw=1, ls="--")
    low, high = ax.get_ylim()
    if high - low < span:
        ax.set_ylim((low + high - span) / 2, (low + high + span) / 2)
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.ticklabel_format(useOffset=False)
    _finish(ax, x, y, legend=len(lines) > 1)
    return figure


def two_histograms(histograms: Histograms, x: str) -> "Figure":
    """Return a chart of the shares of positive and negative pairs in the same bins."""
    figure = figure_of(WIDTH, HEIGHT)
    ax = figure.subplots()
    draw_pairs(ax, histograms)
    _finish(ax, x, "share of pairs (%)", legend=True)
    return figure


def draw_pairs(ax: "Axes", histograms: Histograms) -> None:
    """Draw the histograms of positive and negative pairs on axes, in the colors of the paper.

    Bins at the ends without any pair are left out; many bins are drawn two by two.
    """
    both = torch.stack([histograms.positive, histograms.negative])
    filled = both.sum(0).nonzero().flatten()
    first = int(filled[0])
    last = int(filled[-1]) + 1
    edges = histograms.edges[first : last + 1]
    both = both[:, first:last]
    if both.shape[1] > _BARS:
        odd = both.shape[1] % 2
        both = torch.nn.functional.pad(both, (0, odd)).view(2, -1, 2).sum(2)
        edges = torch.cat([edges, edges[-1:] + odd * (edges[1] - edges[0])])[::2]
    for shares, color, sign in zip(both, (VERMILION, BLUE), ("positive", "negative"), strict=True):
        percent = (100 * shares).numpy()
        ax.stairs(percent, edges.numpy(), fill=True, color=color, alpha=0.4)
        ax.stairs(percent, edges.numpy(), color=color, lw=1.2, label=f"{sign} pairs")
    ax.set_ylim(bottom=0)


def outlines(
    values: torch.Tensor,
    labels: Sequence[str],
    x: str,
    bounds: tuple[float, float] | None = None,
) -> "Figure":
    """Return a chart of the outlines of histograms, one for each row of values (C, M).

    `bounds` are marked where they are near.
    """
    figure = figure_of(WIDTH, HEIGHT)
    ax = figure.subplots()
    low = values.min().item()
    high = values.max().item()
    bins = 60 if values.shape[1] > 5000 else 30  # few values in many bins are ragged
    for i, (row, label) in enumerate(zip(values.double(), labels, strict=True)):
        shares = 100 * torch.histc(row, bins, low, high) / len(row)
        edges = torch.linspace(low, high, bins + 1, dtype=torch.float64)
        ax.stairs(shares.numpy(), edges.numpy(), lw=1.4, label=label, **_mark(i, points=bins))
    for bound in bounds or ():
        if low - 0.5 * (high - low) <= bound <= high + 0.5 * (high - low):
            ax.axvline(bound, color=FAINT, lw=1, ls="--")
    ax.set_ylim(bottom=0)
    ax.locator_params(axis="x", nbins=5)  # temperatures have many digits
    _finish(ax, x, "share of pairs (%)", legend=len(labels) > 1)
    return figure


def panels(
    count: int, width: float, height: float, columns: int = 3
) -> tuple["Figure", list["Axes"], int]:
    """Return a figure of panels, its axes, and the number of columns that they stand in.

    Args:
        count: Number of panels.
        width: Width of a panel in inches.
        height: Height of a panel in inches.
        columns: Number of panels side by side, at most.
    """
    columns = 2 if count == 4 else min(count, columns)
    rows = math.ceil(count / columns)
    figure = figure_of(max(4.6, width * columns), height * rows + 0.4)
    axes = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for ax in axes[count:]:
        ax.set_visible(False)
    return figure, axes[:count], columns


def matrix(values: torch.Tensor, labels: Sequence[str]) -> "Figure":
    """Return a square of numbers (C, C) from −1 to 1, in stronger colors the further from 0."""
    side = 1.1 + 0.62 * len(labels)
    texts = [[f"{v:.3f}" if math.isfinite(v) else "–" for v in row] for row in values.tolist()]
    figure, ax = _square(texts, 0.6 * values.nan_to_num().clamp(-1, 1), labels, side, side - 0.35)
    ax.xaxis.tick_top()
    ax.tick_params(length=0, labelsize=9)
    return figure


def confusion(counts: torch.Tensor, labels: Sequence[str]) -> "Figure":
    """Return a square of numbers of images (K, K): rows are true classes, columns predicted."""
    side = 1.6 + 0.34 * len(labels)
    texts = [[str(images) if images else "" for images in row] for row in counts.tolist()]
    shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
    signs = 2 * torch.eye(len(counts)) - 1  # right ones in blue, wrong ones in vermilion
    names = [plain(label, 16) for label in labels]
    figure, ax = _square(texts, 0.7 * shares * signs, names, side, side - 0.2, fontsize=8)
    ax.tick_params(axis="x", labelrotation=90)
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    return figure


def _square(
    texts: Sequence[Sequence[str]],
    strengths: torch.Tensor,
    labels: Sequence[str],
    width: float,
    height: float,
    fontsize: int = 10,
) -> tuple["Figure", "Axes"]:
    """Return texts in colored cells: blue where the strength is positive, else vermilion."""
    from matplotlib.patches import Rectangle

    figure = figure_of(width, height)
    ax = figure.subplots()
    for i, (row, strengths_of_row) in enumerate(zip(texts, strengths.tolist(), strict=True)):
        for j, (text, strength) in enumerate(zip(row, strengths_of_row, strict=True)):
            color = BLUE if strength >= 0 else VERMILION
            corner = (j - 0.5, i - 0.5)
            ax.add_patch(Rectangle(corner, 1, 1, color=color, alpha=abs(strength), lw=0))
            if text:
                ax.text(j, i, text, ha="center", va="center", fontsize=fontsize, color=DARK)
    count = len(labels)
    ax.set(xlim=(-0.5, count - 0.5), ylim=(count - 0.5, -0.5), aspect="equal")
    ax.set_xticks(range(count), labels)
    ax.set_yticks(range(count), labels)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelsize=8)
    return figure, ax


def error_bars(
    ax: "Axes",
    points: Sequence[tuple[float, Measurement]],
    *,
    scale: float = 1.0,
    order: int = 0,
    joined: bool = False,
    label: str = "",
) -> None:
    """Draw means over seeds with their standard deviations, or single runs with their intervals.

    Args:
        ax: The axes.
        points: Positions on the horizontal axis with the measurements there.
        scale: Factor on all numbers, such as 100 for percent.
        order: Number that decides color and marker.
        joined: Whether to draw a line through the points.
        label: Name in the legend.
    """
    numbers = [(x, m, m.mean) for x, m in points if m.mean is not None]
    ax.errorbar(
        [x for x, _, _ in numbers],
        [scale * mean for _, _, mean in numbers],
        yerr=[[scale * _reach(m, mean, end) for _, m, mean in numbers] for end in (0, 1)],
        color=PALETTE[order % len(PALETTE)],
        marker=_MARKERS[order % len(_MARKERS)],
        ms=5,
        ls="-" if joined else "",
        lw=1.4,
        capsize=2,
        label=plain(label),
    )


def _reach(measurement: Measurement, mean: float, end: int) -> float:
    """Return the length of an error bar downwards (0) or upwards (1)."""
    if measurement.std is not None:
        return measurement.std
    return 0.0 if measurement.interval is None else abs(measurement.interval[end] - mean)


def _mark(i: int, points: int) -> dict[str, Any]:
    """Return color and style of the i-th line, with dots where points are few."""
    dots = {"marker": "o", "ms": 3.5} if points <= 20 else {}
    style = _STYLES[i // len(PALETTE) % len(_STYLES)]
    return {"color": PALETTE[i % len(PALETTE)], "ls": style, **dots}


def _finish(ax: "Axes", x: str, y: str, legend: bool) -> None:
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    bare(ax)
    ax.grid(axis="y", color=FAINT, lw=0.6)
    ax.set_axisbelow(True)
    labels = ax.get_legend_handles_labels()[1]
    if legend and labels:
        ax.figure.legend(
            loc="outside upper left",
            ncols=3 if len(labels) != 4 else 2,
            frameon=False,
            fontsize=9,
            handlelength=1.6,
            columnspacing=1.4,
        )
