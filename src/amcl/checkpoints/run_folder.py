"""The run folder: configuration, environment, metrics, checkpoints and log of one run."""

import fcntl
import json
import logging
import shlex
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError, safe_open

from amcl.config import Config
from amcl.config.fields import without_effect
from amcl.environment import environment
from amcl.errors import RunError
from amcl.files import is_free, write_text

logger = logging.getLogger("amcl")


class RunFolder:
    """One run's files. Only the first process writes.

    `config.toml`, `environment.jsonl` (a line for each start, with the
    settings that it changed), `metrics.jsonl`, `log.txt`,
    `checkpoints/last.pt`, and at the end `backbone.safetensors`. LGP's first stage is a run of its
    own in `mae`.
    """

    def __init__(self, path: Path, part_of: Path | None = None) -> None:
        """`part_of`: the folder of the run whose first stage this is."""
        self.path = path
        self.resumed_by = shlex.quote(str(part_of or path))
        self._lock: IO[str] | None = None
        self._metrics: IO[str] | None = None
        self._handler: logging.Handler | None = None
        self._level = logging.NOTSET

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoints" / "last.pt"

    @property
    def backbone(self) -> Path:
        return self.path / "backbone.safetensors"

    @property
    def first_stage(self) -> "RunFolder":
        """The run that this one starts from, where it makes one itself."""
        return RunFolder(self.path / "mae", part_of=self.path)

    def check_free(self) -> None:
        """Raise an error if the folder holds anything: a run is never written over."""
        if self.config.exists():
            raise RunError(
                f"{self.path} holds a run already. Resume it: amcl pretrain --resume "
                f"{shlex.quote(str(self.path))}; or choose another folder: --out."
            )
        if not is_free(self.path):
            raise RunError(f"{self.path} is not an empty folder: choose another with --out.")

    def read_config(self) -> Config:
        """The configuration the run was started with."""
        if not self.path.exists():
            raise RunError(f"the run folder {self.path} does not exist.")
        if not self.config.is_file():
            raise RunError(f"{self.path} is no run folder: it has no {self.config.name}.")
        return Config.from_file(self.config)

    def create(self, config: Config) -> None:
        """Make the folder of a new run."""
        self.check_free()
        try:
            write_text(self.config, config.to_toml())  # a run that is killed now can be resumed
        except OSError as error:
            raise RunError(f"could not make the run folder {self.path}: {error}.") from error

    def is_finished(self, epochs: int) -> bool:
        """Return whether the trained backbone is here, and is that of at least these epochs."""
        if not self.backbone.is_file():
            return False
        try:
            with safe_open(self.backbone, "pt") as file:
                trained = json.loads((file.metadata() or {})["amcl"])
            return bool(trained["epoch"] >= epochs)
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise RunError(f"{self.backbone} is damaged: {error}.") from error

    def find_checkpoint(self) -> Path | None:
        """The checkpoint that the run resumes from: the last, or else the newest that was kept.

        None where the run was stopped before it wrote one; an error where it has lost them.
        """
        if self.checkpoint.is_file():
            return self.checkpoint
        kept = [p for p in self.checkpoint.parent.glob("epoch-*.pt") if p.stem[6:].isdigit()]
        if kept:
            return max(kept, key=lambda path: int(path.stem[6:]))
        trained = self.metrics.is_file() and self.metrics.stat().st_size > 0
        if trained or self.backbone.exists():
            new = f"amcl pretrain --config {shlex.quote(str(self.config))}"
            hint = f" --init {shlex.quote(str(self.path))}" if self.backbone.exists() else ""
            raise RunError(
                f"the checkpoints of {self.path} are gone, so the run cannot be resumed. Put "
                f"{self.checkpoint} back, or start a new run with the same settings: {new}{hint}"
            )
        return None

    def tell_source(self, checkpoint: Path | None) -> None:
        """Say what a run is resumed from, where that is not its last checkpoint."""
        if checkpoint is None:
            logger.info("the run has no checkpoint yet: it starts from step 0")
        elif checkpoint != self.checkpoint:
            logger.warning(
                "%s is missing: the run is resumed from %s, the newest checkpoint that was kept",
                *(self.checkpoint, checkpoint.name),
            )

    def open(self, step: int, stored: Config | None = None, config: Config | None = None) -> None:
        """Take the folder for this process and forget metrics after `step`: they come again.

        `stored`, `config`: the settings of the run so far and from now on. Those that a resumed
        run may change are kept in the folder.
        """
        self.checkpoint.parent.mkdir(exist_ok=True)
        self._lock = (self.path / ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise RunError(f"another process is training in {self.path} now.") from error
        self._forget_after(step)
        self._metrics = self.metrics.open("a", encoding="utf-8")
        self._handler = logging.FileHandler(self.log, encoding="utf-8")
        self._handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(self._handler)
        self._level = logger.level
        logger.setLevel(logging.DEBUG)  # the file keeps everything, whatever a terminal shows
        start: dict[str, Any] = {"step": step}
        if stored is not None and config is not None:
            start |= self._change(stored, config)
        with (self.path / "environment.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({**start, **environment()}) + "\n")

    def _change(self, stored: Config, config: Config) -> dict[str, Any]:
        """Keep the settings that a resumed run has changed; what to note of that."""
        changed = {
            name: value
            for name in ("epochs", *without_effect("run"))
            if (value := getattr(config.run, name)) != getattr(stored.run, name)
        }
        if not changed:
            return {}
        kept = replace(stored, run=replace(stored.run, **changed))
        write_text(self.config, kept.to_toml())
        before = {name: getattr(stored.run, name) for name in changed}
        return {"changed": {name: [before[name], value] for name, value in changed.items()}}

    def write(self, row: dict[str, Any]) -> None:
        """Append a line of metrics."""
        if self._metrics is not None:
            self._metrics.write(json.dumps(row) + "\n")
            self._metrics.flush()

    def close(self) -> None:
        """Let go of the folder."""
        if self._handler is not None:
            logger.setLevel(self._level)
            logger.removeHandler(self._handler)
            self._handler.close()
        for file in (self._metrics, self._lock):
            if file is not None:
                file.close()

    def _forget_after(self, step: int) -> None:
        if not self.metrics.exists():
            return
        kept = []
        for line in self.metrics.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                break  # the run was killed while it wrote this line
            if row["step"] > step:
                break
            kept.append(line + "\n")
        write_text(self.metrics, "".join(kept))


def read_metrics(run: str | Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics."""
    path = RunFolder(Path(run)).metrics
    if not path.is_file():
        raise RunError(f"there are no metrics in {run}: it is no run folder.")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    # A run that was killed may have left half a line.
    return [json.loads(line) for line in lines if line.endswith("\n")]
