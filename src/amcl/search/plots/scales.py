"""The axes of a picture: the value upwards; a range, or a place for each choice, to the right."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amcl.drawing import bare, plain
from amcl.search.plots.axis import Axis, told
from amcl.search.plots.drawing import Numbers, signs, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def value_axis(
    ax: "Axes", values: Numbers, objective_label: str, share: bool, images: int | None = None
) -> None:
    """The value upwards, with room below for the marks of trials that have none.

    It spans two of the `images` at least: a difference of one must not fill the picture.
    """
    bare(ax)
    ax.set_ylabel(plain(objective_label + (" (%)" if share else "")))
    if not len(values):
        ax.set_ylim(0, 1)
        ax.set_yticks([])
        words(ax, "no complete trial")
        return
    low, high = float(values.min()), float(values.max())
    least = (100 if share else 1) * 2 / images if images else abs(high) * 0.01
    if high - low < least:
        low, high = (low + high - least) / 2, (low + high + least) / 2
    span = (high - low) or 1.0
    ax.set_ylim(low - 0.24 * span, high + 0.06 * span)


def whole_axis(ax: "Axes", low: float, high: float) -> None:
    """Whole numbers to the right."""
    from matplotlib.ticker import MaxNLocator

    ax.set_xlim(low, high)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def range_axis(ax: "Axes", axis: Axis, values: Sequence[float]) -> None:
    """The whole range of the field, also where no trial was."""
    low, high = axis.span(values)
    if not axis.log:
        ax.set_xlim(*padded(low, high))
        return
    ax.set_xscale("log")
    start, end = padded(math.log(low), math.log(high))
    ax.set_xlim(math.exp(start), math.exp(end))


def padded(low: float, high: float) -> tuple[float, float]:
    """A little room on both sides."""
    room = (high - low) * 0.04 or 0.5
    return low - room, high + room


def round_numbers(low: float, high: float, log: bool) -> list[float]:
    """A few round numbers in a range: 1, 3, 10, 30 … on a log axis.

    >>> round_numbers(1, 254, log=True)
    [1.0, 3.0, 10.0, 30.0, 100.0]
    """
    from matplotlib.ticker import MaxNLocator

    if not log:
        found = list(MaxNLocator(5, integer=high - low > 5).tick_values(low, high))
    else:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [digit * 10.0**power for power in powers for digit in (1, 3)]
    return [number for number in found if low <= number <= high]


def name_places(ax: "Axes", places: Sequence[float], values: Sequence[Any]) -> None:
    """Values below places; on lines, or aslant, where they would run into each other."""
    from matplotlib.ticker import NullLocator

    names = [plain(told(value), 24) for value in values]
    spec = ax.get_subplotspec()
    room = 84 // (spec.get_gridspec().ncols if spec else 1)  # signs of this size
    if signs(names) > room:
        names = [name.replace(", ", ",\n") for name in names]
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticks(places, names)
    if signs(names) > room:
        ax.tick_params(axis="x", labelrotation=30)
        for text in ax.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")
