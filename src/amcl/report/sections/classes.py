"""Accuracy by class, and classes that are confused."""

from collections.abc import Sequence

import torch

from amcl.checkpoints.evaluations import Result
from amcl.report.blocks import Block, Chart, Paragraph
from amcl.results import Table, charts
from amcl.results.formatting import percent

SHOWN = 20
"""Classes up to which all are shown, with the whole confusion matrix."""
_ROWS = 10  # classes or pairs of a table, where there are more than are shown


def classes(results: Sequence[Result]) -> list[Block]:
    """Return accuracy by class and confusions of the most accurate classifier, if there is one."""
    detailed = [result for result in results if "per_class" in result.details]
    if not detailed:
        return []
    comparable = [result for result in detailed if _same_images(result, detailed[-1])]
    result = max(reversed(comparable), key=lambda result: result.metrics["top1"])
    top1 = result.metrics["top1"]
    balanced = result.details["balanced_top1"]
    text = (
        f"Class by class, {result.protocol} on {result.data}, {result.split}: accuracy "
        f"{percent(top1)}, balanced accuracy, in which each class counts the same, "
        f"{percent(balanced)}."
    )
    names = list(result.details["per_class"])
    if len(names) <= SHOWN and "confusion" in result.details:
        return [Paragraph(text), _matrix(result, names), _accuracies(result)]
    return [Paragraph(text), *_pairs(result), _accuracies(result)]


def _same_images(one: Result, other: Result) -> bool:
    return (one.data, one.split, one.images) == (other.data, other.split, other.images)


def _matrix(result: Result, names: Sequence[str]) -> Chart:
    counts = torch.tensor(result.details["confusion"])
    pairs = result.details["confused"]
    worst = f"most often {_pair(pairs[0])}" if pairs else "none is confused"
    return Chart(
        charts.confusion(counts, names),
        f"confusion matrix of {len(names)} classes: {worst}",
        "Confusion matrix: rows are true classes, columns predicted ones, numbers are images; the "
        "stronger the color, the larger the share of the row.",
    )


def _pairs(result: Result) -> list[Block]:
    pairs = result.details["confused"][:_ROWS]
    rows = [(pair["true"], pair["predicted"], f"{pair['images']:,}") for pair in pairs]
    header = ("true class", "taken for", "images")
    return [Table(header, rows, "The pairs that are confused most often.", left=2)] if rows else []


def _accuracies(result: Result) -> Table:
    per_class = result.details["per_class"]
    present = [(name, facts) for name, facts in per_class.items() if facts["images"]]
    caption = "Accuracy by class."
    if len(per_class) > SHOWN:
        present = sorted(present, key=lambda item: (item[1]["top1"], -item[1]["images"]))[:_ROWS]
        caption = f"The {len(present)} classes of lowest accuracy, of {len(per_class)}."
    rows = [(name, percent(facts["top1"]), f"{facts['images']:,}") for name, facts in present]
    return Table(("class", "accuracy", "images"), rows, caption)


def _pair(pair: dict[str, str]) -> str:
    return f"{pair['true']} is taken for {pair['predicted']}"
