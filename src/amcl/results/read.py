"""Run folders as records."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from amcl.checkpoints.evaluations import Result, read_results
from amcl.config.fields import effect_of
from amcl.files import expand_home
from amcl.pretrained.index import no_run
from amcl.results.record import Record
from amcl.text_files import read_toml, require

# The settings that every table of runs needs; others may be those of a package that is not here.
_Settings = TypedDict("_Settings", {"run.seed": int, "run.epochs": NotRequired[int]})


def run_folders(paths: Sequence[str | Path], command: str) -> list[Path]:
    """Return the run folders of a command line.

    Args:
        paths: Folders of runs; none may appear twice, under whatever name.
        command: The command as the user types it, for the error without folders.

    Example:
        >>> run_folders(["runs/a", "runs/b"], "amcl compare")
        [PosixPath('runs/a'), PosixPath('runs/b')]
    """
    if not paths:
        raise ValueError(f"name the run folders: {command} RUN RUN …")
    folders: dict[Path, Path] = {}
    for path in (expand_home(path) for path in paths):
        first = folders.setdefault(path.resolve(), path)
        if first is not path:
            raise ValueError(f"{path} is given twice (as {first}): leave one out.")
    return list(folders.values())


def run_names(folders: Sequence[Path]) -> list[str]:
    """Return the last part of each path, or as many parts as distinguish the folders.

    Example:
        >>> run_names([Path("/a/first"), Path("/a/second")])
        ['first', 'second']
        >>> run_names([Path("/a/x/0"), Path("/a/y/0")])
        ['x/0', 'y/0']
    """
    resolved = [folder.resolve() for folder in folders]
    for count in range(1, max(len(folder.parts) for folder in resolved) + 1):
        names = [os.sep.join(folder.parts[-count:]) for folder in resolved]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in resolved]


def read_run(path: Path) -> Record:
    """Return the record of a run folder, with the metrics of evaluations of its newest weights.

    A folder of results alone, of a model that is no run, is a record too: its one setting is the
    model, its seed that of the evaluation.

    Args:
        path: The folder.

    Returns:
        The record; `settings` are those that change what is learned, without the seed.

    Example:
        >>> import tempfile
        >>> from amcl.config import Config
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "config.toml").write_text(Config().to_toml())
        >>> read_run(folder).seed
        0
    """
    results = read_results(path)
    if results and not (path / "config.toml").exists():
        settings: dict[str, Any] = {
            "run.seed": results[-1].seed,
            "model.name": results[-1].model.get("name", ""),
        }
    else:
        settings = _read_config(path / "config.toml")
    learned = {
        name: value
        for name, value in settings.items()
        if name != "run.seed" and effect_of(*name.partition(".")[::2]) == "learning"
    }
    metrics = {
        f"{result.protocol}_{name}_{result.split}": value
        for result in newest(results)
        if not result.checkpoint
        for name, value in result.metrics.items()
    }
    return Record(
        name=path.resolve().name,
        seed=settings["run.seed"],
        settings=learned,
        metrics=metrics,
        path=path,
    )


def require_results(path: Path) -> list[Result]:
    """Return all results of a run folder; an error if it has none."""
    results = read_results(path)
    if not results:
        raise ValueError(
            f"{path} has no results yet: run `amcl evaluate {shlex.quote(str(path))}` first."
        )
    return results


def newest(results: Sequence[Result]) -> list[Result]:
    """Return the results of the newest weights of the model and of each checkpoint."""
    weights = {r.checkpoint: r.model.get("sha256") for r in results}  # they are sorted by time
    return [r for r in results if r.model.get("sha256") == weights[r.checkpoint]]


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return tables within tables as one, by names with dots.

    Example:
        >>> flat({"run": {"seed": 0}, "a": 1})
        {'run.seed': 0, 'a': 1}
    """
    flattened: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flattened |= flat(value, f"{prefix}{name}.")
        else:
            flattened[prefix + name] = value
    return flattened


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        hint = no_run(path.parent)
        raise ValueError(f"{path.parent} is no run folder: it has no config.toml.{hint}")
    try:
        settings = flat(read_toml(path))
    except ValueError as error:
        raise ValueError(f"{error} Put back what the run wrote.") from None
    require(settings, _Settings, path)
    return settings
