"""A few combinations of options in place of all of them."""

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any


def cover(options: Mapping[str, Sequence[Any]], strength: int) -> list[dict[str, Any]]:
    """Combinations in which any `strength` options meet in all of their values.

    Each combination starts from values that have not met yet, and gives the other options, one
    after the other, the value that meets the most others for the first time. Nothing is random.
    """
    missing = dict.fromkeys(
        frozenset(zip(names, indices, strict=True))
        for names in combinations(options, strength)
        for indices in product(*(range(len(options[name])) for name in names))
    )
    rows = []
    while missing:
        row = dict(next(iter(missing)))
        for name in options:
            if name not in row:
                row[name] = max(
                    range(len(options[name])),
                    key=lambda index: len(met({**row, name: index}, strength) & missing.keys()),
                )
        for values in met(row, strength):
            missing.pop(values, None)
        rows.append({name: options[name][row[name]] for name in options})
    return rows


def met(row: Mapping[str, int], strength: int) -> set[frozenset[tuple[str, int]]]:
    """All sets of `strength` values in a combination."""
    return {frozenset(values) for values in combinations(row.items(), strength)}
