"""Tables of costs side by side, as of a method as published and with AMCL."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from amcl.analysis.cost.count import Cost, channels_of, cost_of, image_size_of
from amcl.analysis.cost.measure import StepCost
from amcl.config import Config
from amcl.results import Cell, Table

_PART = {"temperature": "temperature (φ)", "noise_embedding": "noise embedding"}


@dataclass(frozen=True)
class Row:
    """One number of several configurations, in units for people."""

    name: str
    """Name of the number."""
    label: str
    """Name for people, with the unit."""
    values: tuple[float | None, ...]
    """The number of each configuration."""
    part: bool = False
    """True if it is a part of the row above it."""

    @property
    def ratio(self) -> float | None:
        """Ratio of the last to the first; None where one of them is missing."""
        first = self.values[0]
        last = self.values[-1]
        return last / first if len(self.values) > 1 and first and last is not None else None


def format_cost(value: float | None, form: str = ".4g") -> str:
    """Return a number as text.

    Example:
        >>> format_cost(0.35891), format_cost(65536.2), format_cost(None)
        ('0.3589', '65,536', '–')
    """
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1e4 else f"{value:{form}}"


def compare_cost(base: Config, amcl: Config, image_size: int | None = None) -> tuple[Cost, Cost]:
    """Count the costs of two configurations, such as a method with one head and with AMCL.

    Args:
        base: The first configuration.
        amcl: The second configuration.
        image_size: Pixels a side of the views of both; None for that of the training of `base`.

    Returns:
        The costs of both.

    Example:
        >>> from amcl.recipes import recipe
        >>> base = recipe("builtin-simclr")
        >>> amcl = recipe("builtin-simclr-amcl")
        >>> base_cost, amcl_cost = compare_cost(base, amcl)  # doctest: +SKIP
        >>> amcl_cost.parameters["heads"] / base_cost.parameters["heads"]  # doctest: +SKIP
        3.0
    """
    size = image_size or image_size_of(base)
    channels = channels_of(base)
    return cost_of(base, size, channels), cost_of(amcl, size, channels)


def rows(costs: Sequence[Cost], measured: Sequence[StepCost] = ()) -> list[Row]:
    """Return all numbers, a value for each configuration; measured ones come last.

    Args:
        costs: Costs of the configurations by count.
        measured: Their costs by measurement, in the same order; none for counts alone.

    Returns:
        A row for each number.

    Example:
        >>> counted = Cost(
        ...     image_size=32,
        ...     channels=3,
        ...     batch_size=128,
        ...     parameters={"backbone": 10_000_000, "heads": 500_000},
        ...     trained=10_500_000,
        ...     momentum=0,
        ...     forward_flops=2e9,
        ...     step_flops=6e9,
        ...     inference_flops=1e9,
        ... )
        >>> for row in rows([counted])[:3]:
        ...     print(row.label, row.values)
        parameters in training, M (10.5,)
        backbone (10.0,)
        heads (0.5,)
    """

    def of(name: str, label: str, value: Callable[[Cost], float], part: bool = False) -> Row:
        return Row(name, label, tuple(map(value, costs)), part)

    lines = [of("parameters", "parameters in training, M", lambda c: c.training_parameters / 1e6)]
    for name in dict.fromkeys(name for cost in costs for name in cost.parameters):
        lines.append(Row(f"parameters/{name}", _PART.get(name, name), _of_part(costs, name), True))
    if any(cost.trained != cost.training_parameters for cost in costs):
        lines.append(of("trained", "of these trained", lambda c: c.trained / 1e6, True))
    if any(cost.momentum for cost in costs):
        lines.append(of("momentum", "momentum copy, not trained, M", lambda c: c.momentum / 1e6))
    lines += [
        of("inference_parameters", "parameters at inference, M", _inference_parameters),
        of("forward_flops", "GFLOPs an image, training, forward", lambda c: c.forward_flops / 1e9),
        of("step_flops", "GFLOPs an image, forward and backward", lambda c: c.step_flops / 1e9),
        of("inference_flops", "GFLOPs an image, inference", lambda c: c.inference_flops / 1e9),
    ]
    return lines + (_measured(measured) if measured else [])


def cost_table(
    names: Sequence[str],
    costs: Sequence[Cost],
    measured: Sequence[StepCost] = (),
    more: Mapping[str, Sequence[str]] | None = None,
) -> Table:
    """Return a table with a column for each configuration, and ratios to the first.

    Args:
        names: Names of the configurations.
        costs: Their costs by count.
        measured: Their costs by measurement.
        more: Rows to add below, by label: a text for each configuration.

    Returns:
        The table, with a row for each number.

    Example:
        >>> counted = Cost(
        ...     image_size=32,
        ...     channels=3,
        ...     batch_size=128,
        ...     parameters={"backbone": 10_000_000, "heads": 500_000},
        ...     trained=10_500_000,
        ...     momentum=0,
        ...     forward_flops=2e9,
        ...     step_flops=6e9,
        ...     inference_flops=1e9,
        ... )
        >>> table = cost_table(["one", "same"], [counted, counted])
        >>> table.rows[0]
        ['parameters in training, M', '10.5', '10.5', '1.000']
    """
    pair = len(names) == 2
    lines: list[list[str | Cell]] = []
    for row in rows(costs, measured):
        label = f"\u2003{row.label}" if row.part else row.label
        first, *others = row.values
        if pair:
            numbers: list[str | Cell] = [
                *map(format_cost, row.values),
                format_cost(row.ratio, ".3f"),
            ]
        else:
            ratios = [f"×{v / first:.3f}" if v and first else "" for v in others]
            cells = [Cell(format_cost(v), r) for v, r in zip(others, ratios, strict=True)]
            numbers = [format_cost(first), *cells]
        lines.append([label, *numbers])
    for label, texts in (more or {}).items():
        lines.append([label, *texts, *([""] if pair else [])])
    caption = f"×: ratio to {names[0]}." if len(names) > 2 else ""
    return Table(["", *names, *(["ratio"] if pair else [])], lines, caption)


def _inference_parameters(cost: Cost) -> float:
    return cost.inference_parameters / 1e6


def _of_part(costs: Sequence[Cost], name: str) -> tuple[float, ...]:
    return tuple(cost.parameters.get(name, 0) / 1e6 for cost in costs)


def _measured(steps: Sequence[StepCost]) -> list[Row]:
    memory = tuple(s.peak_memory / 2**20 if s.peak_memory is not None else None for s in steps)
    return [
        Row("seconds", "seconds a step", tuple(step.median for step in steps)),
        # What else the machine does can only add to it: far from the median, measure again.
        Row("least_seconds", "the least", tuple(min(step.seconds) for step in steps), True),
        Row("images_per_second", "images a second", tuple(s.images_per_second for s in steps)),
        Row("peak_memory", "peak memory, MiB", memory),
    ]
