"""Metrics for other tools: TensorBoard, Weights & Biases and MLflow, each when asked for."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from amcl.config import Config
from amcl.config.options import values_of
from amcl.errors import RunError
from amcl.extras import missing, needed

_LONGEST = 500  # characters of a parameter in MLflow
_BATCH = 100  # parameters that MLflow takes at a time; of metrics it takes more


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


class MLflow:
    """A run of an MLflow experiment, where MLFLOW_TRACKING_URI or MLflow's own default says."""

    def __init__(self, experiment: str, folder: Path, config: Config) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self._metric: Any = Metric
        self._client: Any = MlflowClient()
        known = self._client.get_experiment_by_name(experiment)
        number = known.experiment_id if known else self._client.create_experiment(experiment)
        self._run: str = self._client.create_run(number, run_name=folder.name).info.run_id
        settings = {"method": config.method.name, **values_of(config)}
        values = {name: str(value)[:_LONGEST] for name, value in settings.items()}
        params = [Param(name, value) for name, value in values.items()]
        for start in range(0, len(params), _BATCH):
            self._client.log_batch(self._run, params=params[start : start + _BATCH])

    def write(self, row: dict[str, Any]) -> None:
        now = int(time.time() * 1000)
        metrics = [
            self._metric(f"{row['kind']}/{name}", float(value), now, row["step"])
            for name, value in row.items()
            if isinstance(value, int | float) and name not in ("step", "epoch")
        ]
        for start in range(0, len(metrics), _BATCH):
            self._client.log_batch(self._run, metrics=metrics[start : start + _BATCH])

    def close(self) -> None:
        self._client.set_terminated(self._run)


def require_trackers(config: Config) -> None:
    """Raise an error if a package is missing that a configuration asks for."""
    used = {
        "tensorboard": config.run.tensorboard,
        "wandb": bool(config.run.wandb),
        "mlflow": bool(config.run.mlflow),
    }
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
        if first and config.run.mlflow:
            trackers.append(stack.enter_context(closing(MLflow(config.run.mlflow, folder, config))))
        yield trackers
