"""What the pictures share: shapes, marks of trials, words, the legend."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from amcl.drawing import BLUE, DARK, ORANGE, PINK, VERMILION, figure_of, plain
from amcl.search.records import Record

if TYPE_CHECKING:  # loaded only where something is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]
Placed = Sequence[tuple[Record, float]]
"""Trials, each with its x."""

NAMES = {
    "eta": "lower bound of τ (η)",
    "iota": "width of the range of τ (ι)",
    "beta": "weight of the regularizer Ω (β)",
    "heads": "number of heads (C)",
    "top_k": "number of hardest negatives (κ)",
    "form": "how negatives are weighted (form)",
    "lr": "learning rate (lr)",
    "tau": "temperature (tau)",
    "prior_tau": "temperature with the least Ω (prior_tau)",
}
"""Fields in words; others are called as they are typed."""
# Shapes say the same again as colors.
MARKS = {
    "complete": (BLUE, "o"),
    "pruned": (ORANGE, "v"),
    "collapsed": (VERMILION, "|"),
    "diverged": ("#000000", "x"),
    "invalid": ("#888888", "+"),
    "failed": (PINK, "d"),
}
WIDTH = 8
BAND = 0.12  # of the height, for trials without a value


def study_figure(height: float) -> "Figure":
    """An empty figure of the width of all pictures of a study."""
    return figure_of(WIDTH, height)


def scored(records: Sequence[Record]) -> list[Record]:
    """Complete trials with a finite value, in order."""
    complete = [
        r
        for r in records
        if r.ending == "complete" and r.value is not None and math.isfinite(r.value)
    ]
    return sorted(complete, key=lambda r: r.number)


def drawn_values(values: Sequence[float | None], share: bool) -> Numbers:
    """Values as they are drawn: shares in per cent."""
    return np.array(values, float) * (100 if share else 1)


def aside(record: Record) -> float:
    """A step to the side, so that dots of one place do not hide each other; the same each time."""
    golden = (math.sqrt(5) - 1) / 2
    return ((record.number * golden) % 1 - 0.5) * 0.36


def dots(
    ax: "Axes", x: Any, y: Numbers, label: str = "complete", mark: tuple[str, str] | None = None
) -> None:
    """A dot for each value; nothing, also in the legend, if there is none."""
    if len(y):
        color, marker = mark or MARKS["complete"]
        ax.scatter(x, y, s=26, color=color, marker=marker, alpha=0.8, label=label)


def lost(ax: "Axes", placed: Placed, endings: Sequence[str] = ("collapsed", "diverged")) -> None:
    """Marks of the trials that ended in one of these ways, on a band below all values."""
    from matplotlib.patches import Rectangle

    if any(record.ending in endings for record, _ in placed):
        band = Rectangle((0, 0), 1, BAND, transform=ax.transAxes, facecolor="#F0F0F0", zorder=0)
        ax.add_patch(band)
    for ending in endings:
        x = [at for record, at in placed if record.ending == ending]
        if x:
            color, marker = MARKS[ending]
            height = 0.035 if ending == "collapsed" else 0.085  # neither hides the other
            style: dict[str, Any] = {"color": color, "marker": marker, "linewidths": 1.4}
            style |= {"label": ending, "transform": ax.get_xaxis_transform()}
            ax.scatter(x, [height] * len(x), s=30, **style)


def trials(ax: "Axes", placed: Placed, share: bool) -> tuple[Numbers, Numbers]:
    """Dots of complete trials and marks of lost ones; x and y of the dots, in order of trials."""
    at = {record.number: x for record, x in placed}
    done = scored([record for record, _ in placed])
    x = np.array([at[record.number] for record in done], float)
    y = drawn_values([record.value for record in done], share)
    dots(ax, x, y)
    lost(ax, placed)
    return x, y


def words(ax: "Axes", text: str) -> None:
    """A sentence in the middle of the axes."""
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=DARK)


def name_of(name: str) -> str:
    """What a field is called in a picture.

    >>> name_of("eta"), name_of("weight_decay")
    ('lower bound of τ (η)', 'weight_decay')
    """
    return plain(NAMES.get(name, name))


def title(figure: "Figure", text: str, images: int | None = None) -> None:
    """The title of a picture, with the number of images that its accuracies are of."""
    if images is not None:
        text += f"\n{images:,} validation images: one image is {100 / images:.2g} points"
    figure.suptitle(plain(text, 160), fontsize=11)


def signs(names: Sequence[str]) -> int:
    """Signs that names take side by side, with a gap after each."""
    return sum(max(map(len, name.split("\n"))) + 2 for name in names)


def legend(figure: "Figure") -> None:
    """One legend for panels that show the same, below them."""
    pairs = [zip(*ax.get_legend_handles_labels(), strict=True) for ax in figure.axes]
    found = {label: handle for panel in pairs for handle, label in panel}
    if not found:
        return
    labels = sorted(found, key=lambda label: label in MARKS and label != "complete")
    figure.legend(
        [found[label] for label in labels],
        labels,
        loc="outside lower center",
        ncols=len(labels) if signs(labels) < 72 else math.ceil(len(labels) / 2),
        frameon=False,
        fontsize=9,
        handlelength=1.4,
        handletextpad=0.4,
        columnspacing=1.4,
    )


def panel_legend(ax: "Axes") -> None:
    """The legend of one panel, above it, where others show something else."""
    handles, labels = ax.get_legend_handles_labels()
    if not labels:
        return
    ax.legend(
        handles,
        labels,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=2 if signs(labels) > 36 else len(labels),
        frameon=False,
        fontsize=9,
        handlelength=1.4,
        handletextpad=0.4,
        columnspacing=1.2,
    )
