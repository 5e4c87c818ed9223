"""One run among many: begun or gone on with, and how it ended."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from amcl.sweep.fields import differing, on_machine
from amcl.training import Config, NonFiniteError, RunError, RunFolder, pretrain, read_metrics
from amcl.training.errors import UnfitError
from amcl.training.watch import COLLAPSED

Ending = Literal["complete", "pruned", "collapsed", "diverged", "invalid", "failed"]
ENDINGS: tuple[Ending, ...] = Ending.__args__  # type: ignore[attr-defined]

Row = dict[str, Any]


class Stopped(Exception):
    """Whoever watches a run has seen enough of it."""

    def __init__(self, ending: Ending, reason: str) -> None:
        super().__init__(reason)
        self.ending, self.reason = ending, reason


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended."""

    ending: Ending
    reason: str = ""
    """Why, where it is not complete."""
    probe: dict[str, float] = field(default_factory=dict)
    """What its last probe found."""
    epoch: int | None = None
    """The epoch of that probe."""


def carry_out(
    config: Config, folder: Path, on_probe: Callable[[Row], None] | None = None
) -> Outcome:
    """Begin the run in `folder`, or go on with it, and say how it ended.

    What is wrong with the run itself (it diverges, its settings do not fit together, it needs more
    memory than there is) is an outcome; what would stop any run (a full disk, images that are not
    there, Ctrl-C) is raised. `on_probe` may end the run with `Stopped`.
    """
    run = RunFolder(folder)
    try:
        if not run.backbone.is_file():
            config = _stored(config, run)
            pretrain(config, folder, resume=run.config.exists(), on_probe=on_probe)
    except Stopped as stopped:
        return _outcome(stopped.ending, stopped.reason, folder)
    except NonFiniteError as error:
        return _outcome("diverged", str(error).split(":")[0], folder)
    except (UnfitError, ValueError, RuntimeError, MemoryError) as error:
        return _outcome("failed", reason_of(error), folder)
    found = _outcome("complete", "", folder)
    if (spread := found.probe.get("spread", 1.0)) < COLLAPSED:
        return dataclasses.replace(found, ending="collapsed", reason=collapsed(spread))
    return found


def reason_of(error: Exception) -> str:
    """An error in one line.

    >>> reason_of(RuntimeError("CUDA out of memory.\\nTried to allocate 2 GiB."))
    'RuntimeError: CUDA out of memory.'
    """
    said = str(error).splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


def collapsed(spread: float) -> str:
    """The reason of runs that have."""
    return f"the features have collapsed: their spread is {spread:.3f}, below {COLLAPSED}"


def probes(folder: Path) -> list[Row]:
    """The lines of a run's probes so far."""
    if not RunFolder(folder).metrics.is_file():
        return []
    return [row for row in read_metrics(folder) if row["kind"] == "probe"]


def _outcome(ending: Ending, reason: str, folder: Path) -> Outcome:
    rows = probes(folder)
    last = rows[-1] if rows else {}
    found = {n: v for n, v in last.items() if n not in ("kind", "step", "epoch")}
    return Outcome(ending=ending, reason=reason, probe=found, epoch=last.get("epoch"))


def _stored(config: Config, run: RunFolder) -> Config:
    """The settings to go on with; an error if the folder holds a run of other settings.

    A run that has begun keeps what was fitted to its images.
    """
    if not run.config.exists():
        return config
    stored = run.read_config()
    fitted = (*(config.run.fit or ()), "fit")
    if changed := [name for name in differing(stored, config) if name not in fitted]:
        raise RunError(
            f"{run.path} holds a run of other settings ({', '.join(changed)}): choose another "
            "folder."
        )
    return on_machine(stored, config)
