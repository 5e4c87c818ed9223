"""The pictures of docs/results.md, from what benchmarks/evidence holds.

    python benchmarks/evidence_pictures.py

Each picture carries the SHA-256 of the numbers that it shows, by which a test sees that it is not
older than they are.
"""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from amcl.drawing import BLUE, FAINT, VERMILION, bare, figure_of, legend_below
from amcl.results import Group
from amcl.results.charts import seed_dots

sys.path.insert(0, str(Path(__file__).parent))  # also where a test loads this file by its path

import evidence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = evidence.DOCS / "images"
KNN = "knn_top1_test"


def gains() -> "Figure":
    """Gain of AMCL for each method: a dot for each seed, a line at their mean."""
    figure = figure_of(6.4, 3.0)
    ax = figure.subplots()
    ax.axhline(0.0, color=FAINT, linewidth=1)
    studies = evidence.studies()
    names = evidence.made(studies)
    for i, name in enumerate(names):
        base, ours = evidence.pair_of(studies[name])
        sides = zip((-0.14, 0.14), (BLUE, VERMILION), studies[name].shown.items(), strict=True)
        for shift, color, (metric, label) in sides:
            gain = ours.measurement(metric).minus(base.measurement(metric))
            points = [100 * value for value in gain.by_seed.values()]
            seed_dots(ax, [i + shift], [points], color, label=label if i == 0 else "", mean=0.09)
    ax.set_xticks(range(len(names)), [evidence.METHODS[name] for name in names])
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_ylabel("gain of AMCL in points", fontsize=9)
    bare(ax)
    legend_below(figure)
    return figure


def kinds() -> "Figure":
    """kNN by kinds of augmentation, without AMCL and with it, and the gain of AMCL."""
    figure = figure_of(6.4, 3.0)
    ax, added = figure.subplots(1, 2)
    sides = {
        "cifar10-simclr": (BLUE, "tuned baseline"),
        "cifar10-simclr-amcl": (VERMILION, "+ AMCL"),
    }
    studies = evidence.studies()
    for recipe, (color, label) in sides.items():
        groups = [g for g in evidence.groups_of(studies["views"]) if g.values["recipe"] == recipe]
        seed_dots(ax, range(len(groups)), [_percent(g) for g in groups], color, label=label)
        ax.set_xticks(range(len(groups)), [group.values["views"] for group in groups])
    by_views = evidence.gains_by_views(studies)
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
    """kNN by the constant temperature, and AMCL's, which has none to choose."""
    studies = evidence.studies()
    figure = figure_of(6.4, 3.0)
    axes = figure.subplots(1, len(CONSTANTS), sharey=True)
    for ax, name in zip(axes, CONSTANTS, strict=True):
        groups = evidence.groups_of(studies[f"stl10-{name}-base"])
        taus = [float(group.values["tau"]) for group in groups]
        seed_dots(ax, taus, [_percent(group) for group in groups], BLUE, label="constant τ")
        (ours,) = evidence.groups_of(studies[f"stl10-{name}"])
        points = _percent(ours)
        ax.axhspan(min(points), max(points), color=VERMILION, alpha=0.15, linewidth=0)
        mean = sum(points) / len(points)
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


def _percent(group: Group) -> list[float]:
    return [100 * value for value in group.measurement(KNN).numbers]


PICTURES: dict[str, tuple[tuple[str, ...], Callable[[], "Figure"]]] = {
    "gains": (tuple(evidence.made(evidence.studies())), gains),
    "kinds": (("views",), kinds),
    "constants": (tuple(f"stl10-{name}" for name in CONSTANTS), constants),
}
"""Each picture: the studies that it shows, and how it is drawn."""


def source(names: tuple[str, ...]) -> str:
    """The SHA-256 of what is kept of these studies, and of those they are compared with."""
    studies = evidence.studies()
    shown = [studies[name] for name in names]
    shown += [studies[study.baseline] for study in shown if study.baseline]
    read = b"".join(study.kept.read_bytes() for study in shown)
    return hashlib.sha256(read).hexdigest()


def main() -> None:
    """Draw every picture."""
    for name, (studies, draw) in PICTURES.items():
        draw().savefig(FOLDER / f"{name}.png", dpi=150, metadata={"Source": source(studies)})


if __name__ == "__main__":
    main()
