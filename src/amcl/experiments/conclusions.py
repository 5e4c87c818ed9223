"""What a table says in words: how much it rests on, and what cannot be told apart."""

from collections.abc import Sequence

from amcl.experiments.cases import NONE, Case, Part
from amcl.experiments.pool import Number
from amcl.experiments.tables import Filled

FEW = 100  # images below which the weight of one of them is worth a word
_SHOWN = 6  # names in a sentence


def conclusion_of(filled: Filled) -> str:
    """Sentences on images, seeds, what is highest, and what cannot be told apart from that."""
    placed = [(case, number) for case, number in filled.pairs() if number.mean is not None]
    if not placed:
        return ""
    part = filled.part
    sentences = [_rests_on(placed)]
    for panel in part.labels(part.panels) if part.panels else [""]:
        shown = [p for p in placed if not panel or p[0].labels[part.panels or ""] == panel]
        if len(shown) > 1 and shown[0][0].metric.share:
            sentences.append(_highest(part, shown, panel))
    return " ".join(sentences)


def nothing_apart(placed: Sequence[tuple[Case, Number]]) -> bool:
    """Whether no two of the cases can be told apart, so that a line would suggest a finding."""
    numbers = [number for _, number in placed]
    return all(
        bool(one.minus(other).verdict())
        for i, one in enumerate(numbers)
        for other in numbers[:i]
        if one.minus(other).values
    )


def _rests_on(placed: Sequence[tuple[Case, Number]]) -> str:
    seeds = max(len(number.values) for _, number in placed)
    images = next((n.images for _, n in placed if n.images), None)
    epochs = sorted({case.config.run.epochs for case, _ in placed})
    trained = f"{' or '.join(map(str, epochs))} epoch{'s' * (epochs != [1])}"
    judged = f", judged on {images:,} images" if images else ""
    text = f"{seeds} seed{'s' * (seeds > 1)}, {trained}{judged}."
    if images and images < FEW:
        text += f" One image is {100 / images:.1f} points."
    if seeds == 1:
        bars = " Bars and brackets are 95 % binomial intervals of one accuracy." if images else ""
        return f"{text} One seed is no evidence that settings differ.{bars}"
    return f"{text} ± and bars are standard deviations over seeds."


def _highest(part: Part, placed: Sequence[tuple[Case, Number]], panel: str) -> str:
    case, best = max(placed, key=lambda p: p[1].mean or 0.0)
    level = [
        _name(part, other, panel)
        for other, number in placed
        if other is not case and best.minus(number).verdict()
    ]
    where = f"{panel}: " if panel else ""
    value = case.metric.spelled(best.mean or 0.0)
    text = f"{where}{_name(part, case, panel)} has the highest {case.metric.name}, {value} %"
    if not level:
        return f"{text}, and is told apart from all others."
    if len(level) == len(placed) - 1:
        return f"{text}, but cannot be told apart from any other."
    more = f" and {len(level) - _SHOWN} more" if len(level) > _SHOWN else ""
    return f"{text}, but cannot be told apart from {'; '.join(level[:_SHOWN])}{more}."


def _name(part: Part, case: Case, panel: str) -> str:
    """What a case is called, without the panel that it is in."""
    names = [
        f"{label} = {value}" if value[:1].isdigit() else value
        for label, value in case.labels.items()
        if value not in (NONE, panel)
    ]
    return ", ".join(names)
