"""Grids: every combination of values of some fields."""

import hashlib
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amcl.config import Config
from amcl.config.fields import (
    differing,
    effective,
    field_name,
    is_field,
    spelled,
    value_from,
    with_values,
)
from amcl.losses.forms import OPTIONS

# Axes that choose the settings a run starts from, and so the defaults of its other fields.
BASES = ("recipe", "config", "method", "data", "init")
_MAX_BYTES = 150  # of the name of a run: file systems allow 255, suffixes included


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run of a sweep.

    Args:
        values: Values in which it differs from other runs, as they are typed.
        config: All settings of the run.

    Example:
        >>> Point(values={"tau": "0.1", "projector": "64 32"}, config=Config()).name
        'tau=0.1,projector=64-32'
    """

    values: dict[str, str]
    config: Config

    @property
    def name(self) -> str:
        """Name of the run, which is also that of its folder."""
        text = ",".join(f"{name}={value}" for name, value in self.values.items())
        name = re.sub(r"[^\w.=,+-]+", "-", text) or "run"
        if len(name.encode()) <= _MAX_BYTES:
            return name
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return name.encode()[:_MAX_BYTES].decode(errors="ignore") + f"-{digest}"


def axes_of(entries: Sequence[str]) -> dict[str, list[str]]:
    """Return the axes of a grid from the form in which they are typed.

    Args:
        entries: A field and its values each, as in ``"tau=0.1,0.2"``.

    Returns:
        Values of each field, as they are typed.

    Example:
        >>> axes_of(["tau=0.1,0.2", "seed=0,1"])
        {'tau': ['0.1', '0.2'], 'seed': ['0', '1']}
    """
    axes: dict[str, list[str]] = {}
    for entry in entries:
        name, equals, text = entry.partition("=")
        name = name.strip().removeprefix("--").replace("-", "_")
        values = [value.strip() for value in text.split(",")]
        if not equals or not name or not all(values):
            raise ValueError(
                f"{entry!r} is no axis of a grid: write a field and its values, as in tau=0.1,0.2 "
                "or 'projector=512 128,2048 256'."
            )
        if name in axes:
            raise ValueError(f"the grid has {name} twice: write all its values in one.")
        if len(set(values)) < len(values):
            raise ValueError(f"{entry!r} has a value twice.")
        axes[name] = values
    return axes


def grid(
    base: Config | Callable[[Mapping[str, str]], Config], axes: Mapping[str, Sequence[str]]
) -> list[Point]:
    """Return a run for every combination of the axes, the last one running fastest.

    Fields without effect in a combination are left out of it (κ of a softmax, τ₀ of a constant
    temperature), and so no run appears twice.

    Args:
        base: Settings that all runs share, or a function that returns them for the values of the
            axes that choose a starting point, such as `recipe`.
        axes: Values of each field, as they are typed.

    Returns:
        The runs, in order.

    Example:
        >>> points = grid(Config(), {"form": ["softmax", "top_k"], "top_k": ["5", "9"]})
        >>> [point.name for point in points]
        ['form=softmax', 'form=top_k,top_k=5', 'form=top_k,top_k=9']
    """
    points: dict[str, Point] = {}
    idle: dict[str, bool] = {}  # axes of which no value has had an effect
    for combination in itertools.product(*axes.values()):
        texts = dict(zip(axes, combination, strict=True))
        if isinstance(base, Config):
            start: dict[str, str] = {}
            config = base
        else:
            start = {name: texts.pop(name) for name in BASES if name in texts}
            config = base(start)
        names = {field_name(config, name): text for name, text in texts.items()}
        values: dict[str, Any] = {n: value_from(config, n, t) for n, t in names.items()}
        values = effective(config, values)
        idle |= {name: idle.get(name, True) and name not in values for name in names}
        typed = {**start, **{name: spelled(value) for name, value in values.items()}}
        try:
            point = Point(values=typed, config=with_values(config, values))
        except ValueError as error:
            where = ", ".join(f"{name}={value}" for name, value in typed.items())
            raise ValueError(f"{where}: {error}") from None
        if points.setdefault(point.name, point).config != point.config:
            raise ValueError(f"two runs would be called {point.name!r}: rename a file.")
    if without_effect := [name for name, is_idle in idle.items() if is_idle]:
        raise ValueError(
            f"{' and '.join(without_effect)} would change nothing in any run of this grid: leave "
            "out that axis, or choose a temperature or form that has it."
        )
    return list(points.values())


def unnamed_differences(first: Point, second: Point) -> list[str]:
    """Return the fields that differ between two runs of the same start, though neither names them.

    >>> slow, fast = (with_values(Config(), {"epochs": epochs}) for epochs in (100, 5))
    >>> first = Point(values={"tau": "0.1"}, config=slow)
    >>> unnamed_differences(first, Point(values={"seed": "0"}, config=fast))
    ['epochs']
    """
    if _start(first) != _start(second):
        return []
    named = {*first.values, *second.values}
    if named & {"eta", "iota"}:
        named |= {"tau_lower", "tau_upper"}
    if "form" in named:
        named.update(OPTIONS)
    if named & {"batch_size", "queue"}:
        named.add("fit")
    return [name for name in differing(first.config, second.config) if name not in named]


def _start(point: Point) -> dict[str, str]:
    """Return the values that choose the settings a run starts from."""
    return {
        name: value
        for name, value in point.values.items()
        if name in BASES or not is_field(point.config, name)
    }
