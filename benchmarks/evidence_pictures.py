"""The pictures of docs/results.md, from what benchmarks/evidence holds.

    python benchmarks/evidence_pictures.py

Each picture carries the SHA-256 of the numbers that it shows, by which a test sees that it is not
older than they are.
"""

import hashlib
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))  # also where a test loads this file by its path

import evidence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = evidence.DOCS / "images"


def gains() -> "Figure":
    """What AMCL adds to each method: a dot for each seed, a line at their mean."""
    from amcl.drawing import BLUE, FAINT, VERMILION, bare, figure_of, legend_below

    figure = figure_of(6.4, 3.0)
    ax = figure.subplots()
    ax.axhline(0.0, color=FAINT, linewidth=1)
    colors = dict(zip(("kNN", "linear probe"), (BLUE, VERMILION), strict=True))
    known = evidence.studies()
    names = evidence.made(known)
    for place, name in enumerate(names):
        study = known[name]
        base, ours = evidence.pair_of(study)
        for shift, (measure, told) in zip((-0.14, 0.14), study.shown.items(), strict=True):
            theirs, found = evidence.metric(base, measure), evidence.metric(ours, measure)
            points = [100 * (found[seed] - theirs[seed]) for seed in found]
            x, color = place + shift, colors[told]
            label = told if place == 0 else None
            ax.plot([x] * len(points), points, "o", color=color, markersize=5, label=label)
            mean = statistics.fmean(points)
            ax.plot([x - 0.09, x + 0.09], [mean, mean], color=color, linewidth=2)
    ax.set_xticks(range(len(names)), [evidence.METHODS[name] for name in names])
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_ylabel("gain of AMCL in points", fontsize=9)
    bare(ax)
    legend_below(figure)
    return figure


def kinds() -> "Figure":
    """kNN by kinds of augmentation, without AMCL and with it, and what AMCL adds."""
    from amcl.drawing import BLUE, FAINT, VERMILION, bare, figure_of, legend_below

    figure = figure_of(6.4, 3.0)
    ax, added = figure.subplots(1, 2)
    colors = {
        "cifar10-simclr": (BLUE, "tuned baseline"),
        "cifar10-simclr-amcl": (VERMILION, "+ AMCL"),
    }
    rows = [(dict(v), runs) for v, runs in evidence.rows_of(evidence.studies()["views"]).items()]
    for recipe, (color, told) in colors.items():
        ours = [(v["views"], _percent(runs)) for v, runs in rows if v["recipe"] == recipe]
        for place, (_, points) in enumerate(ours):
            ax.plot([place] * len(points), points, "o", color=color, markersize=4, alpha=0.5)
        means = [statistics.fmean(points) for _, points in ours]
        ax.plot(range(len(ours)), means, color=color, linewidth=2, label=told)
        ax.set_xticks(range(len(ours)), [views for views, _ in ours])
    gains_of = evidence.gains_by_views(evidence.studies())
    added.axhline(0, color=FAINT, linewidth=1)
    for place, of_seeds in enumerate(gains_of.values()):
        points = list(of_seeds.values())
        added.plot([place] * len(points), points, "o", color=VERMILION, markersize=4, alpha=0.5)
    means = [statistics.fmean(of_seeds.values()) for of_seeds in gains_of.values()]
    added.plot(range(len(means)), means, color=VERMILION, linewidth=2)
    added.set_xticks(range(len(means)), list(gains_of))
    ax.set_ylabel("kNN on test images, %", fontsize=9)
    added.set_ylabel("gain in points, by seed", fontsize=9)
    for each in (ax, added):
        each.set_xlabel("kinds of augmentation", fontsize=9)
        bare(each)
    legend_below(figure)
    return figure


def constants() -> "Figure":
    """kNN by the constant temperature, and AMCL's, which has none to choose."""
    from amcl.drawing import BLUE, VERMILION, bare, figure_of, legend_below

    known = evidence.studies()
    figure = figure_of(6.4, 3.0)
    axes = figure.subplots(1, len(CONSTANTS), sharey=True)
    for ax, name in zip(axes, CONSTANTS, strict=True):
        rows = evidence.rows_of(known[f"stl10-{name}-base"])
        taus, found = [], []
        for values, runs in rows.items():
            taus.append(float(dict(values)["tau"]))
            found.append(_percent(runs))
            ax.plot([taus[-1]] * len(runs), found[-1], "o", color=BLUE, markersize=4, alpha=0.5)
        means = [statistics.fmean(points) for points in found]
        ax.plot(taus, means, color=BLUE, linewidth=2, label="constant τ")
        (ours,) = evidence.rows_of(known[f"stl10-{name}"]).values()
        points = _percent(ours)
        ax.axhspan(min(points), max(points), color=VERMILION, alpha=0.15, linewidth=0)
        mean = statistics.fmean(points)
        ax.axhline(mean, color=VERMILION, linewidth=2, label="AMCL, untuned")
        ax.set_xscale("log")
        ax.set_xticks(taus, [f"{tau:g}" for tau in taus])
        ax.minorticks_off()
        ax.set_title(evidence.METHODS[name], fontsize=9)
        ax.set_xlabel("constant τ", fontsize=9)
        bare(ax)
    axes[0].set_ylabel("kNN on test images, %", fontsize=9)
    legend_below(figure)
    return figure


CONSTANTS = ("simclr", "moco")
"""Methods whose baseline has a temperature to choose."""


def _percent(runs: evidence.OfSeeds) -> list[float]:
    return [100 * value for value in evidence.metric(runs, "knn_top1_test").values()]


PICTURES: dict[str, tuple[tuple[str, ...], Callable[[], "Figure"]]] = {
    "gains": (tuple(evidence.made(evidence.studies())), gains),
    "kinds": (("views",), kinds),
    "constants": (tuple(f"stl10-{name}" for name in CONSTANTS), constants),
}
"""Each picture: the studies that it shows, and how it is drawn."""


def source(names: tuple[str, ...]) -> str:
    """The SHA-256 of what is kept of these studies, and of those they are compared with."""
    known = evidence.studies()
    shown = [known[name] for name in names]
    shown += [known[study.baseline] for study in shown if study.baseline]
    read = b"".join(study.kept.read_bytes() for study in shown)
    return hashlib.sha256(read).hexdigest()


def main() -> None:
    """Draw every picture."""
    for name, (studies, draw) in PICTURES.items():
        draw().savefig(FOLDER / f"{name}.png", dpi=150, metadata={"Source": source(studies)})


if __name__ == "__main__":
    main()
