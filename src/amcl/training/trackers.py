"""Metrics for other tools: TensorBoard and Weights & Biases, each when asked for."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from amcl.config import Config
from amcl.errors import RunError
from amcl.extras import missing, needed


class Writer(Protocol):
    """Takes rows of metrics: the run folder, or a tracker."""

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
    used = {"tensorboard": config.run.tensorboard, "wandb": bool(config.run.wandb)}
    for package, is_used in used.items():
        if is_used and missing(package):
            raise RunError(needed(f"--{package}", package, package))


@contextmanager
def open_trackers(config: Config, folder: Path, first: bool) -> Iterator[list[Writer]]:
    """Open the trackers that a configuration asks for, and close them whatever happens.

    Only the first process has any.
    """
    trackers: list[Writer] = []
    with ExitStack() as stack:
        if first and config.run.tensorboard:
            trackers.append(stack.enter_context(closing(TensorBoard(folder))))
        if first and config.run.wandb:
            tracker = WeightsAndBiases(config.run.wandb, folder, config)
            trackers.append(stack.enter_context(closing(tracker)))
        yield trackers
