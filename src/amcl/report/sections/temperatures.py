"""Temperatures: their distribution, and their course in training."""

from collections.abc import Sequence
from typing import Any

from amcl.analysis import PairSample, negatives, positives
from amcl.report.blocks import Block, Chart, Note, Paragraph, Section
from amcl.report.runs import Run, beside, in_rows, joined
from amcl.results.charts import Line, curves, outlines
from amcl.results.formatting import percent
from amcl.temperature.base import Sign

HOW = (
    "The loss divides the similarity of a pair by its temperature τ: the larger τ, the less the "
    "pair weighs. Adaptive heads learn τ from the pair itself, so that pairs they are unsure of "
    "get a larger one. Where many temperatures lie at a bound they no longer adapt: widen the "
    "range with `--tau-lower` and `--tau-upper`, or raise `--phi-scale`. Where heads hardly "
    "differ, fewer may do."
)
_SIGNS = {"positive": "τ⁺", "negative": "τ⁻"}
_MANY = 250_000
"""Pairs a head beyond which a histogram of a part of them looks the same."""


def temperatures(runs: Sequence[Run]) -> Section:
    """Return the distribution by head and sign, shares at the bounds, variances, and the course."""
    several = len(runs) > 1
    by_head = max(run.heads for run in runs) > 1
    header = ("pairs", "mean", "std", "5%", "median", "95%", "at lower", "at upper")
    blocks = [
        *beside(runs, lambda run: _spread(run, several)),
        *joined(
            runs,
            ("head", *header) if by_head else header,
            lambda run: [row if by_head else row[1:] for row in _rows(run)],
            left=1 + by_head,
        ),
        *joined(runs, ("variance of τ", "between heads", "between pairs"), _variances),
        *beside(runs, lambda run: in_rows(_course(run), several) + _bounds_reached(run)),
    ]
    adapts = [run for run in runs if run.heads and run.config.method.adapts]
    folded = "" if adapts else " ".join(dict.fromkeys(map(_without_adapting, runs)))
    return Section("Temperatures", blocks, HOW if adapts else "", folded=folded)


def _without_adapting(run: Run) -> str:
    """Return why a run has no temperatures to look at."""
    method: Any = run.config.method
    if not method.has_heads:
        return f"{method.name} has no heads, and so no temperatures."
    return f"All pairs of {run.name} have one temperature ({method.temperature.name})."


def _spread(run: Run, several: bool) -> list[Block]:
    method: Any = run.config.method
    if not method.has_heads:
        return [Paragraph(f"{run.config.method.name} has no heads, and so no temperatures.")]
    if run.sample is None:
        return [Note("How they are spread over pairs is missing: see Training for why.")]
    charts = in_rows(_distributions(run, run.sample), several)
    one = f"In each head all pairs have one temperature ({method.temperature.name})."
    if method.adapts:
        one += (
            " Its projections are too alike to tell pairs apart by: train for longer, or put batch "
            "norm on them with `--projector-last-norm plain`."
        )
    return charts or [Paragraph(one)]


def _distributions(run: Run, sample: PairSample) -> list[Chart]:
    tau = sample.tau if sample.tau is not None else sample.channel_tau
    if tau is None or run.temperatures is None:
        raise RuntimeError("a method with heads has temperatures")
    charts = []
    of = "channels" if sample.tau is None else "images"
    for sign in _signs(run):
        rows = run.temperatures.of(sign)
        if max(row.std for row in rows) < 1e-6:
            continue
        values = positives(tau) if sign == "positive" else negatives(tau)
        values = values[:, :: max(1, values.shape[1] // _MANY)]
        bounds = sample.positive_bounds if sign == "positive" else sample.negative_bounds
        names = [f"head {row.head}" for row in rows]
        means = ", ".join(f"head {row.head} {row.mean:.3f}" for row in rows)
        limits = f" Bounds: {bounds[0]:.3g} and {bounds[1]:.3g}." if bounds else ""
        charts.append(
            Chart(
                outlines(values, names, f"{_SIGNS[sign]} of {sign} pairs", bounds),
                f"Histograms of {_SIGNS[sign]}, a line for each head; means: {means}",
                f"{sign.capitalize()} pairs of {of}.{limits}",
            )
        )
    return charts


def _rows(run: Run) -> list[tuple[str, ...]]:
    lines = []
    for row in run.temperatures.heads if run.temperatures is not None else ():
        if row.sign in _signs(run):
            _, low, _, middle, _, high, _ = row.quantiles
            numbers = [f"{value:.3f}" for value in (row.mean, row.std, low, middle, high)]
            shares = [percent(row.at_lower), percent(row.at_upper)]
            lines.append((str(row.head), row.sign, *numbers, *shares))
    return lines


def _variances(run: Run) -> list[tuple[str, ...]]:
    """Return the variance of τ between heads, beside the variance between pairs."""
    tau = run.temperatures
    if tau is None or run.heads < 2:
        return []
    between = {"positive": tau.between_positive, "negative": tau.between_negative}
    lines: list[tuple[str, ...]] = []
    for sign in _signs(run):
        of_heads = tau.of(sign)
        within = sum(row.std**2 for row in of_heads) / len(of_heads)
        lines.append((f"{sign} pairs", f"{between[sign]:.2g}", f"{within:.2g}"))
    return lines


def _course(run: Run) -> list[Chart]:
    charts = []
    for sign in _signs(run):
        lines = [
            Line(f"head {c}", _by_epoch(run, f"tau_{sign}/head{c}"), c - 1)
            for c in _heads(run, sign)
        ]
        values = [y for line in lines for _, y in line.finite_points]
        if not values or max(values) - min(values) < 1e-6:
            continue
        ends = ", ".join(
            f"{line.label} {line.finite_points[-1][1]:.3f}" for line in lines if line.finite_points
        )
        label = f"mean {_SIGNS[sign]}"
        charts.append(
            Chart(
                curves(lines, "epoch", label),
                f"{label} by epoch, a line for each head; at the end {ends}",
                f"Mean {_SIGNS[sign]} of {sign} pairs in training, at the end of each epoch.",
            )
        )
    return charts


def _bounds_reached(run: Run) -> list[Block]:
    """Return the share at the bounds over epochs, in the head where it is the greatest."""
    lines: list[Line] = []
    for sign in _signs(run):
        for side in ("lower", "upper"):
            by_head = [_by_epoch(run, f"at_{side}_{sign}/head{c}") for c in _heads(run, sign)]
            points = [
                (points[0][0], 100 * max(share for _, share in points))
                for points in zip(*by_head, strict=True)
            ]
            if points:
                lines.append(Line(f"{_SIGNS[sign]} at the {side} bound", points, len(lines)))
    most = max((y for line in lines for _, y in line.finite_points), default=None)
    if most is None:
        return []
    if most < 1:
        share = f"more than {most:.1g}% of the" if most > 0 else "any"
        return [Paragraph(f"In no epoch, at its end, did {share} temperatures lie at a bound.")]
    drawn = curves(lines, "epoch", "share at a bound (%)")
    alt = f"Shares of temperatures at the bounds by epoch; the greatest is {most:.0f}%"
    return [Chart(drawn, alt, "Of the head with the greatest share.")]


def _heads(run: Run, sign: Sign) -> list[int]:
    names = {name for row in run.of("epoch") for name in row}
    return [c for c in range(1, run.heads + 1) if f"tau_{sign}/head{c}" in names]


def _by_epoch(run: Run, name: str) -> list[tuple[float, float]]:
    return [(row["epoch"], row[name]) for row in run.of("epoch") if name in row]


def _signs(run: Run) -> tuple[Sign, ...]:
    """Return the signs of pairs that the loss has."""
    return getattr(run.config.method, "signs", ())
