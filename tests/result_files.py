"""Runs with results on disk, for comparisons."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from amcl.checkpoints.evaluations import Result
from amcl.config import Config
from amcl.methods import SimCLRSettings
from amcl.results import Comparison
from amcl.temperature import ConstantSettings
from factories import change

AMCL = {"method": {"heads": 3, "temperature": "adaptive"}}


def make(path: Path, seed: int = 0, **sections: dict[str, Any]) -> Path:
    """A run folder without results; `sections` change fields of its configuration."""
    config = Config(method=SimCLRSettings(temperature=ConstantSettings(tau=0.5)))
    sections.setdefault("run", {})["seed"] = seed
    for name, fields in sections.items():
        if name == "method":
            config = replace(config, method=change(config.method, **fields))
        else:
            config = replace(config, **{name: replace(getattr(config, name), **fields)})
    path.mkdir(parents=True)
    (path / "config.toml").write_text(config.to_toml(), encoding="utf-8")
    return path


def put(run: Path, metrics: float | dict[str, float], **fields: Any) -> Path:
    """A result in a run folder, of knn unless told otherwise."""
    name, weights = fields.pop("name", str(run)), fields.pop("weights", run.name)
    values: dict[str, Any] = {
        "protocol": "knn",
        "data": "cifar10",
        "split": "test",
        "metrics": metrics if isinstance(metrics, dict) else {"top1": metrics},
        "model": {"name": name, "sha256": weights},
        "settings": {"k": 200, "transform": {"crop": None}},
        "seed": 0,
        "images": {"train": 100, "test": 10, "sha256": "a" * 64},
        "environment": {},
        "time": "2026-01-01T00:00:00+00:00",
    }
    return Result(**values | fields).write(run)


def made(path: Path, value: float, seed: int = 0, **sections: dict[str, Any]) -> Path:
    run = make(path, seed, **sections)
    put(run, value)
    return run


def two_groups(tmp_path: Path, base: dict[int, float], other: dict[int, float]) -> list[Path]:
    runs = [made(tmp_path / f"base-{seed}", value, seed) for seed, value in base.items()]
    return runs + [made(tmp_path / f"amcl-{s}", v, s, **AMCL) for s, v in other.items()]


def shown(found: Comparison, width: int = 200) -> str:
    console = Console(width=width, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(found.table().to_terminal(width, repeat=2))
    return capture.get()


def notes(found: Comparison) -> str:
    return "\n".join(found.notes)
