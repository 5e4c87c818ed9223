"""Studies whose runs take no time: what a run would find follows from its settings."""

import json
import math
from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from amcl import recipes
from amcl.checkpoints import RunFolder
from amcl.checkpoints.files import save_tensors
from amcl.config import Config
from amcl.errors import NonFiniteError
from amcl.search.folder import SearchFolder
from amcl.search.study import search
from amcl.search.trials import SearchRuns
from amcl.sweep.engine import RUN

BETA = ["beta=1e-5:10:log"]


def base(**run) -> Config:
    """SimCLR + AMCL on the built-in set, four epochs with a probe after each."""
    config = recipes.recipe("builtin-simclr-amcl")
    return replace(config, run=replace(config.run, **{"epochs": 4, "probe_every": 1, **run}))


class Runs:
    """Stands in for `pretrain`: writes what a run leaves, and counts.

    kNN rises towards a value that is best at β = 0.1; `events` of a run (by its place) may be an
    error to raise, or "collapse".
    """

    def __init__(self, events=None):
        self.events, self.begun = events or {}, []

    def __call__(self, config, out, *, resume=False, on_probe=None) -> Path:
        folder = RunFolder(Path(out))
        place = len(self.begun)
        self.begun.append((Path(out).name, resume))
        if not resume:
            folder.create(config)
        event = self.events.get(place)
        if isinstance(event, BaseException):
            raise event
        for epoch in range(1, config.run.epochs + 1):
            row = {"kind": "probe", "step": epoch, "epoch": epoch}
            row["knn_validation"] = self.accuracy(config) * epoch / config.run.epochs
            row |= {"spread": 0.01 if event == "collapse" else 0.8, "effective_rank": 10.0}
            with folder.metrics.open("a") as file:
                file.write(json.dumps(row) + "\n")
            if on_probe is not None:
                on_probe(row)
        folder.checkpoint.parent.mkdir(exist_ok=True)
        folder.checkpoint.write_bytes(b"state")
        save_tensors(folder.backbone, {}, {"epoch": config.run.epochs})
        return folder.backbone

    @staticmethod
    def accuracy(config) -> float:
        return 1 / (1 + abs(math.log10(config.method.temperature.beta) + 1))


def diverged() -> NonFiniteError:
    return NonFiniteError("the loss is not finite after step 3: training diverged and was stopped.")


def find(out, trials=6, said=None, **asked):
    asked = {"space": BETA, "pruner": "off", **asked}
    tell = said.append if said is not None else lambda line: None
    return search(asked.pop("config", base()), out, trials=trials, tell=tell, **asked)


def open_study_of(path: Path) -> optuna.Study:
    folder = SearchFolder(path)
    return SearchRuns(names=(), folder=folder, definition=folder.read_definition()).open()


def begun(study: optuna.Study, number: int) -> optuna.Trial:
    """A trial that another process is at."""
    study.enqueue_trial({}, user_attrs={RUN: f"{number:04d}"})
    with pytest.warns(UserWarning, match="Heartbeat"):
        return study.ask()


def numbers(records) -> list[int]:
    return [int(record.name) for record in records]


def value(record) -> float | None:
    """The objective of a complete trial that is judged by kNN."""
    return record.metrics["knn_validation"] if record.status == "complete" else None


def probes(record) -> dict[int, float]:
    """What was measured of a trial, by epoch."""
    rows = [json.loads(row) for row in (record.path / "metrics.jsonl").read_text().splitlines()]
    return {row["epoch"]: row["knn_validation"] for row in rows if row["kind"] == "probe"}
