"""One run as a row: its settings, how it ended and what was measured."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Status = Literal["complete", "pruned", "collapsed", "diverged", "invalid", "failed"]
STATUSES: tuple[Status, ...] = Status.__args__  # type: ignore[attr-defined]


@dataclass(frozen=True, kw_only=True)
class Record:
    """One run.

    Args:
        name: Name of the run within its sweep or study, or that of its folder.
        status: The way in which the run ended.
        reason: Reason of another status than "complete".
        seed: Seed of the run, if there is one.
        values: Settings in which the run differs from others of its sweep or study, by the name of
            the option.
        settings: All settings that change what is learned, by section and name, as in
            ``"method.heads"``.
        metrics: Measured numbers, by names such as ``"knn_validation"`` or ``"linear_top1_test"``.
        epoch: Epoch of the last measurement.
        path: Folder of the run.

    Example:
        >>> record = Record(name="tau=0.1", metrics={"knn_validation": 0.5})
        >>> record.status
        'complete'
    """

    name: str
    status: Status = "complete"
    reason: str = ""
    seed: int | None = None
    values: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    epoch: int | None = None
    path: Path | None = None
