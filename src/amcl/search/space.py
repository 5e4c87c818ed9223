"""Spaces of a search: those of the paper, and those of any fields of a configuration."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amcl.config import Config
from amcl.config.fields import (
    effective,
    field_name,
    has_effect,
    is_field,
    is_number,
    one_spelling,
    spelled,
    value_from,
    with_values,
)
from amcl.config.options import values_of
from amcl.config.rules import conditions

if TYPE_CHECKING:
    from optuna import Trial

PAPER = "paper"
_WIDE = ("imagenet", "tinyimagenet")  # data sets with η, ι up to 5; up to 2 elsewhere
_MAX_TOP_K = 256  # the paper's curve ends before that
_FIRST = ("temperature", "form", "phi_output")  # they decide whether others have an effect
_LINKED = (*_FIRST, "top_k", "tau_lower", "tau_upper", "batch_size", "accumulate", "queue")
_NOT_SEARCHED = (
    *("seed", "data", "data_root", "labels", "probe", "validation", "probe_every", "knn_k"),
    *("workers", "memory", "init", "save_every", "save_minutes", "keep_every", "log_every"),
    *("tensorboard", "wandb", "mlflow"),
)


@dataclass(frozen=True)
class Range:
    """Numbers of a range.

    Args:
        low: Lowest number.
        high: Highest number.
        log: Whether the scale is logarithmic.
        whole: Whether the numbers are whole.

    Example:
        >>> str(Range(0.001, 1.0, log=True))
        '0.001:1.0:log'
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def suggest(self, trial: "Trial", name: str) -> Any:
        """Return a number that the sampler suggests."""
        if self.whole:
            return trial.suggest_int(name, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(name, self.low, self.high, log=self.log)

    def ends(self) -> tuple[Any, ...]:
        """Return values to check settings with before any run."""
        return self.low, self.high

    def __str__(self) -> str:
        return f"{spelled(self.low)}:{spelled(self.high)}" + (":log" if self.log else "")


@dataclass(frozen=True)
class Choice:
    """Values without an order.

    Args:
        values: The values.

    Example:
        >>> str(Choice(("softmax", "top_k")))
        'softmax,top_k'
    """

    values: tuple[Any, ...]

    def suggest(self, trial: "Trial", name: str) -> Any:
        """Return a value that the sampler suggests."""
        return self.values[self.plain.index(trial.suggest_categorical(name, self.plain))]

    @property
    def plain(self) -> tuple[Any, ...]:
        """Values as a study stores them: numbers and words, and others as they are typed."""
        plain = (bool, int, float, str)
        return tuple(v if isinstance(v, plain) else spelled(v) for v in self.values)

    def ends(self) -> tuple[Any, ...]:
        """Return values to check settings with before any run."""
        return self.values

    def __str__(self) -> str:
        return ",".join(map(spelled, self.values))


Space = dict[str, Range | Choice]


def paper_space(config: Config) -> Space:
    """Return the paper's space for a method with adaptive temperatures.

    η and ι from 1e-5 to 2, to 5 for the ImageNets; β from 1e-5 to 10, by its logarithm; 2 to 6
    heads; for the contrastive losses softmax or top-κ, with κ up to 256 or all negatives.

    Args:
        config: Settings that trials start from.

    Returns:
        The space, by fields.

    Raises:
        ValueError: If the method has no adaptive temperature.

    Example:
        >>> from amcl.recipes import recipe
        >>> {name: str(axis) for name, axis in paper_space(recipe("cifar10-barlow-amcl")).items()}
        {'eta': '1e-05:2.0', 'iota': '1e-05:2.0', 'beta': '1e-05:10.0:log', 'heads': '2:6'}
    """
    method = config.method
    if not method.adapts:
        now = values_of(config).get("temperature", "no")
        raise ValueError(
            f"the paper's spaces are those of adaptive temperatures, and {method.name} has {now} "
            "temperature here: start from a recipe that ends in -amcl, use --temperature adaptive, "
            "or say where to look, as in --space tau=0.05:0.5:log lr=0.01:1:log."
        )
    most = 5.0 if config.data.source in _WIDE else 2.0
    space: Space = {
        "eta": Range(1e-5, most),
        "iota": Range(1e-5, most),
        "beta": Range(1e-5, 10.0, log=True),
        "heads": Range(2, 6, whole=True),
    }
    if is_field(config, "top_k") and config.negatives > 1:
        space["form"] = Choice(("softmax", "top_k", "top_k_softmax"))
        space["top_k"] = Range(1, min(_MAX_TOP_K, config.negatives), log=True, whole=True)
    return space


def space_from(config: Config, entries: Sequence[str] | Mapping[str, str]) -> Space:
    """Return a space from the form in which it is typed.

    Args:
        config: Settings that trials start from.
        entries: Fields with ranges or choices; `paper` adds the other fields of the paper's space.

    Returns:
        The space, by fields; those that decide whether others have an effect come first.

    Example:
        >>> space_from(Config(), ["lr=1e-3:1:log", "heads=1,3", "batch-size=64:256"])["lr"]
        Range(low=0.001, high=1.0, log=True, whole=False)
    """
    if isinstance(entries, Mapping):
        entries = [f"{name}={text}" for name, text in entries.items()]
    space: Space = {}
    paper: Space = {}
    for entry in entries:
        if entry.strip() == PAPER:
            paper = paper_space(config)
            continue
        name, equals, text = entry.partition("=")
        if not equals or not text.strip():
            raise ValueError(
                f"{entry!r} is no part of a space: write a field and where to look, as in "
                "lr=1e-3:1:log, heads=2:6, temperature=adaptive,first-head, or the word paper."
            )
        name = field_name(config, name)
        if name in _NOT_SEARCHED:
            raise ValueError(
                f"{name} is no setting to search for: trials that differ in it could not be "
                "compared, or would not differ. Fix it for all of them, with "
                f"--{name.replace('_', '-')}."
            )
        if name in space:
            raise ValueError(f"the space has {name} twice: write where to look for it in one.")
        space[name] = _axis(config, name, text)
    union = paper | space
    space = {n: axis for n, axis in union.items() if n in space or _has_effect(config, union, n)}
    if not any(isinstance(axis, Range) or len(axis.values) > 1 for axis in space.values()):
        raise ValueError(
            "the space has one point at most: give a range, as in lr=1e-3:1:log, or several values."
        )
    _check(config, space)
    deciding = conditions(config, space)
    return dict(
        sorted(space.items(), key=lambda item: (item[0] not in _FIRST, item[0] not in deciding))
    )


def suggest(trial: "Trial", space: Space, config: Config) -> dict[str, Any]:
    """Return a point of the space, without the fields that have no effect there."""
    point: dict[str, Any] = {}
    for name, axis in space.items():
        if has_effect(config, name, point):
            point[name] = axis.suggest(trial, name)
    return point


def _axis(config: Config, name: str, text: str) -> Range | Choice:
    if ":" not in text:
        values = tuple(value_from(config, name, part) for part in text.split(","))
        if len(set(values)) < len(values):
            raise ValueError(f"{name}={text} has a value twice.")
        return Choice(values)
    kind = is_number(config, name)
    if kind is None:
        raise ValueError(f"{name} is no number: list its values, as in {name}=…,…")
    parts = text.split(":")
    log = parts[-1].strip() == "log"
    if len(parts) - log != 2:
        raise ValueError(f"{name}={text} is no range: write low:high or low:high:log.")
    low, high = (value_from(config, name, part) for part in parts[:2])
    if isinstance(low, str) or isinstance(high, str) or low is None or high is None:
        raise ValueError(f"{name}={text} is no range of numbers.")
    if not low < high:
        raise ValueError(f"{name}={text}: the low end must be below the high end.")
    if log and low <= 0:
        raise ValueError(f"{name}={text}: a logarithmic range begins above 0.")
    return Range(low, high, log=log, whole=kind is int)


def _check(config: Config, space: Space) -> None:
    """Raise an error for fields without any effect, and for ends that are never accepted."""
    one_spelling(space)
    for name in sorted(space, key=lambda name: name not in _LINKED):
        if not _has_effect(config, space, name):
            values = values_of(config) | space
            deciding = [other for other in values if other in conditions(config, [name])]
            settings = ", ".join(f"{other}={values[other]}" for other in deciding)
            raise ValueError(
                f"{name} has no effect with {settings}: leave it out of the space, or search for "
                "those too."
            )
        for end in space[name].ends():
            _check_end(config, space, name, end)


def _has_effect(config: Config, space: Space, name: str) -> bool:
    """Return True if a field has an effect anywhere in the space."""
    return any(has_effect(config, name, point) for point in _corners(config, space, name))


def _check_end(config: Config, space: Space, name: str, end: Any) -> None:
    """Raise an error if no corner of the space accepts this value of a field."""
    first_error: ValueError | None = None
    for point in _corners(config, space, name):
        if has_effect(config, name, point):
            try:
                with_values(config, effective(config, {**point, name: end}))
            except ValueError as error:
                first_error = first_error or error
            else:
                return
    raise ValueError(f"{name}={space[name]}: {first_error}")


def _corners(config: Config, space: Space, name: str) -> Iterator[dict[str, Any]]:
    """Yield all combinations of ends of the fields that depend on each other, but for one."""
    linked = conditions(config, space) | set(_LINKED)
    others = [other for other in space if other in linked and other != name]
    for ends in itertools.product(*(space[other].ends() for other in others)):
        yield dict(zip(others, ends, strict=True))
