"""What pairs of views look like to a method: histograms, and the pairs themselves (Fig. 1, 3)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from amcl.analysis import (
    PairSample,
    PairSeparation,
    backbone_similarity,
    scaled,
    separation_of,
)
from amcl.drawing import bare, figure_of, legend_below, plain
from amcl.experiments.product import Topic
from amcl.report import Chart
from amcl.report.charts import draw_pairs
from amcl.report.sections.galleries import pair_galleries

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Samples = Mapping[str, PairSample]
_PAIRS = 6


def topics_of_pairs(samples: Samples, gallery: Sequence[str]) -> list[Topic]:
    """Histograms of every sample after the heads and after the backbone; pairs of some of them."""
    if not samples:
        return []
    after_heads = {name: separation_of(scaled(s)) for name, s in samples.items()}
    after_backbone = {name: separation_of(backbone_similarity(s)) for name, s in samples.items()}
    found = []
    for name, title, apart in (
        ("heads", "Similarities after the heads, scaled by temperature", after_heads),
        ("backbone", "Similarities after the backbone", after_backbone),
    ):
        figure = histograms(apart)
        alt = f"{title}: histograms of positive and negative pairs. " + "; ".join(
            f"{run}: overlap {s.overlap:.2f}, AUROC {s.auroc:.3f}" for run, s in apart.items()
        )
        found.append(
            Topic(
                name=f"histograms-{name}",
                title=title,
                told="Orange: two views of one picture; blue: views of two. The less they overlap, "
                "the better pairs are told apart. One seed; of N images, N positive and all "
                "N (N − 1) negative pairs, where the paper draws 500 of each.",
                blocks=(Chart(figure, alt),),
                pictures={f"histograms-{name}": figure},
            )
        )
    return [*found, *(_gallery(samples[name], name) for name in gallery)]


def histograms(apart: Mapping[str, PairSeparation]) -> "Figure":
    """Positive and negative pairs, a panel for each run."""
    columns = min(3, len(apart))
    rows = -(-len(apart) // columns)
    figure = figure_of(3.4 * columns, 2.5 * rows + 0.4)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, (name, separation) in zip(axes, apart.items(), strict=False):
        _histogram(ax, separation)
        told = f"overlap {separation.overlap:.2f}, AUROC {separation.auroc:.3f}"
        ax.set_title(f"{plain(name)}\n{told}", fontsize=10)
    for ax in axes[len(apart) :]:
        ax.set_visible(False)
    legend_below(figure)
    return figure


def _histogram(ax: "Axes", s: PairSeparation) -> None:
    draw_pairs(ax, s.edges, s.positive_shares, s.negative_shares)
    ax.set_yticks([])
    bare(ax)


def _gallery(sample: PairSample, name: str) -> Topic:
    """The pairs that are hardest to tell."""
    return Topic(
        name="pairs",
        title=f"Pairs that are hard to tell: {name}",
        told="With similarity s and temperature τ in each head, and the cosine of the backbone's "
        "features.",
        blocks=tuple(pair_galleries(sample, _PAIRS)),
    )
