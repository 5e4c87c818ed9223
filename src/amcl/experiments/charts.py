"""Pictures of filled tables."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from amcl.drawing import BLUE, FAINT, PALETTE, VERMILION, bare, figure_of, legend_below, plain
from amcl.experiments.filled_table import FilledTable
from amcl.experiments.specs import NONE, CellSpec
from amcl.metrics.unlabeled import Separation
from amcl.results import Measurement
from amcl.results import charts as results
from amcl.results.groups import indistinguishable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_LETTERS = 40  # letters in a row below a panel


def chart(filled: FilledTable, panels: Sequence[str] = ()) -> "Figure":
    """Return a chart of means over seeds with their spread, or single runs with their intervals.

    Points are joined where the axis has an order and some of them can be told apart.

    Args:
        filled: The table.
        panels: The panels to draw; the default is all of them, three side by side at most.
    """
    spec = filled.spec
    names = list(panels) or filled.panels()
    figure, axes, columns = results.panels(len(names), 3.6, 3.0)
    several_metrics = len({cell.metric.name for cell in spec.cells}) > 1
    for i, (ax, panel) in enumerate(zip(axes, names, strict=True)):
        pairs = filled.pairs(panel)
        _lines(ax, filled, pairs)
        bare(ax)
        ax.set_xlabel(spec.x)
        if panel and not several_metrics:
            ax.set_title(plain(panel), fontsize=10)
        if pairs and (several_metrics or i % columns == 0):
            ax.set_ylabel(pairs[0][0].metric.label)
    if spec.series:
        legend_below(figure)
    return figure


def gains_chart(filled: FilledTable) -> "Figure | None":
    """Return a chart of each gain beside the paper's; None if the paper has none."""
    gains = [(g, g.paper) for g in filled.gains() if g.paper is not None]
    if not gains:
        return None
    figure = figure_of(6.4, 1.1 + 0.28 * len(gains))
    ax = figure.subplots()
    rows = list(range(len(gains)))
    ax.axvline(0, color=FAINT, lw=1)
    means = [g.metric.scale * g.difference.mean for g, _ in gains]
    deviations = [g.metric.scale * (g.difference.std or 0.0) for g, _ in gains]
    ax.errorbar(means, rows, xerr=deviations, fmt="o", color=BLUE, capsize=2, label="here")
    papers = [paper for _, paper in gains]
    ax.errorbar(papers, rows, fmt="D", mfc="none", color=VERMILION, label="paper")
    varied = [k for k in gains[0][0].labels if len({g.labels[k] for g, _ in gains}) > 1]
    names = [", ".join(g.labels[name] for name in varied) for g, _ in gains]
    ax.set_yticks(rows, [plain(name) for name in names])
    ax.invert_yaxis()
    ax.set_xlabel("gain in points")
    bare(ax)
    legend_below(figure)
    return figure


def histograms(separations: Mapping[str, Separation]) -> "Figure":
    """Return histograms of positive and negative pairs, a panel for each run."""
    figure, axes, _ = results.panels(len(separations), 3.4, 2.5)
    for ax, (name, separation) in zip(axes, separations.items(), strict=True):
        results.draw_pairs(ax, separation.histograms)
        ax.set_yticks([])
        bare(ax)
        numbers = f"overlap {separation.overlap:.2f}, AUROC {separation.auroc:.3f}"
        ax.set_title(f"{plain(name)}\n{numbers}", fontsize=10)
    legend_below(figure)
    return figure


def _lines(ax: "Axes", filled: FilledTable, pairs: Sequence[tuple[CellSpec, Measurement]]) -> None:
    spec = filled.spec
    xs = list(dict.fromkeys(c.labels[spec.x] for c, _ in pairs if c.labels[spec.x] != NONE))
    names = spec.labels(spec.series) or [""]
    for i, name in enumerate(names):
        members = [(c, m) for c, m in pairs if not name or c.labels[spec.series or ""] == name]
        points = [(c, m) for c, m in members if c.labels[spec.x] != NONE]
        shift = 0.0 if spec.ordered else 0.16 * (i - (len(names) - 1) / 2)
        if points:
            results.error_bars(
                ax,
                [(xs.index(cell.labels[spec.x]) + shift, m) for cell, m in points],
                scale=points[0][0].metric.scale,
                order=i,
                joined=spec.ordered and not indistinguishable([m for _, m in points]),
                label=name,
            )
        for cell, m in members:
            if cell.labels[spec.x] == NONE:
                height = cell.metric.scale * (m.mean or 0.0)
                color = PALETTE[i % len(PALETTE)]
                ax.axhline(height, ls="--", lw=1.4, color=color, label=plain(name))
    ax.set_xticks(range(len(xs)), [plain(x.replace(" (", "\n("), 24) for x in xs])
    if not spec.ordered and sum(len(x) + 2 for x in xs) > _MAX_LETTERS:
        ax.tick_params(axis="x", labelrotation=30)
    ax.set_xlim(-0.4, max(len(xs) - 0.6, 0.4))
