"""The run folder: configuration, metrics, checkpoints and backbone of one run of pre-training."""

import logging
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from amcl.checkpoints.training_folder import Resumed, TrainingFolder, read_metrics
from amcl.config import Config
from amcl.config.fields import without_effect
from amcl.errors import RunError
from amcl.files import is_free, write_text
from amcl.pretrained.index import no_run
from amcl.tensor_files import read_safetensors
from amcl.text_files import require

__all__ = ["Resumed", "RunFolder", "read_metrics"]

logger = logging.getLogger("amcl")


class RunFolder(TrainingFolder):
    """The files of one run. Only the first process writes.

    They are those of every training, with the settings that a start changed in
    `environment.jsonl`, and `config.toml` and, at the end, `backbone.safetensors`. The first stage
    of LGP is a run in the folder `mae`.

    Args:
        path: The folder.
        part_of: The folder of the run whose first stage this is.

    Example:
        >>> RunFolder(Path("runs/first")).checkpoint.as_posix()
        'runs/first/checkpoints/last.pt'
    """

    def __init__(self, path: Path, part_of: Path | None = None) -> None:
        super().__init__(path)
        self.resumed_by = shlex.quote(str(part_of or path))

    @property
    def config(self) -> Path:
        """File of the configuration."""
        return self.path / "config.toml"

    @property
    def backbone(self) -> Path:
        """File of the trained backbone, written at the end."""
        return self.path / "backbone.safetensors"

    @property
    def first_stage(self) -> "RunFolder":
        """Folder of the first stage, for methods that have one."""
        return RunFolder(self.path / "mae", part_of=self.path)

    def check_free(self) -> None:
        """Raise an error if the folder holds anything: a run is never overwritten."""
        if self.config.exists():
            raise RunError(
                f"{self.path} holds a run already. Resume it: amcl pretrain --resume "
                f"{shlex.quote(str(self.path))}; or choose another folder: --out."
            )
        if not is_free(self.path):
            raise RunError(f"{self.path} is not an empty folder: choose another with --out.")

    def read_config(self) -> Config:
        """Return the configuration of the run."""
        if not self.path.exists():
            raise RunError(f"the run folder {self.path} does not exist.{no_run(self.path)}")
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
        """Return whether the trained backbone is here, whole, and is that of these epochs.

        Without a checkpoint it may be of more: there is nothing that could be resumed. A damaged
        one is written again from a checkpoint, if there is one, and else an error.
        """
        if not self.backbone.is_file():
            return False
        newest = self.newest_checkpoint()
        try:
            _, metadata = read_safetensors(self.backbone)
            require(metadata, _Trained, f"the metadata of {self.backbone}")
        except ValueError as error:
            if newest is None:
                raise RunError(str(error)) from None
            logger.warning("%s It is written again, from %s", error, newest)
            return False
        trained = (metadata or {})["epoch"]
        return bool(trained >= epochs if newest is None else trained == epochs)

    def read_trained(self) -> dict[str, Any]:
        """Return what a checkpoint, or else the trained backbone, says of the images of the run."""
        trained = super().read_trained()
        if trained or not self.backbone.is_file():
            return trained
        try:
            return read_safetensors(self.backbone)[1] or {}
        except ValueError:  # said where the run is resumed or loaded
            return {}

    def has_result(self) -> bool:
        """Return whether the trained backbone is there."""
        return self.backbone.exists()

    def start_again(self) -> str:
        """Return the command of a new run with the same settings."""
        command = f"amcl pretrain --config {shlex.quote(str(self.config))}"
        if self.backbone.exists():
            command += f" --init {shlex.quote(str(self.path))}"
        return f"start a new run with the same settings: {command}"

    def store_changes(self, stored: Config, config: Config) -> dict[str, Any]:
        """Write the settings that a resumed run has changed; return an entry on them."""
        changed = {
            name: value
            for name in ("epochs", *without_effect("run"))
            if (value := getattr(config.run, name)) != getattr(stored.run, name)
        }
        if not changed:
            return {}
        updated = replace(stored, run=replace(stored.run, **changed))
        write_text(self.config, updated.to_toml())
        before = {name: getattr(stored.run, name) for name in changed}
        return {"changed": {name: [before[name], value] for name, value in changed.items()}}


class _Trained(TypedDict):
    """Metadata of a trained backbone, so far as they are about its training."""

    epoch: float
