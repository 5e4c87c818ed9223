"""The folder of a training: metrics, environment, log and checkpoints."""

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypedDict

from amcl.checkpoints.files import load_checkpoint, read_safely
from amcl.environment import environment
from amcl.errors import RunError
from amcl.files import drop_half_line, open_own, remove_unfinished, write_text
from amcl.locks import try_lock
from amcl.printable import PrintableFormatter
from amcl.text_files import read_json_lines, require

if TYPE_CHECKING:
    from filelock import BaseFileLock

logger = logging.getLogger("amcl")


class TrainingFolder:
    """The files that every training writes. Only the first process writes.

    They are `environment.jsonl` (a line for each start), `metrics.jsonl`, `log.txt` and
    `checkpoints/last.pt`.

    Args:
        path: The folder.

    Example:
        >>> TrainingFolder(Path("runs/first")).checkpoint.as_posix()
        'runs/first/checkpoints/last.pt'
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: BaseFileLock | None = None
        self._metrics: IO[str] | None = None
        self._log: IO[str] | None = None
        self._handler: logging.Handler | None = None
        self._level = logging.NOTSET

    @property
    def metrics(self) -> Path:
        """File of the metrics, a line of JSON for each row."""
        return self.path / "metrics.jsonl"

    @property
    def environment(self) -> Path:
        """File of versions and hardware, a line of JSON for each start."""
        return self.path / "environment.jsonl"

    @property
    def log(self) -> Path:
        """File of the log."""
        return self.path / "log.txt"

    @property
    def checkpoint(self) -> Path:
        """File of the last checkpoint."""
        return self.path / "checkpoints" / "last.pt"

    def checkpoints(self) -> list[Path]:
        """Return all checkpoints, the newest first: the last ones, then those that are kept."""
        folder = self.checkpoint.parent
        last = {_number(path.stem, "last-"): path for path in folder.glob("last-*.pt")}
        kept = {-_number(path.stem, "epoch-"): path for path in folder.glob("epoch-*.pt")}
        newest = [self.checkpoint] if self.checkpoint.is_file() else []
        older = [paths[key] for paths in (last, kept) for key in sorted(paths)]
        return newest + [path for path in older if _number(path.stem, "last-", "epoch-") >= 0]

    def newest_checkpoint(self) -> Path | None:
        """Return the newest checkpoint; None without any."""
        return next(iter(self.checkpoints()), None)

    def load_checkpoint(self) -> "Resumed | None":
        """Read the newest checkpoint that is whole.

        Returns:
            The checkpoint; None where the run was stopped before it wrote one.

        Raises:
            RunError: All checkpoints are lost or damaged.
        """
        damaged: list[str] = []
        for path in self.checkpoints():
            try:
                return Resumed(path, load_checkpoint(path), tuple(damaged))
            except RunError as error:
                damaged.append(str(error))
        trained = self.metrics.is_file() and self.metrics.stat().st_size > 0
        if not damaged and not trained and not self.has_result():
            return None
        reason = " ".join(damaged) or f"the checkpoints of {self.path} are gone."
        raise RunError(
            f"{reason} The run cannot be resumed. Put {self.checkpoint} back, or "
            f"{self.start_again()}"
        )

    def read_trained(self) -> dict[str, Any]:
        """Return what the newest checkpoint says of its images; nothing if there is none.

        Damaged checkpoints are left to `load_checkpoint`, which says what is wrong.
        """
        for path in self.checkpoints():
            try:
                state = read_safely(path, mmap=True)
            except RunError:
                continue
            trained = state.get("trained") if isinstance(state, dict) else None
            if isinstance(trained, dict):
                return trained
        return {}

    def has_result(self) -> bool:
        """Return whether what the training leaves at its end is there."""
        return False

    def start_again(self) -> str:
        """Return what to do if the training cannot be resumed."""
        return f"remove {self.path} and start again with the same command."

    def log_source(self, resumed: "Resumed | None") -> None:
        """Log what a run is resumed from, where that is not its last checkpoint."""
        if resumed is None:
            logger.info("the run has no checkpoint yet: it starts from step 0")
            return
        for message in resumed.damaged:
            logger.warning(message)
        if resumed.path != self.checkpoint:
            reason = "" if resumed.damaged else f"{self.checkpoint} is missing: "
            logger.warning(
                "%sthe run is resumed from %s, the newest checkpoint that is whole",
                *(reason, resumed.path.name),
            )

    def open(self, step: int, store_changes: Callable[[], dict[str, Any]] = dict) -> None:
        """Lock the folder for this process, and drop metrics after `step`, which come again.

        Args:
            step: Number of steps that are done.
            store_changes: Function that writes what a resumed training has changed, once the folder
                is locked, and returns an entry on it.
        """
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        self._lock = try_lock(self.path / ".lock")
        if self._lock is None:
            raise RunError(f"another process is training in {self.path} now.")
        for folder in (self.path, self.checkpoint.parent):
            remove_unfinished(folder)
        for path in (self.metrics, self.environment):
            if drop_half_line(path):
                logger.info("%s: dropped half a line, which a kill had left at the end", path)
        self._drop_metrics_after(step)
        self._metrics = open_own(self.metrics, "a")
        self._log = open_own(self.log, "a")
        self._handler = _LogFile(self._log)
        self._handler.setFormatter(PrintableFormatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(self._handler)
        self._level = logger.level
        logger.setLevel(logging.DEBUG)  # the file keeps everything, whatever a terminal shows
        start = {"step": step, **store_changes()}
        with open_own(self.environment, "a") as file:
            file.write(json.dumps({**start, **environment()}) + "\n")

    def write(self, row: dict[str, Any]) -> None:
        """Append a line of metrics."""
        if self._metrics is not None:
            self._metrics.write(json.dumps(row) + "\n")
            self._metrics.flush()

    def close(self) -> None:
        """Close all files and unlock the folder."""
        if self._handler is not None:
            logger.setLevel(self._level)
            logger.removeHandler(self._handler)
            self._handler.close()
        for file in (self._metrics, self._log):
            if file is not None:
                file.close()
        if self._lock is not None:
            self._lock.release()

    def _drop_metrics_after(self, step: int) -> None:
        if not self.metrics.exists():
            return
        rows = read_metrics(self.path)
        kept = [row for row in rows if row["step"] <= step]
        if len(kept) < len(rows):
            write_text(self.metrics, "".join(json.dumps(row) + "\n" for row in kept))


class _LogFile(logging.StreamHandler[IO[str]]):
    """Writes log messages to a file. Where that fails, as on a full disk, it says so once."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__(file)
        self.has_failed = False

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self.has_failed:
            self.has_failed = True
            logger.warning("%s cannot be written: %s", self.stream.name, error.strerror)


class Resumed(NamedTuple):
    """A checkpoint that a run resumes from."""

    path: Path
    state: dict[str, Any]
    damaged: tuple[str, ...]
    """Messages on newer checkpoints that are damaged."""


class _Row(TypedDict):
    kind: str
    step: int


class _EpochRow(TypedDict):
    epoch: int


class _LossRow(TypedDict):
    loss: float


def _number(stem: str, *prefixes: str) -> int:
    """Return the number at the end of a file's name; −1 if it has none."""
    digits = next((stem.removeprefix(p) for p in prefixes if stem.startswith(p)), "")
    return int(digits) if digits.isdigit() else -1


def read_metrics(run: str | Path) -> list[dict[str, Any]]:
    """Return the metrics of a run, a dictionary for each line.

    Args:
        run: The run folder.

    Returns:
        The rows of `metrics.jsonl`, in the order in which they were written.

    Raises:
        RunError: If the folder has no metrics.
        ValueError: If they are damaged, but for half a line that a kill has left at the end.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = TrainingFolder(Path(folder)).metrics
        ...     write_text(file, '{"kind": "epoch", "step": 9, "epoch": 1, "loss": 4.2}\\n')
        ...     rows = read_metrics(folder)
        >>> rows[-1]["loss"]
        4.2
    """
    path = TrainingFolder(Path(run)).metrics
    if not path.is_file():
        raise RunError(f"there are no metrics in {run}: it is no run folder.")
    rows = read_json_lines(path)
    for number, row in enumerate(rows, 1):
        where = f"line {number} of {path}"
        require(row, _Row, where)
        if row["kind"] in ("epoch", "probe"):
            require(row, _EpochRow, where)
        if row["kind"] in ("step", "epoch"):
            require(row, _LossRow, where)
        require({n: v for n, v in row.items() if n != "kind"}, dict[str, float], where)
    return rows
