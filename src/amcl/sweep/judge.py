"""The protocols of evaluation on a run that has ended."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from amcl.data import has_test_split
from amcl.evaluation import Protocol, Protocols
from amcl.models import open_model
from amcl.models.evaluate import JudgedOn, evaluation_of
from amcl.training import Config

Split = Literal["auto", "test", "validation"]
SPLITS: tuple[Split, ...] = Split.__args__  # type: ignore[attr-defined]


def splits_for(protocol: Protocol, split: Split) -> tuple[str, ...]:
    """The splits that a result may be of, the best first; images without labels are all "train"."""
    found: tuple[str, ...] = ("test", "validation") if split == "auto" else (split,)
    return (*found, "train") if protocol == "unlabeled" else found


def check_split(config: Config, split: Split) -> None:
    """An error, before anything is trained, where there is no such split to judge on."""
    if split == "test" and not has_test_split(config.data.data):
        raise ValueError(f"{config.data.data} has no labeled test split: use --split validation.")


def judge(
    config: Config,
    run: Path,
    protocols: Sequence[Protocol],
    split: Split,
    settings: Protocols | None = None,
) -> dict[str, dict[str, float]]:
    """What each protocol finds, as in {"linear test": {"top1": 0.5}}; kept in the run too."""
    if not protocols:
        return {}
    evaluation = evaluation_of(
        open_model(run),
        JudgedOn(split=split, data_root=config.data.data_root, workers=config.data.workers),
        settings=settings,
        accelerator=config.hardware.accelerator,
        seed=config.run.seed,
    )
    results = [evaluation.run(protocol) for protocol in protocols]
    return {f"{result.protocol} {result.split}": result.metrics for result in results}
