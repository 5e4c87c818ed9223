"""Agreement and retrieval of heads."""

from collections.abc import Sequence

import torch

from amcl.analysis import PairSample, agreement, retrieval
from amcl.report.blocks import Block, Chart, Paragraph, Section
from amcl.report.runs import Run, beside, in_rows, joined
from amcl.results.charts import Line, curves, matrix
from amcl.results.formatting import percent

HOW = (
    "Several heads are worth their cost if they see different things. Heads that agree in "
    "everything (1.000) repeat each other. Retrieval asks each head, and the backbone, for the "
    "most similar view: one that finds the other view of the same image recognizes it, whatever "
    "was done to it."
)


def heads(runs: Sequence[Run]) -> Section:
    """Return agreement between heads, and retrieval by each of them."""
    labeled = any(run.sample.labels is not None for run in runs if run.sample is not None)
    header = ("by", "own image first", *(("nearest other of its class",) if labeled else ()))
    several = max(run.heads for run in runs) > 1
    blocks = [
        *(beside(runs, lambda run: _of_run(run, len(runs) > 1)) if several else ()),
        *joined(runs, header, lambda run: _retrieval(run, labeled), _caption(runs)),
    ]
    folded = "" if several else " ".join(dict.fromkeys(map(_without_several, runs)))
    return Section("Heads", blocks, HOW if several else "", folded=folded)


def _without_several(run: Run) -> str:
    """Return why the heads of a run cannot be compared."""
    if run.heads:
        return f"{run.name} has one head, which cannot agree with another."
    return f"{run.config.method.name} has no heads."


def _of_run(run: Run, stacked: bool) -> list[Block]:
    sample = run.sample
    if sample is None:
        return []
    if sample.num_heads < 2:
        return [Paragraph(_without_several(run))]
    return in_rows([*_agreement(sample), *_course(run)], stacked)


def _agreement(sample: PairSample) -> list[Chart]:
    heads = agreement(sample)
    names = [f"head {c}" for c in range(1, sample.num_heads + 1)]
    matrices = {
        "Correlation": (
            heads.correlation,
            "Correlation of the similarities that two heads give to negative pairs.",
        ),
        "Overlap of neighbors": (
            heads.neighbors,
            "Images among the 10 most similar in both heads, as a share of those in either.",
        ),
    }
    return [
        Chart(matrix(values, names), f"{name} between heads: {_in_words(values)}", caption)
        for name, (values, caption) in matrices.items()
    ]


def _course(run: Run) -> list[Chart]:
    """Return the agreement in training, by epoch."""
    points = [
        (row["epoch"], row["head_agreement"]) for row in run.of("epoch") if "head_agreement" in row
    ]
    line = Line("heads", points)
    if len(line.finite_points) < 2:
        return []
    last = line.finite_points[-1][1]
    return [
        Chart(
            curves([line], "epoch", "agreement of heads"),
            f"Mean correlation of two heads' similarities by epoch; at the end {last:.3f}",
            "Mean correlation of two heads' similarities in training, at the end of each epoch. "
            "--head-diversity lowers it.",
        )
    ]


def _in_words(values: torch.Tensor) -> str:
    rows = values.tolist()
    pairs = [(i, j) for i in range(len(rows)) for j in range(i + 1, len(rows))]
    return ", ".join(f"{i + 1} and {j + 1} {rows[i][j]:.3f}" for i, j in pairs)


def _retrieval(run: Run, labeled: bool) -> list[tuple[str, ...]]:
    if run.sample is None:
        return []
    return [
        (row.name, percent(row.own_image), *([percent(row.same_class)] if labeled else []))
        for row in retrieval(run.sample)
    ]


def _caption(runs: Sequence[Run]) -> str:
    """Return sentences on retrieval by chance; one where it is the same for all runs."""
    sentences = dict.fromkeys(_chance(run.sample) for run in runs if run.sample is not None)
    return " ".join(sentences)


def _chance(sample: PairSample) -> str:
    if sample.labels is None:
        none = "There are no labels in use, and so no classes to find."
        return f"By chance, in {len(sample)} images: {percent(1 / len(sample))}. {none}"
    shares = sample.labels.bincount() / len(sample)
    by_class = percent(shares.square().sum().item())
    return f"By chance, in {len(sample)} images: {percent(1 / len(sample))} and {by_class}."
