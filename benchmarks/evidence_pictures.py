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

FOLDER = evidence.PAGE.parent / "images"


def gains() -> "Figure":
    """What AMCL adds to each method: a dot for each seed, a line at their mean."""
    from amcl.drawing import BLUE, FAINT, VERMILION, bare, figure_of, legend_below

    figure = figure_of(6.4, 3.0)
    ax = figure.subplots()
    ax.axhline(0.0, color=FAINT, linewidth=1)
    colours = dict(zip(("kNN", "linear probe"), (BLUE, VERMILION), strict=True))
    known = evidence.studies()
    names = evidence.methods(known)
    for place, name in enumerate(names):
        study = known[name]
        base, ours = evidence.pair_of(study)
        for shift, (measure, told) in zip((-0.14, 0.14), study.shown.items(), strict=True):
            theirs, found = evidence.metric(base, measure), evidence.metric(ours, measure)
            points = [100 * (found[seed] - theirs[seed]) for seed in found]
            x, colour = place + shift, colours[told]
            label = told if place == 0 else None
            ax.plot([x] * len(points), points, "o", color=colour, markersize=5, label=label)
            mean = statistics.fmean(points)
            ax.plot([x - 0.09, x + 0.09], [mean, mean], color=colour, linewidth=2)
    ax.set_xticks(range(len(names)), [evidence.METHODS[name] for name in names])
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_ylabel("gain of AMCL in points", fontsize=9)
    bare(ax)
    legend_below(figure)
    return figure


PICTURES: dict[str, tuple[tuple[str, ...], Callable[[], "Figure"]]] = {
    "gains": (tuple(evidence.methods(evidence.studies())), gains),
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
