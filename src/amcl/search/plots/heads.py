"""How the value depends on the number of heads, and on κ and the form of the weights."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from amcl.drawing import DARK, FAINT, GREEN, ORANGE, PINK, bare
from amcl.search.plots.axis import Axis
from amcl.search.plots.drawing import (
    Placed,
    aside,
    dots,
    drawn_values,
    lost,
    name_of,
    panel_legend,
    scored,
    study_figure,
    title,
    trials,
)
from amcl.search.plots.scales import name_places, range_axis, round_numbers, value_axis, whole_axis
from amcl.search.plots.sensitivity import OWN_PICTURE, by_choice
from amcl.search.records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMS = {
    "softmax": (GREEN, "o"),
    "top_k": (ORANGE, "s"),
    "top_k_softmax": (PINK, "^"),
}


def heads_and_top_k(
    records: Sequence[Record],
    axes: Mapping[str, Axis],
    objective_label: str,
    share: bool,
    images: int | None = None,
) -> "Figure":
    """Value by the number of heads C, and by κ and the form of the weights."""
    drawn = [name for name in OWN_PICTURE if name in axes]
    if "top_k" in drawn and "form" in drawn:
        drawn.remove("form")  # one panel shows both
    if not drawn:
        raise ValueError("No field to draw: neither heads, nor form, nor top_k was searched.")
    figure = study_figure(3.7)
    panels = figure.subplots(1, len(drawn), sharey=True, squeeze=False)[0]
    draw = {"heads": _heads, "top_k": _top_k, "form": by_choice}
    for name, ax in zip(drawn, panels, strict=True):
        draw[name](ax, records, name, axes[name], share)
        ax.set_xlabel(name_of(name))
        bare(ax, inner=ax is not panels[0])
        panel_legend(ax)  # colors mean endings in one panel, and forms in another
    values = drawn_values([r.value for r in scored(records)], share)
    value_axis(panels[0], values, objective_label, share, images)
    title(figure, f"{objective_label} by heads and negatives: a dot is a trial", images)
    return figure


def _heads(ax: "Axes", records: Sequence[Record], name: str, axis: Axis, share: bool) -> None:
    """Dots, and the mean, for each number of heads."""
    having = [r for r in records if name in r.point]
    x, y = trials(ax, [(r, r.point[name] + aside(r)) for r in having], share)
    x = x.round()  # steps to the side are less than half
    counts = np.unique(x)
    if len(counts):
        means = [y[x == count].mean() for count in counts]
        ax.hlines(means, counts - 0.3, counts + 0.3, colors=DARK, lw=1.8, label="mean")
    low, high = axis.span([r.point[name] for r in having])
    whole_axis(ax, low - 0.5, high + 0.5)


def _top_k(ax: "Axes", records: Sequence[Record], name: str, axis: Axis, share: bool) -> None:
    """Dots over κ by form; the softmax, which has no κ, at the right end."""
    having = [r for r in records if name in r.point]
    x: Sequence[float] = [r.point[name] for r in having]
    ticks: Sequence[float]
    shown: list[Any]
    if axis.choices is None:
        range_axis(ax, axis, x)
        ticks = shown = round_numbers(*axis.span(x), log=axis.log)
    else:
        shown, x = axis.places(x)
        ax.set_xlim(-0.5, len(shown) - 0.5)
        ticks = range(len(shown))
    placed = list(zip(having, x, strict=True))
    softmax = [r for r in records if name not in r.point and r.point.get("form") == "softmax"]
    if softmax:
        middle, at_the_end = _room_for(ax, softmax)
        ticks, shown = [*ticks, middle], [*shown, "softmax"]
        placed += at_the_end
    name_places(ax, ticks, shown)
    _dots_by_form(ax, placed, share)
    lost(ax, placed)


def _room_for(ax: "Axes", records: Sequence[Record]) -> tuple[float, Placed]:
    """Lengthen the axis to the right: the middle of the new place, and these trials around it."""
    log = ax.get_xscale() == "log"
    low, high = (math.log(end) if log else end for end in ax.get_xlim())

    def along(part: float) -> float:
        x = low + (high - low) * part
        return math.exp(x) if log else x

    ax.set_xlim(along(0), along(1.24))
    ax.axvline(along(1.02), color=FAINT, lw=0.8)
    return along(1.13), [(r, along(1.13 + 0.3 * aside(r))) for r in records]


def _dots_by_form(ax: "Axes", placed: Placed, share: bool) -> None:
    at = {record.number: x for record, x in placed}
    done = scored([record for record, _ in placed])
    for form in dict.fromkeys([*FORMS, *(r.point.get("form") for r, _ in placed)]):
        shown = [r for r in done if r.point.get("form") == form]
        y = drawn_values([r.value for r in shown], share)
        dots(ax, [at[r.number] for r in shown], y, form or "complete", FORMS.get(form or ""))
