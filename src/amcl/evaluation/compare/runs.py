"""Run folders: their configurations, and the results that count."""

import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amcl.evaluation.compare.settings import flat
from amcl.evaluation.results import Result, read_results

_FREE = {  # of the settings of a run, those that change nothing that is learned
    *("data.workers", "data.memory", "data.data_root", "run.log_every", "run.save_every"),
    *("run.save_minutes", "run.keep_every", "run.probe_every", "run.knn_k", "run.tensorboard"),
    *("run.wandb", "run.seed"),
}


@dataclass(frozen=True)
class Run:
    """A run folder; `settings` are those that change what is learned."""

    path: Path
    seed: int
    settings: dict[str, Any]
    results: list[Result]
    notes: list[str]


def read_runs(paths: Sequence[str | Path]) -> list[Run]:
    """All runs, in the order given; no folder may appear twice, under whatever name."""
    if not paths:
        raise ValueError("name the run folders to compare: amcl compare RUN RUN …")
    seen: dict[Path, Path] = {}
    for path in map(Path, paths):
        if path.resolve() in seen:
            raise ValueError(f"{path} is given twice (as {seen[path.resolve()]}): leave one out.")
        seen[path.resolve()] = path
    return [_read_run(path) for path in seen.values()]


def _read_run(path: Path) -> Run:
    settings = _read_config(path / "config.toml")
    learned = {
        name: value
        for name, value in settings.items()
        if name not in _FREE and not name.startswith("hardware.")
    }
    results = read_results(path)
    if not results:
        raise ValueError(
            f"{path} has no results yet: run `amcl evaluate {shlex.quote(str(path))}` first."
        )
    return Run(path, settings["run.seed"], learned, *_newest(path, results))


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"{path.parent} is no run folder: it has no config.toml.")
    try:
        settings = flat(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:  # no TOML, or no UTF-8
        raise ValueError(f"{path} is damaged ({error}): put back what the run wrote.") from error
    if type(settings.get("run.seed")) is not int:
        raise ValueError(f"{path} has no whole number as seed in [run].")
    return settings


def _newest(path: Path, results: list[Result]) -> tuple[list[Result], list[str]]:
    """Results of the newest weights of the model and of each checkpoint; a note of the others."""
    newest = {r.checkpoint: r.model.get("sha256") for r in results}  # they are sorted by time
    kept = [r for r in results if r.model.get("sha256") == newest[r.checkpoint]]
    old = [r for r in results if r.model.get("sha256") != newest[r.checkpoint]]
    if not old:
        return kept, []
    weights = dict.fromkeys(str(r.model.get("sha256"))[:8] for r in old)
    left = f"{len(old)} {'result' if len(old) == 1 else 'results'}"
    return kept, [f"{path}: {left} of older weights left out ({', '.join(weights)})."]
