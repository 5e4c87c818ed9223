"""One run of many: it is started or resumed, and its status is recorded."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from amcl.checkpoints.run_folder import RunFolder, read_metrics
from amcl.config import Config
from amcl.config.fields import differing, on_machine
from amcl.errors import NonFiniteError, RunError, UnfitError
from amcl.results import Record, Status
from amcl.training import pretrain
from amcl.training.watch import COLLAPSED

MetricsRow = dict[str, Any]


class StopRun(Exception):
    """The end of a run, raised by the function that watches it.

    Args:
        status: Status of the run.
        reason: Reason of the status.
    """

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def train_or_resume(
    config: Config, folder: Path, on_probe: Callable[[MetricsRow], None] | None = None
) -> Record:
    """Start the run in `folder`, or resume it, and return its record.

    A fault of the run itself (it diverges, its settings do not fit together, it needs more memory
    than there is) is a status; a fault that would stop any run (a full disk, missing images,
    Ctrl-C) is raised.

    Args:
        config: Settings of the run.
        folder: Its folder, which may hold the same run, interrupted or complete.
        on_probe: Function of the metrics of each probe; it ends the run by raising `StopRun`.

    Returns:
        The record of the run, with the metrics of its last probe.
    """
    run = RunFolder(folder)
    try:
        if not run.is_finished(config.run.epochs):
            config = _stored_config(config, run)
            pretrain(config, folder, resume=run.config.exists(), on_probe=on_probe)
    except StopRun as stop:
        return _record(stop.status, stop.reason, config, folder)
    except NonFiniteError as error:
        return _record("diverged", str(error).split(":")[0], config, folder)
    except (UnfitError, ValueError, RuntimeError, MemoryError) as error:
        return _record("failed", error_line(error), config, folder)
    record = _record("complete", "", config, folder)
    if (spread := record.metrics.get("spread", 1.0)) < COLLAPSED:
        return replace(record, status="collapsed", reason=collapse_reason(spread))
    return record


def error_line(error: Exception) -> str:
    """Return an error in one line.

    >>> error_line(RuntimeError("CUDA out of memory.\\nTried to allocate 2 GiB."))
    'RuntimeError: CUDA out of memory.'
    """
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def collapse_reason(spread: float) -> str:
    """Return the reason of a run that has collapsed."""
    return f"the features have collapsed: their spread is {spread:.3f}, below {COLLAPSED}"


def read_probes(folder: Path) -> list[MetricsRow]:
    """Return the metrics of all probes of a run so far, one row a probe."""
    if not RunFolder(folder).metrics.is_file():
        return []
    return [row for row in read_metrics(folder) if row["kind"] == "probe"]


def _record(status: Status, reason: str, config: Config, folder: Path) -> Record:
    rows = read_probes(folder)
    last = rows[-1] if rows else {}
    return Record(
        name=folder.name,
        status=status,
        reason=reason,
        seed=config.run.seed,
        metrics={n: v for n, v in last.items() if n not in ("kind", "step", "epoch")},
        epoch=last.get("epoch"),
        path=folder,
    )


def _stored_config(config: Config, run: RunFolder) -> Config:
    """Return the settings to resume with; raise an error if the folder holds another run.

    A run that has started keeps the settings that were fitted to its images.
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
