"""Pictures of the pages of results in docs, from the records in benchmarks/evidence.

    python benchmarks/evidence_pictures.py

The metadata of each picture has the SHA-256 of the records that it shows, so that a test detects
pictures that are out of date.
"""

import hashlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from amcl.drawing import BLUE, FAINT, PALETTE, VERMILION, bare, figure_of, legend_below
from amcl.results import Group

sys.path.insert(0, str(Path(__file__).parent))  # also where a test loads this file by its path

import evidence
import evidence_lengths
from evidence_studies import METHODS, groups_of, studies

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDER = evidence.DOCS / "images"
KNN = "knn_top1_test"


def seed_dots(
    ax: "Axes",
    xs: Sequence[float],
    values: Sequence[Sequence[float]],
    color: str,
    *,
    label: str = "",
    mean: float = 0.0,
) -> None:
    """Draw a dot for each seed at each position, and a line at the means.

    Args:
        ax: The axes.
        xs: Positions on the horizontal axis.
        values: The numbers of all seeds at each position.
        color: Color of dots and lines.
        label: Name in the legend.
        mean: Half the width of a line at each mean; 0 joins the means by one line.
    """
    means = [fmean(points) for points in values]
    for x, points, middle in zip(xs, values, means, strict=True):
        ax.plot([x] * len(points), points, "o", color=color, ms=4, alpha=0.5)
        if mean:
            ax.plot([x - mean, x + mean], [middle, middle], color=color, lw=2, label=label)
    if not mean:
        ax.plot(xs, means, color=color, lw=2, label=label)


def gains() -> "Figure":
    """Return a chart of the gain of AMCL for each method: dots are seeds, lines are means."""
    figure = figure_of(6.4, 3.0)
    ax = figure.subplots()
    ax.axhline(0.0, color=FAINT, linewidth=1)
    by_name = studies()
    names = evidence.methods_with_records(by_name)
    for i, name in enumerate(names):
        base, ours = evidence.pair_of(by_name[name])
        sides = zip((-0.14, 0.14), (BLUE, VERMILION), by_name[name].metrics.items(), strict=True)
        for shift, color, (metric, label) in sides:
            gain = ours.measurement(metric).minus(base.measurement(metric))
            points = [100 * value for value in gain.by_seed.values()]
            seed_dots(ax, [i + shift], [points], color, label=label if i == 0 else "", mean=0.09)
    ax.set_xticks(range(len(names)), [METHODS[name] for name in names])
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_ylabel("gain of AMCL in points", fontsize=9)
    bare(ax)
    legend_below(figure)
    return figure


def kinds() -> "Figure":
    """Return charts of kNN by kinds of augmentation, without and with AMCL, and of the gain."""
    figure = figure_of(6.4, 3.0)
    ax, added = figure.subplots(1, 2)
    sides = {
        "cifar10-simclr": (BLUE, "tuned baseline"),
        "cifar10-simclr-amcl": (VERMILION, "+ AMCL"),
    }
    by_name = studies()
    for recipe, (color, label) in sides.items():
        groups = [g for g in groups_of(by_name["views"]) if g.values["recipe"] == recipe]
        seed_dots(ax, range(len(groups)), [_percent(g) for g in groups], color, label=label)
        ax.set_xticks(range(len(groups)), [group.values["views"] for group in groups])
    by_views = evidence.gains_by_views(by_name)
    added.axhline(0, color=FAINT, linewidth=1)
    points = [list(by_seed.values()) for by_seed in by_views.values()]
    seed_dots(added, range(len(points)), points, VERMILION)
    added.set_xticks(range(len(by_views)), list(by_views))
    ax.set_ylabel("kNN on test images, %", fontsize=9)
    added.set_ylabel("gain in points, by seed", fontsize=9)
    for each in (ax, added):
        each.set_xlabel("kinds of augmentation", fontsize=9)
        bare(each)
    legend_below(figure)
    return figure


def constants() -> "Figure":
    """Return a chart of kNN by the constant temperature, beside AMCL, which has none to choose."""
    by_name = studies()
    figure = figure_of(6.4, 3.0)
    axes = figure.subplots(1, len(CONSTANTS), sharey=True)
    for ax, name in zip(axes, CONSTANTS, strict=True):
        groups = groups_of(by_name[f"stl10-{name}-base"])
        taus = [float(group.values["tau"]) for group in groups]
        seed_dots(ax, taus, [_percent(group) for group in groups], BLUE, label="constant τ")
        (ours,) = groups_of(by_name[f"stl10-{name}"])
        points = _percent(ours)
        ax.axhspan(min(points), max(points), color=VERMILION, alpha=0.15, linewidth=0)
        mean = sum(points) / len(points)
        ax.axhline(mean, color=VERMILION, linewidth=2, label="AMCL, untuned")
        ax.set_xscale("log")
        ax.set_xticks(taus, [f"{tau:g}" for tau in taus])
        ax.minorticks_off()
        ax.set_title(METHODS[name], fontsize=9)
        ax.set_xlabel("constant τ", fontsize=9)
        bare(ax)
    axes[0].set_ylabel("kNN on test images, %", fontsize=9)
    legend_below(figure)
    return figure


def lengths() -> "Figure":
    """Return charts of the gain of AMCL by the number of steps, for kNN and the linear probe."""
    figure = figure_of(6.4, 3.0)
    by_name = studies()
    axes = figure.subplots(1, len(evidence_lengths.TEST), sharey=True)
    for ax, (metric, name) in zip(axes, evidence_lengths.TEST.items(), strict=True):
        ax.axhline(0.0, color=FAINT, linewidth=1)
        for (method, title), color in zip(METHODS.items(), PALETTE, strict=False):
            measured = evidence_lengths.lengths(by_name, method)
            gains = [[100 * gain for gain in each.gain(metric).numbers] for each in measured]
            seed_dots(ax, [each.steps for each in measured], gains, color, label=title)
        ax.set_xscale("log")
        ax.set_xticks([2_000, 8_000, 20_000], ["2,000", "8,000", "20,000"])
        ax.minorticks_off()
        ax.set_title(name, fontsize=9)
        ax.set_xlabel("steps", fontsize=9)
        bare(ax)
    axes[0].set_ylabel("gain of AMCL in points", fontsize=9)
    legend_below(figure)
    return figure


CONSTANTS = ("simclr", "moco")
"""Methods whose baseline has a temperature to choose."""


def _percent(group: Group) -> list[float]:
    return [100 * value for value in group.measurement(KNN).numbers]


PICTURES: dict[str, tuple[tuple[str, ...], Callable[[], "Figure"]]] = {
    "gains": (tuple(evidence.methods_with_records(studies())), gains),
    "kinds": (("views",), kinds),
    "constants": (tuple(f"stl10-{name}" for name in CONSTANTS), constants),
}
"""Studies that each picture shows, and the function that draws it."""


def source(names: tuple[str, ...]) -> str:
    """Return the SHA-256 of the records of these studies, and of their baselines."""
    by_name = studies()
    sources = [by_name[name] for name in names]
    sources += [by_name[study.baseline] for study in sources if study.baseline]
    return hashlib.sha256(b"".join(s.records_file.read_bytes() for s in sources)).hexdigest()


def main() -> None:
    """Draw every picture."""
    for name, (sources, draw) in PICTURES.items():
        draw().savefig(FOLDER / f"{name}.png", dpi=150, metadata={"Source": source(sources)})


if __name__ == "__main__":
    main()
