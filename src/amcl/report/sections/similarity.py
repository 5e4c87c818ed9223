"""Separation of positive pairs from negative ones."""

from collections.abc import Sequence

from amcl.analysis import PairSample
from amcl.report.blocks import Block, Chart, Paragraph, Section
from amcl.report.runs import Run, beside, in_rows, joined
from amcl.results.charts import two_histograms

HOW = (
    "Each image is shown to the network in two random views. Two views of one image are a positive "
    "pair, views of two images a negative one. The less the two histograms have in common, the "
    "better images are told apart. After the heads, each similarity is divided by its temperature, "
    "as the loss does, and the mean over heads is taken."
)
COLUMNS = (
    "Overlap is what both histograms share: 0 if they are apart, 1 if they are the same. AUROC is "
    "the probability that a positive pair is more alike than a negative one: 0.5 is chance. "
    "`amcl evaluate` measures the backbone in the same way, on other images and views: numbers of "
    "both differ by that."
)


def similarity(runs: Sequence[Run]) -> Section:
    """Return histograms after the heads and after the backbone, with their numbers."""
    header = ("after", "positive, mean", "negative, mean", "overlap", "AUROC")
    blocks = [
        *beside(runs, lambda run: _histograms(run, stacked=len(runs) > 1)),
        *joined(runs, header, _rows, COLUMNS),
    ]
    notes = dict.fromkeys(note for run in runs if (note := _note(run)))
    return Section("Similarity of pairs", [*blocks, *map(Paragraph, notes)], HOW)


def _histograms(run: Run, stacked: bool) -> list[Block]:
    charts = []
    for part, separation in run.separations.items():
        divided = part == "heads" and _sample(run).tau is not None
        axis = "s/τ, mean over heads" if divided else "cosine similarity"
        figure = two_histograms(separation.histograms, axis)
        numbers = f"overlap {separation.overlap:.3f}, AUROC {separation.auroc:.4f}"
        charts.append(
            Chart(
                figure,
                f"Histograms of positive and negative pairs after the {part}: {numbers}",
                f"After the {part}: {numbers}.",
            )
        )
    return in_rows(charts, stacked)


def _rows(run: Run) -> list[tuple[str, ...]]:
    return [
        (
            part,
            f"{s.positive_similarity:.3f}",
            f"{s.negative_similarity:.3f}",
            f"{s.overlap:.3f}",
            f"{s.auroc:.4f}",
        )
        for part, s in run.separations.items()
    ]


def _note(run: Run) -> str:
    method = run.config.method.name
    sample = _sample(run)
    if not sample.num_heads:
        return f"{method} has no heads: what is alike is seen after the backbone alone."
    if sample.tau is None:
        return (
            f"The temperatures of {method} are those of channels, so the similarity of images "
            "after its heads is their cosine, not divided by anything."
        )
    if getattr(run.config.method, "signs", ()) == ("positive",):
        return (
            f"The loss of {method} knows no negative pairs: they are shown to look at, with the "
            "temperature that a positive pair would have."
        )
    return ""


def _sample(run: Run) -> PairSample:
    if run.sample is None:
        raise RuntimeError(f"{run.name} has no sample to look at")
    return run.sample
