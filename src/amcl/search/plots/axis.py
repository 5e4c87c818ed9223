"""A field of a space, as it is drawn and told."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Axis:
    """One field of a space: a range, or choices.

    >>> Axis(1e-5, 10, log=True)
    Axis(low=1e-05, high=10, log=True, choices=None)
    """

    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        ranged = self.low is not None and self.high is not None
        if ranged == (self.choices is not None):
            raise ValueError(f"An axis is a range (low and high) or choices, one of them: {self}.")
        if self.log and self.low is not None and self.low <= 0:
            raise ValueError(f"A log axis starts above 0, got low={self.low}.")

    def span(self, values: Sequence[float]) -> tuple[float, float]:
        """The ends of the range, or of choices of numbers; wide enough for these values.

        >>> Axis(1, 4).span([2, 7])
        (1, 7)
        """
        every: list[Any] = [*(self.choices or (self.low, self.high)), *values]
        return min(every), max(every)

    def places(self, values: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """The choices with, after them, the values that are none; and where each value is.

        True is not 1, and a list read from a file is its tuple.

        >>> Axis(choices=(1, True, (8, 8))).places([[8, 8], True, 5])
        ([1, True, (8, 8), 5], [2, 1, 3])
        """
        every = list(self.choices or ())
        keys = [_key(choice) for choice in every]
        for value in values:
            if _key(value) not in keys:
                every.append(value)
                keys.append(_key(value))
        return every, [keys.index(_key(value)) for value in values]


def _key(value: Any) -> tuple[bool, Any]:
    return isinstance(value, bool), tuple(value) if isinstance(value, list) else value


def told(value: Any) -> str:
    """A value of a field in few signs: three digits of a fraction, a whole number whole.

    >>> [told(v) for v in (0.123456, 1e-5, 65536, 4.0, True, None, (2048, 128), "top_k")]
    ['0.123', '1e-05', '65536', '4', 'true', 'none', '2048, 128', 'top_k']
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
    if isinstance(value, tuple | list):
        return ", ".join(map(told, value)) or "()"
    return str(value)
