"""Checks of settings, whose errors say what was given and what is accepted."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

Values = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A condition under which settings have an effect.

    A dataclass of settings lists its rules in the class attribute ``rules``, so that a setting that
    is given and would have no effect is an error.

    Args:
        fields: Names of the settings.
        depends: Names of the settings that the condition is about.
        used: Condition on the values of all settings, by name; those of `depends` are among them.
        belongs: What the settings are part of, and how to switch it on.
    """

    fields: tuple[str, ...]
    depends: tuple[str, ...]
    used: Callable[[Values], bool]
    belongs: str


def not_a_tensor(what: str, value: object) -> str:
    """Return the message for something other than a tensor, such as an output of transformers.

    >>> not_a_tensor("heads take", [1.0])
    'heads take a tensor, got a list.'
    """
    message = f"{what} a tensor, got a {type(value).__name__}"
    if getattr(value, "pooler_output", None) is not None:
        return f"{message}: give its .pooler_output."
    if getattr(value, "last_hidden_state", None) is not None:
        return f"{message}: give its .last_hidden_state[:, 0], the class token, or the mean of it."
    return f"{message}."


def choose(name: str, value: object, accepted: tuple[str, ...]) -> None:
    """Raise an error that lists what is accepted, unless `value` is among it."""
    if value not in accepted:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, accepted))}; got {value!r}.")


def non_negative(name: str, value: Any, fix: str) -> float:
    """Return `value` if it is a finite number, at least 0."""
    if not (isinstance(value, Real) and 0 <= float(value) < math.inf):
        raise ValueError(f"{name} must be a finite number, at least 0, got {value!r}: {fix}.")
    return float(value)


def non_negative_int(name: str, value: Any, fix: str) -> int:
    """Return `value` if it is a whole number, at least 0."""
    if not (isinstance(value, Integral) and int(value) >= 0):
        raise ValueError(f"{name} must be a whole number, at least 0, got {value!r}: {fix}.")
    return int(value)


def positive_number(name: str, value: Any, fix: str = "choose a value above 0") -> float:
    """Return `value` if it is a finite number above 0."""
    if not (isinstance(value, Real) and 0 < float(value) < math.inf):
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}: {fix}.")
    return float(value)


def finite_number(name: str, value: Any, fix: str) -> float:
    """Return `value` if it is a finite number."""
    if not (isinstance(value, Real) and math.isfinite(float(value))):
        raise ValueError(f"{name} must be a finite number, got {value!r}: {fix}.")
    return float(value)


def whole_number(name: str, value: Any, fix: str = "choose 1 or more") -> int:
    """Return `value` if it is a whole number, at least 1."""
    if not (isinstance(value, Integral) and int(value) >= 1):
        raise ValueError(f"{name} must be a whole number, at least 1, got {value!r}: {fix}.")
    return int(value)
