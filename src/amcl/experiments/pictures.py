"""What pairs of views look like to a method: histograms, and the pairs themselves (Fig. 1, 3)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from amcl.analysis import (
    PairSample,
    PairSeparation,
    backbone_similarity,
    hard_negatives,
    scaled,
    separation_of,
    uncertain_positives,
)
from amcl.drawing import bare, figure_of, legend_below, plain
from amcl.experiments.product import Topic
from amcl.report import Chart, Gallery, Picture
from amcl.report.charts import draw_pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Samples = Mapping[str, PairSample]
_PAIRS = 6


def topics_of_pairs(samples: Samples, gallery: Sequence[str]) -> list[Topic]:
    """Histograms of every sample after the heads and after the backbone; pairs of some of them."""
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
                "the better pairs are told apart. One seed.",
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
        ax.set_title(plain(name), fontsize=10)
    for ax in axes[len(apart) :]:
        ax.set_visible(False)
    legend_below(figure)
    return figure


def _histogram(ax: "Axes", s: PairSeparation) -> None:
    draw_pairs(ax, s.edges, s.positive_shares, s.negative_shares)
    told = f"overlap {s.overlap:.2f}\nAUROC {s.auroc:.3f}"
    ax.text(0.02, 0.97, told, transform=ax.transAxes, va="top", fontsize=9)
    ax.set_yticks([])
    bare(ax)


def _gallery(sample: PairSample, name: str) -> Topic:
    """The pairs that are hardest to tell."""
    pairs = [
        *(("one picture", True, p) for p in uncertain_positives(sample, _PAIRS)),
        *(("two pictures", False, p) for p in hard_negatives(sample, _PAIRS)),
    ]
    items = [
        Picture(
            images=(sample.views[0, p.i], sample.views[1, p.j]),
            title=title,
            lines=(
                "s " + " ".join(f"{s:.2f}" for s in p.s),
                *(("τ " + " ".join(f"{t:.2f}" for t in p.tau),) if p.tau is not None else ()),
            ),
            good=(own, own),
        )
        for title, own, p in pairs
    ]
    return Topic(
        name="pairs",
        title=f"Pairs that are hard to tell: {name}",
        told="The positive pairs that it holds for most uncertain, then the negative pairs that it "
        "holds for most alike, with similarity s and temperature τ in each head.",
        blocks=(Gallery(items, alt="two views"),),
    )
