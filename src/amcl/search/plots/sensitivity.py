"""How the value depends on each field."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from amcl.drawing import DARK, bare
from amcl.search.plots.axis import Axis
from amcl.search.plots.drawing import (
    Numbers,
    aside,
    drawn_values,
    legend,
    name_of,
    scored,
    study_figure,
    title,
    trials,
)
from amcl.search.plots.scales import name_places, range_axis, value_axis
from amcl.search.records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OWN_PICTURE = ("heads", "top_k", "form")
"""Fields that `heads_and_top_k` draws."""
SMOOTHED_FROM = 10
"""Complete trials below which a running median would follow single trials."""


def sensitivity(
    records: Sequence[Record],
    axes: Mapping[str, Axis],
    objective_label: str,
    share: bool,
    images: int | None = None,
) -> "Figure":
    """Value by each field that has no picture of its own: over its range, or by its choices."""
    names = [name for name in axes if name not in OWN_PICTURE]
    if not names:
        raise ValueError(
            f"No field to draw: {', '.join(axes) or 'the space'} belongs to heads_and_top_k."
        )
    columns = 2 if len(names) == 4 else min(len(names), 3)
    rows = math.ceil(len(names) / columns)
    figure = study_figure(1.1 + (2.1 if rows > 1 else 2.6) * rows)
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False)
    values = drawn_values([r.value for r in scored(records)], share)
    for name, ax in zip(names, panels.flat, strict=False):
        if axes[name].choices is None:
            _over_range(ax, records, name, axes[name], share, window=max(5, len(values) // 5 | 1))
        else:
            by_choice(ax, records, name, axes[name], share)
        ax.set_xlabel(name_of(name))
    for row in panels:
        value_axis(row[0], values, objective_label, share, images)
    for ax in panels[:, 1:].flat:
        bare(ax, inner=True)
    for ax in panels.flat[len(names) :]:
        ax.remove()
    title(figure, f"{objective_label} by setting: a dot is a trial", images)
    legend(figure)
    return figure


def _over_range(
    ax: "Axes", records: Sequence[Record], name: str, axis: Axis, share: bool, window: int
) -> None:
    """Dots over a range, with a running median where there are enough of them."""
    placed = [(r, r.point[name]) for r in records if name in r.point]
    x, y = trials(ax, placed, share)
    if len(x) >= max(SMOOTHED_FROM, window):
        label = f"running median of {window} trials"
        ax.plot(*running_median(x, y, window), color=DARK, lw=1.4, label=label, zorder=3)
    range_axis(ax, axis, [at for _, at in placed])


def by_choice(ax: "Axes", records: Sequence[Record], name: str, axis: Axis, share: bool) -> None:
    """A strip of dots for each choice."""
    having = [r for r in records if name in r.point]
    choices, places = axis.places([r.point[name] for r in having])
    trials(ax, [(r, at + aside(r)) for r, at in zip(having, places, strict=True)], share)
    ax.set_xlim(-0.5, len(choices) - 0.5)
    name_places(ax, range(len(choices)), choices)


def running_median(x: Numbers, y: Numbers, window: int) -> tuple[Numbers, Numbers]:
    """Medians of x and y over each `window` neighbors in x.

    >>> x, y = running_median(np.array([3.0, 1, 2, 4]), np.array([9.0, 5, 6, 7]), window=3)
    >>> x.tolist(), y.tolist()
    ([2.0, 3.0], [6.0, 7.0])
    """
    order = np.argsort(x, kind="stable")
    near = np.lib.stride_tricks.sliding_window_view
    medians = (np.median(near(v[order], window), axis=1) for v in (x, y))
    return next(medians), next(medians)
