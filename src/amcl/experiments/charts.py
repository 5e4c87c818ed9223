"""Pictures of what runs came to."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amcl.drawing import BLUE, FAINT, PALETTE, VERMILION, bare, figure_of, legend_below, plain
from amcl.experiments.cases import NONE, Case, Metric, Part
from amcl.experiments.conclusions import nothing_apart
from amcl.experiments.pool import Number
from amcl.experiments.tables import Filled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Placed = tuple[Case, Number]
_ROOM = 40  # letters below a panel
_MARKS = ("o", "s", "^", "D", "v", "P", "X")


def chart(filled: Filled, panels: Sequence[str] = ()) -> "Figure":
    """Means over seeds with their spread, or single runs with the interval of their accuracy.

    Dots are joined where the axis has an order and some of them can be told apart.

    `panels`: those of the part's panels to draw; none: all of them, three side by side at most.
    """
    part = filled.part
    shown = list(panels) or panels_of(part)
    columns = len(shown) if len(shown) < 4 else 2 if len(shown) == 4 else 3
    rows = math.ceil(len(shown) / columns)
    figure = figure_of(max(4.6, 3.6 * columns), 3.0 * rows + 0.4)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    own_scale = len({case.metric.name for case in part.cases}) > 1
    for i, (ax, panel) in enumerate(zip(axes, shown, strict=False)):
        placed = [
            (case, number)
            for case, number in filled.pairs()
            if number.mean is not None and (not panel or case.labels[part.panels or ""] == panel)
        ]
        _lines(ax, filled, placed)
        bare(ax)
        ax.set_xlabel(part.x)
        if panel and not own_scale:
            ax.set_title(plain(panel), fontsize=10)
        if placed and (own_scale or i % columns == 0):
            ax.set_ylabel(placed[0][0].metric.label)
    for ax in axes[len(shown) :]:
        ax.set_visible(False)
    if part.series:
        legend_below(figure)
    return figure


def panels_of(part: Part) -> list[str]:
    """The values that have a panel each; one without a name where there are none."""
    return part.labels(part.panels) if part.panels else [""]


def gains_chart(filled: Filled) -> "Figure | None":
    """Each gain beside the paper's; none where there is nothing to compare with."""
    gains = [g for g in filled.gains() if g.paper is not None and g.number.mean is not None]
    if not gains:
        return None
    figure = figure_of(6.4, 1.1 + 0.28 * len(gains))
    ax = figure.subplots()
    at = list(range(len(gains)))
    ax.axvline(0, color=FAINT, lw=1)
    ours = [_shown(g.metric, g.number.mean or 0.0) for g in gains]
    spread = [_shown(g.metric, g.number.std or 0.0) for g in gains]
    style: dict[str, Any] = {"fmt": "o", "color": BLUE, "capsize": 2, "label": "here"}
    ax.errorbar(ours, at, xerr=spread, **style)
    theirs = [g.paper or 0.0 for g in gains]
    style = {"fmt": "D", "mfc": "none", "color": VERMILION, "label": "paper"}
    ax.errorbar(theirs, at, **style)
    varied = [k for k in gains[0].labels if len({g.labels[k] for g in gains}) > 1]
    names = [", ".join(g.labels[name] for name in varied) for g in gains]
    ax.set_yticks(at, [plain(name) for name in names])
    ax.invert_yaxis()
    ax.set_xlabel("gain in points")
    bare(ax)
    legend_below(figure)
    return figure


def _lines(ax: "Axes", filled: Filled, placed: Sequence[Placed]) -> None:
    part = filled.part
    marks = [c.labels[part.x] for c, _ in placed if c.labels[part.x] != NONE]
    xs = list(dict.fromkeys(marks))
    names = part.labels(part.series) if part.series else [""]
    for i, name in enumerate(names):
        own = [p for p in placed if not name or p[0].labels[part.series or ""] == name]
        dots = [p for p in own if p[0].labels[part.x] != NONE]
        style: dict[str, Any] = {"color": PALETTE[i % len(PALETTE)], "label": plain(name)}
        if dots:
            aside = 0.0 if part.ordered else 0.16 * (i - (len(names) - 1) / 2)
            ax.errorbar(
                [xs.index(case.labels[part.x]) + aside for case, _ in dots],
                [_shown(case.metric, number.mean or 0.0) for case, number in dots],
                yerr=[[_reach(p, end) for p in dots] for end in (0, 1)],
                marker=_MARKS[i % len(_MARKS)],
                ms=5,
                ls="-" if part.ordered and not nothing_apart(dots) else "",
                lw=1.4,
                capsize=2,
                **style,
            )
        for case, number in own:
            if case.labels[part.x] == NONE:
                ax.axhline(_shown(case.metric, number.mean or 0.0), ls="--", lw=1.4, **style)
    ax.set_xticks(range(len(xs)), [plain(x.replace(" (", "\n("), 24) for x in xs])
    if not part.ordered and sum(len(x) + 2 for x in xs) > _ROOM:
        ax.tick_params(axis="x", labelrotation=30)
    ax.set_xlim(-0.4, max(len(xs) - 0.6, 0.4))


def _reach(placed: Placed, end: int) -> float:
    """How far a bar goes down (0) or up (1): the std over seeds, or the interval of one run."""
    case, number = placed
    if number.std is not None:
        return _shown(case.metric, number.std)
    if number.interval is None:
        return 0.0
    return _shown(case.metric, abs(number.interval[end] - (number.mean or 0.0)))


def _shown(metric: Metric, value: float) -> float:
    return 100 * value if metric.share else value
