"""Objectives of a search: metrics of the features of a run, never of test images."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from amcl.config import Config
from amcl.data import DataSet
from amcl.errors import RunError
from amcl.results import STATUSES, Record, formatting
from amcl.sweep.single_run import MetricsRow

Objective = Literal["knn", "linear", "effective-rank"]
OBJECTIVES: tuple[Objective, ...] = Objective.__args__  # type: ignore[attr-defined]
LABELS = {
    "knn": "kNN accuracy",
    "linear": "linear probe accuracy",
    "effective-rank": "effective rank",
}
JUDGED_BY = {
    "knn": "kNN accuracy on validation images",
    "linear": "linear probe accuracy on validation images",
    "effective-rank": "effective rank of features, of training images where none are held out",
}
METRICS = {
    "knn": "knn_validation",
    "linear": "linear_top1_validation",
    "effective-rank": "effective_rank",
}
"""Metric of a record that is the objective."""


def is_share(objective: Objective) -> bool:
    """Return True if the objective is an accuracy."""
    return formatting.is_share(METRICS[objective])


def score(objective: Objective, record: Record) -> float | None:
    """Return the objective of a complete run; None for others.

    >>> score("knn", Record(name="0000", metrics={"knn_validation": 0.5}))
    0.5
    """
    value = record.metrics.get(METRICS[objective], math.nan)
    return value if record.status == "complete" and math.isfinite(value) else None


def ranked(objective: Objective, records: Sequence[Record]) -> list[Record]:
    """Return the complete from the highest value down, then the others by status and number."""

    def rank(record: Record) -> tuple[int, float, int]:
        value = score(objective, record)
        return (
            STATUSES.index(record.status),
            math.inf if value is None else -value,
            int(record.name),
        )

    return sorted(records, key=rank)


def format_score(objective: Objective, value: float) -> str:
    """Return a value with its unit.

    >>> format_score("knn", 0.5), format_score("effective-rank", 12.345)
    ('50.0 %', '12.3')
    """
    return f"{100 * value:.1f} %" if is_share(objective) else f"{value:.3g}"


def on_validation(config: Config) -> Config:
    """Return the configuration with probes of its validation images.

    Raises:
        ValueError: If it probes the test split, or has no validation images.
    """
    if config.data.probe == "test":
        raise ValueError(
            "a search chooses by what it watches, and --probe test would have it choose by the "
            "images that results are reported on: use --probe validation."
        )
    if config.data.validation == 0 and config.data.labels != "none":
        raise ValueError("a search needs validation images: use --validation 1000, not 0.")
    return replace(config, data=replace(config.data, probe="validation"))


def objective_for(data: DataSet, requested: Objective | None) -> Objective:
    """Return the requested objective; without a request kNN where there are labels."""
    labeled = data.probe is not None
    if requested is None:
        return "knn" if labeled else "effective-rank"
    if is_share(requested) and not labeled:
        reasons = f" ({'; '.join(data.notes)})" if data.notes else ""
        raise ValueError(
            f"--objective {requested} needs labels, and {data.name} has none in use{reasons}: use "
            "--objective effective-rank, which needs none."
        )
    return requested


def probe_score(objective: Objective, row: MetricsRow) -> float:
    """Return the number of a probe that stands for the objective while a trial runs."""
    name = METRICS["knn" if is_share(objective) else objective]
    if name not in row:
        raise RunError(f"a probe did not measure {name}: this cannot be searched by {objective}.")
    value: float = row[name]
    return value
