"""Metrics for other tools: TensorBoard and Weights & Biases, each when asked for."""

from pathlib import Path
from typing import Any, Protocol

from amcl.config import Config
from amcl.errors import RunError
from amcl.extras import missing, needed


class Tracker(Protocol):
    """Where a row of metrics goes besides the run folder."""

    def write(self, row: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in the run folder's `tensorboard`."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        make: Any = SummaryWriter
        self._writer = make(str(folder / "tensorboard"))

    def write(self, row: dict[str, Any]) -> None:
        for name, value in row.items():
            if isinstance(value, int | float) and name not in ("step", "epoch"):
                self._writer.add_scalar(f"{row['kind']}/{name}", value, row["step"])

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A run of a Weights & Biases project."""

    def __init__(self, project: str, folder: Path, config: Config) -> None:
        import wandb

        settings = {"toml": config.to_toml()}
        self._run: Any = wandb.init(
            project=project, name=folder.name, dir=str(folder), config=settings
        )

    def write(self, row: dict[str, Any]) -> None:
        numbers = {f"{row['kind']}/{name}": value for name, value in row.items() if name != "kind"}
        self._run.log(numbers, step=row["step"])

    def close(self) -> None:
        self._run.finish()


def require_trackers(config: Config) -> None:
    """Raise an error if a package is missing that a configuration asks for."""
    asked = {"tensorboard": config.run.tensorboard, "wandb": bool(config.run.wandb)}
    for package, is_asked in asked.items():
        if is_asked and missing(package):
            raise RunError(needed(f"--{package}", package, package))


def make_trackers(config: Config, folder: Path) -> list[Tracker]:
    """The trackers a configuration asks for."""
    trackers: list[Tracker] = []
    if config.run.tensorboard:
        trackers.append(TensorBoard(folder))
    if config.run.wandb:
        trackers.append(WeightsAndBiases(config.run.wandb, folder, config))
    return trackers
