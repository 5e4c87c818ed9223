"""What makes one trial better than another: a number of its features, never of test images."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from amcl.data import DataSet
from amcl.sweep.judge import judge
from amcl.sweep.outcome import Outcome, Row
from amcl.training import Config, RunError

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
_KNN = "knn_validation"


def is_share(objective: Objective) -> bool:
    """Whether the objective is an accuracy."""
    return objective != "effective-rank"


def spelled_value(objective: Objective, value: float) -> str:
    """A value for people.

    >>> spelled_value("knn", 0.5), spelled_value("effective-rank", 12.345)
    ('50.0 %', '12.3')
    """
    return f"{100 * value:.1f} %" if is_share(objective) else f"{value:.3g}"


def on_validation(config: Config) -> Config:
    """The configuration with its validation images watched; an error if they are the test split."""
    if config.data.probe == "test":
        raise ValueError(
            "a search chooses by what it watches, and --probe test would have it choose by the "
            "images that results are reported on: use --probe validation."
        )
    if config.data.validation == 0 and config.data.labels != "none":
        raise ValueError("a search needs validation images: use --validation 1000, not 0.")
    return replace(config, data=replace(config.data, probe="validation"))


def objective_for(data: DataSet, asked: Objective | None) -> Objective:
    """What to search by: as asked, else kNN where there are labels."""
    labeled = data.probe is not None
    if asked is None:
        return "knn" if labeled else "effective-rank"
    if is_share(asked) and not labeled:
        reasons = f" ({'; '.join(data.notes)})" if data.notes else ""
        raise ValueError(
            f"--objective {asked} needs labels, and {data.name} has none in use{reasons}: use "
            "--objective effective-rank, which needs none."
        )
    return asked


def live(objective: Objective, row: Row) -> float:
    """What a probe says of the objective while a trial goes on."""
    name = _KNN if is_share(objective) else "effective_rank"
    if name not in row:
        raise RunError(f"a probe did not measure {name}: this cannot be searched by {objective}.")
    value: float = row[name]
    return value


def final(objective: Objective, config: Config, run: Path, outcome: Outcome) -> float:
    """The objective of a trial at its last epoch."""
    if objective != "linear":
        return live(objective, outcome.probe)
    return judge(config, run, ["linear"], "validation")["linear validation"]["top1"]
