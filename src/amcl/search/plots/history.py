"""The course of a study."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from amcl.drawing import DARK
from amcl.search.plots.drawing import (
    MARKS,
    dots,
    drawn_values,
    legend,
    lost,
    scored,
    study_figure,
    title,
)
from amcl.search.plots.scales import padded, value_axis, whole_axis
from amcl.search.records import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def history(
    records: Sequence[Record], objective_label: str, share: bool, images: int | None = None
) -> "Figure":
    """The value of each trial in order, and the best so far."""
    figure = study_figure(4)
    ax = figure.subplots()
    numbers = [r.number for r in records] or [0]
    done, pruned = scored(records), [r for r in records if _last(r) is not None]
    values = drawn_values([r.value for r in done], share)
    live = drawn_values([_last(r) for r in pruned], share)
    if done:
        x = [*(r.number for r in done), max(numbers)]
        best = np.maximum.accumulate([*values, values[-1]])
        ax.step(x, best, where="post", color=DARK, lw=1.2, label="best so far", zorder=1)
    dots(ax, [r.number for r in done], values)
    dots(ax, [r.number for r in pruned], live, "pruned (last value)", MARKS["pruned"])
    placed = {r.number for r in [*done, *pruned]}
    lost(ax, [(r, r.number) for r in records if r.number not in placed], tuple(MARKS))
    value_axis(ax, np.append(values, live), objective_label, share, images)
    ax.set_xlabel("trial")
    whole_axis(ax, *padded(min(numbers), max(numbers)))
    title(figure, f"{objective_label} of each trial", images)
    legend(figure)
    return figure


def _last(record: Record) -> float | None:
    """The last finite value that was watched of a pruned trial."""
    live = {epoch: v for epoch, v in record.probes.items() if math.isfinite(v)}
    return live[max(live)] if record.ending == "pruned" and live else None
