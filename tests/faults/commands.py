"""Commands that are attacked: how each begins, how a user runs it again, and its result."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from amcl.checkpoints import read_metrics
from amcl.cli import main
from amcl.config import Config
from amcl.data.shapes import shapes
from factories import small_config
from tiny_runs import TIMES, tiny_vit

FINETUNE = ["--finetune.epochs", "2", "--finetune.warmup-epochs", "0", "--finetune.min-steps", "0"]
CPU = ["--threads", "1", "--accelerator", "cpu"]
DETECTOR = [
    *("resnet10t", "--width", "0.125", "--stem", "standard", "--scratch", "--epochs", "2"),
    *("--batch-size", "4", "--image-size", "64", "--channels", "16", "--samples", "8"),
    *("--evaluate-every", "1", "--workers", "0"),
]
"""Model and settings of a detector that trains in a second, on eight pictures."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command that writes to the folder ``out`` of a working folder."""

    start: Callable[[Path], list[str]]
    """Words of the command line."""
    again: Callable[[Path], list[str]] | None = None
    """Words after a fault, if they are others."""
    result: Callable[[Path], Any]
    """What is compared with an undisturbed command."""
    at_least: int
    """File operations that it has, so that a test fails if they are no longer seen."""
    needs_run: bool = False
    """True if it takes the trained run ``out``."""

    def __call__(self, folder: Path, *, again: bool = False) -> int:
        """Run it in this process."""
        words = self.again if again and self.again is not None else self.start
        return main(words(folder))


def make_pictures(folder: Path) -> Path:
    """Sixteen pictures in two classes, of noise on two colors."""
    generator = torch.Generator().manual_seed(0)
    for i in range(16):
        noise = torch.randint(128, (16, 16, 3), dtype=torch.uint8, generator=generator)
        noise[..., i % 2] += 100
        path = folder / "pictures" / "ab"[i % 2] / f"{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise.numpy()).save(path)
    return folder / "pictures"


def make_shapes(folder: Path) -> Path:
    """Eight pictures of shapes to train a detector on, and three to test it on."""
    return shapes(folder / "shapes", train=8, test=3)


def make_configs(folder: Path) -> None:
    """Files of settings: three epochs of two steps, and two stages of a vision transformer."""
    data = str(folder / "pictures")
    options: dict[str, Any] = {
        "data": data,
        "image_size": 16,
        "workers": 0,
        "threads": 1,
        "epochs": 3,
        "batch_size": 8,
        "save_minutes": 0.0,
        "keep_every": 2,
        "probe_every": 1,
        "knn_k": 3,
        "log_every": 1,
        "validation": 4,
    }
    one = small_config("builtin-simclr-amcl", projector=(16, 8), **options)
    two = tiny_vit("lgp", folder / "pictures", save_minutes=0.0, knn_k=3)
    for name, config in (("one", one), ("two", two)):
        _write(folder / f"{name}.toml", config)


def _write(path: Path, config: Config) -> None:
    path.write_text(config.to_toml(), encoding="utf-8")


def _pretrain(config: str) -> Callable[[Path], list[str]]:
    return lambda f: ["pretrain", "--config", str(f / config), "--out", str(f / "out")]


def _resume(config: str) -> Callable[[Path], list[str]]:
    def words(folder: Path) -> list[str]:
        if (folder / "out/config.toml").exists():
            return ["pretrain", "--resume", str(folder / "out")]
        return _pretrain(config)(folder)

    return words


def _trained(run: Path) -> Any:
    """Backbone, metrics and the names of all checkpoints of a run."""
    rows = [
        {key: value for key, value in row.items() if key not in TIMES} for row in read_metrics(run)
    ]
    names = sorted(path.name for path in (run / "checkpoints").iterdir())
    return (run / "backbone.safetensors").read_bytes(), rows, names


def _stages(folder: Path) -> Any:
    return _trained(folder / "out"), _trained(folder / "out/mae")


def _many(folder: Path) -> Any:
    """The table of runs, without the time they took, and the backbones."""
    out = folder / "out"
    (table,) = [path for name in ("runs.csv", "trials.csv") if (path := out / name).exists()]
    lines = table.read_text().splitlines()
    backbones = {p.parent.name: p.read_bytes() for p in out.glob("*/*/backbone.safetensors")}
    return lines[0], len(lines), backbones


def _evaluated(folder: Path) -> Any:
    files = sorted((folder / "out/evaluation").glob("*.json"))
    results = [json.loads(path.read_text()) for path in files]
    classifiers = [p.read_bytes() for p in (folder / "out").rglob("*classifier*.safetensors")]
    return [(r["protocol"], r["metrics"]) for r in results], classifiers


def _detected(folder: Path) -> Any:
    """The result, and all files of the detector but those that have times in them."""
    (path,) = (folder / "out/evaluation").glob("*.json")
    result = json.loads(path.read_text())
    detector = path.with_suffix("")
    rows = [
        {key: value for key, value in row.items() if key not in TIMES}
        for row in read_metrics(detector)
    ]
    dated = ("log.txt", "metrics.jsonl", "environment.jsonl")
    files = {
        str(file.relative_to(detector)): file.read_bytes()
        for file in detector.rglob("*")
        if file.is_file() and file.name not in dated
    }
    return {key: result[key] for key in ("metrics", "details", "settings")}, rows, files


def _files(where: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        path = folder / "out" / where
        files = [path] if path.is_file() else sorted(path.iterdir())
        return {file.name: file.read_bytes() for file in files if file.suffix != ".json"}

    return read


def _embed(folder: Path) -> list[str]:
    target = folder / "out/features.csv"
    if target.exists():  # it is never overwritten, and what is there must be whole
        return ["--version"]
    words = ["embed", str(folder / "out"), "--data", str(folder / "pictures")]
    return [*words, "--workers", "0", "--out", str(target), *CPU]


def _curate(folder: Path) -> list[str]:
    return [
        *("curate", str(folder / "out"), "--data", str(folder / "pictures"), "--workers", "0"),
        *("--out", str(folder / "out/curation"), "--against", str(folder / "shapes/train2017")),
        *("--pairs", "1", "--select", "3", "--link", str(folder / "out/links")),
        *("--export", "coco", "huggingface", *CPU),
    ]


def _curated(folder: Path) -> Any:
    """All files but the table in Parquet, and the links."""
    out = folder / "out/curation"
    files = {
        str(path.relative_to(out)): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and path.suffix != ".parquet"
    }
    links = {path.name: path.read_bytes() for path in (folder / "out/links").rglob("*.*")}
    return files, links


def _export(folder: Path) -> list[str]:
    return ["export", str(folder / "out"), "--overwrite", "--threads", "1"]


def _evaluate(*options: str) -> Callable[[Path], list[str]]:
    return lambda f: ["evaluate", str(f / "out"), "--workers", "0", *options, *CPU]


def _packed(folder: Path) -> Any:
    """All files but those that hold the times of other files."""
    out = folder / "out"
    files = [path for path in out.rglob("*") if path.is_file() and path.parent.name != ".amcl"]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


COMMANDS = {
    "pretrain": Command(
        start=_pretrain("one.toml"),
        again=_resume("one.toml"),
        result=lambda folder: _trained(folder / "out"),
        at_least=40,
    ),
    "pretrain, two stages": Command(
        start=_pretrain("two.toml"), again=_resume("two.toml"), result=_stages, at_least=60
    ),
    "sweep": Command(
        start=lambda f: [
            *("sweep", "--config", str(f / "one.toml"), "--out", str(f / "out")),
            *("--grid", "temperature=constant", "tau=0.1,0.5", "--epochs", "1"),
        ],
        result=_many,
        at_least=40,
    ),
    "search": Command(
        start=lambda f: [
            *("search", "--config", str(f / "one.toml"), "--out", str(f / "out")),
            *("--trials", "2", "--space", "lr=0.01:0.1:log", "--epochs", "1"),
        ],
        result=_many,
        at_least=40,
    ),
    "evaluate": Command(
        start=_evaluate("--protocols", "knn", "logistic"),
        result=_evaluated,
        at_least=10,
        needs_run=True,
    ),
    "fine-tune": Command(
        start=_evaluate("--protocols", "finetune", *FINETUNE),
        result=_evaluated,
        at_least=10,
        needs_run=True,
    ),
    "detect": Command(
        start=lambda f: [
            *("detect", *DETECTOR, "--data", str(f / "shapes"), "--out", str(f / "out"), *CPU),
        ],
        result=_detected,
        at_least=50,
    ),
    "export": Command(start=_export, result=_files("export"), at_least=8, needs_run=True),
    "pack": Command(
        start=lambda f: [
            *("data", "pack", str(f / "pictures"), "--out", str(f / "out")),
            *("--shard-size", "6", "--workers", "1"),
        ],
        result=_packed,
        at_least=20,
    ),
    "curate": Command(start=_curate, result=_curated, at_least=40, needs_run=True),
    "embed": Command(start=_embed, result=_files("features.csv"), at_least=5, needs_run=True),
}


def copy(source: Path, target: Path) -> Path:
    """Return a new working folder in place of another, whose paths stay valid."""
    shutil.rmtree(target, ignore_errors=True)
    return shutil.copytree(source, target)
