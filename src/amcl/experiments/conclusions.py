"""Conclusions from a table in words: its evidence, and the highest number."""

from collections.abc import Sequence

from amcl.experiments.filled_table import FilledTable
from amcl.experiments.specs import NONE, CellSpec
from amcl.results import Measurement
from amcl.results.formatting import format_number, plural

FEW = 100  # images below which the weight of one of them is mentioned
_MAX_NAMES = 6  # names in a sentence


def conclusion_of(filled: FilledTable) -> str:
    """Return sentences on images, seeds, the highest number, and numbers as good as it."""
    if not filled.pairs():
        return ""
    sentences = [_evidence(filled.pairs())]
    for panel in filled.panels():
        pairs = filled.pairs(panel)
        if len(pairs) > 1 and pairs[0][0].metric.share:
            sentences.append(_highest(pairs, panel))
    return " ".join(sentences)


def _evidence(pairs: Sequence[tuple[CellSpec, Measurement]]) -> str:
    seeds = max(len(measurement.numbers) for _, measurement in pairs)
    images = next((m.images for _, m in pairs if m.images), None)
    epochs = sorted({cell.config.run.epochs for cell, _ in pairs})
    trained = f"{' or '.join(map(str, epochs))} epoch{'s' * (epochs != [1])}"
    judged = f", judged on {images:,} images" if images else ""
    text = f"{plural(seeds, 'seed')}, {trained}{judged}."
    if images and images < FEW:
        text += f" One image is {100 / images:.1f} points."
    if seeds == 1:
        bars = " Bars and brackets are 95% binomial intervals of one accuracy." if images else ""
        return f"{text} One seed is no evidence that settings differ.{bars}"
    return f"{text} ± and bars are standard deviations over seeds."


def _highest(pairs: Sequence[tuple[CellSpec, Measurement]], panel: str) -> str:
    cell, best = max(pairs, key=lambda pair: pair[1].mean or 0.0)
    level = []
    for other, measurement in pairs:
        difference = best.minus(measurement)
        if other is not cell and difference is not None and difference.verdict:
            level.append(_name(other, panel))
    where = f"{panel}: " if panel else ""
    value = format_number(best.mean, share=True)
    text = f"{where}{_name(cell, panel)} has the highest {cell.metric.name}, {value}%"
    if not level:
        return f"{text}, and is told apart from all others."
    if len(level) == len(pairs) - 1:
        return f"{text}, but cannot be told apart from any other."
    more = f" and {len(level) - _MAX_NAMES} more" if len(level) > _MAX_NAMES else ""
    return f"{text}, but cannot be told apart from {'; '.join(level[:_MAX_NAMES])}{more}."


def _name(cell: CellSpec, panel: str) -> str:
    """Return the name of a cell, without the panel that it is in."""
    names = [
        f"{label} = {value}" if value[:1].isdigit() else value
        for label, value in cell.labels.items()
        if value not in (NONE, panel)
    ]
    return ", ".join(names)
