"""The drawings of a report."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from amcl.drawing import BLUE, DARK, FAINT, PALETTE, VERMILION, bare, figure_of, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 4.6, 2.6
_STYLES = ("-", "--", ":")


@dataclass(frozen=True)
class Line:
    """Points that belong together; those that are not finite are left out."""

    label: str
    points: Sequence[tuple[float, float]]
    order: int = 0
    """Decides color and style."""

    @property
    def shown(self) -> list[tuple[float, float]]:
        """Finite points."""
        return [(x, y) for x, y in self.points if math.isfinite(x) and math.isfinite(y)]


def curves(
    lines: Sequence[Line], x: str, y: str, bounds: tuple[float, float] | None = None
) -> "Figure":
    """A line for each, with a legend where there are several; `bounds` are marked."""
    figure = figure_of(WIDTH, HEIGHT)
    ax = figure.subplots()
    for line in lines:
        if line.shown:
            at, value = zip(*line.shown, strict=True)
            mark = _mark(line.order, len(line.shown))
            ax.plot(at, value, lw=1.6, label=plain(line.label, 32), **mark)
    if bounds is not None:
        for bound in bounds:
            ax.axhline(bound, color=FAINT, lw=1, ls="--")
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.ticklabel_format(useOffset=False)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    _finish(ax, len(lines) > 1)
    return figure


def two_histograms(
    edges: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor, x: str
) -> "Figure":
    """Shares of positive and negative pairs in the same bins."""
    figure = figure_of(WIDTH, HEIGHT)
    ax = figure.subplots()
    draw_pairs(ax, edges, positive, negative)
    ax.set_xlabel(x)
    ax.set_ylabel("share of pairs (%)")
    _finish(ax, legend=True)
    return figure


def draw_pairs(
    ax: "Axes", edges: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor
) -> None:
    """The histograms of both on axes, in the colors that the paper has for them."""
    for shares, color, label in (
        (positive, VERMILION, "positive pairs"),
        (negative, BLUE, "negative pairs"),
    ):
        drawn = (100 * shares).numpy()
        ax.stairs(drawn, edges.numpy(), fill=True, color=color, alpha=0.4)
        ax.stairs(drawn, edges.numpy(), color=color, lw=1.2, label=label)
    ax.set_ylim(bottom=0)


def outlines(
    values: torch.Tensor,
    labels: Sequence[str],
    x: str,
    bounds: tuple[float, float] | None = None,
) -> "Figure":
    """The outline of a histogram for each row of values (C, M); `bounds` are marked."""
    figure = figure_of(WIDTH, HEIGHT)
    ax = figure.subplots()
    low, high = values.min().item(), values.max().item()
    bins = 60 if values.shape[1] > 5000 else 30  # few values in many bins are ragged
    for i, (row, label) in enumerate(zip(values.double(), labels, strict=True)):
        shares = 100 * torch.histc(row, bins, low, high) / len(row)
        edges = torch.linspace(low, high, bins + 1, dtype=torch.float64)
        style = _mark(i, points=bins)
        ax.stairs(shares.numpy(), edges.numpy(), lw=1.4, label=label, **style)
    for bound in bounds or ():
        if low - 0.5 * (high - low) <= bound <= high + 0.5 * (high - low):
            ax.axvline(bound, color=FAINT, lw=1, ls="--")
    ax.set_ylim(bottom=0)
    ax.set_xlabel(x)
    ax.set_ylabel("share of pairs (%)")
    _finish(ax, legend=len(labels) > 1)
    return figure


def matrix(values: torch.Tensor, labels: Sequence[str]) -> "Figure":
    """Numbers from −1 to 1 in a square, the stronger the color the further from 0."""
    from matplotlib.patches import Rectangle

    count = len(labels)
    side = 1.1 + 0.62 * count
    figure = figure_of(side, side - 0.35)
    ax = figure.subplots()
    for i, row in enumerate(values.tolist()):
        for j, value in enumerate(row):
            known = math.isfinite(value)
            strength = 0.6 * min(abs(value), 1) if known else 0
            color = BLUE if not known or value >= 0 else VERMILION
            cell = Rectangle((j - 0.5, i - 0.5), 1, 1, color=color, alpha=strength, lw=0)
            ax.add_patch(cell)
            text = f"{value:.3f}" if known else "–"
            ax.text(j, i, text, ha="center", va="center", fontsize=10, color=DARK)
    ax.set(xlim=(-0.5, count - 0.5), ylim=(count - 0.5, -0.5), aspect="equal")
    ax.set_xticks(range(count), labels)
    ax.set_yticks(range(count), labels)
    ax.xaxis.tick_top()
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelsize=9)
    return figure


def confusion(counts: torch.Tensor, labels: Sequence[str]) -> "Figure":
    """Numbers of images (K, K) in a square, true classes by rows, predicted ones by columns."""
    from matplotlib.patches import Rectangle

    number = len(labels)
    side = 1.6 + 0.34 * number
    figure = figure_of(side, side - 0.2)
    ax = figure.subplots()
    shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
    for i, (row, share) in enumerate(zip(counts.tolist(), shares.tolist(), strict=True)):
        for j, (images, part) in enumerate(zip(row, share, strict=True)):
            color = BLUE if i == j else VERMILION
            cell = Rectangle((j - 0.5, i - 0.5), 1, 1, color=color, alpha=0.7 * part, lw=0)
            ax.add_patch(cell)
            if images:
                ax.text(j, i, f"{images}", ha="center", va="center", fontsize=8, color=DARK)
    ax.set(xlim=(-0.5, number - 0.5), ylim=(number - 0.5, -0.5), aspect="equal")
    names = [plain(label, 16) for label in labels]
    ax.set_xticks(range(number), names, rotation=90)
    ax.set_yticks(range(number), names)
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelsize=8)
    return figure


def _mark(i: int, points: int) -> dict[str, Any]:
    """Color and style of the i-th line, with dots where points are few."""
    mark: dict[str, Any] = {"color": PALETTE[i % len(PALETTE)]}
    mark["ls"] = _STYLES[i // len(PALETTE) % len(_STYLES)]
    return mark | ({"marker": "o", "ms": 3.5} if points <= 20 else {})


def _finish(ax: "Axes", legend: bool) -> None:
    bare(ax)
    ax.grid(axis="y", color=FAINT, lw=0.6)
    ax.set_axisbelow(True)
    if legend and ax.get_legend_handles_labels()[1]:
        ax.figure.legend(
            loc="outside upper left",
            ncols=3 if len(ax.get_legend_handles_labels()[1]) != 4 else 2,
            frameon=False,
            fontsize=9,
            handlelength=1.6,
            columnspacing=1.4,
        )
