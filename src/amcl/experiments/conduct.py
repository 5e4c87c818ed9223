"""Runs carried out, and tables filled with what they came to."""

from collections.abc import Sequence
from dataclasses import replace

from amcl.data import has_test_split
from amcl.experiments.cases import Part
from amcl.experiments.pool import Pool
from amcl.experiments.tables import Filled
from amcl.sweep.judge import Split, metrics_of
from amcl.sweep.workers import Tell
from amcl.training import Config, Interrupted, RunError
from amcl.training.pretrain import load_data

_SPLITS = {"test": "test", "validation": "validation", "train": "training"}


def conduct(
    pool: Pool,
    parts: Sequence[Part],
    seeds: Sequence[int],
    *,
    jobs: int,
    again: bool,
    go_on: str,
    tell: Tell,
) -> tuple[list[Filled], str]:
    """Carry out what has not been; each part with its numbers, and which images judged.

    `go_on`: what goes on after a stop. What failed is left out of the tables and told; an error if
    nothing is left.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds must name one or more, each once, as in 0 1 2; got {[*seeds]}.")
    try:
        findings = pool.carry_out(parts, seeds, jobs=jobs, again=again, tell=tell)
    except Interrupted as stopped:
        raise Interrupted(
            f"stopped, everything is saved. Go on with: {go_on}", stopped.exit_code - 128
        ) from stopped
    filled = [Filled(p, tuple(pool.number(c, seeds, findings) for c in p.cases)) for p in parts]
    if all(number.mean is None for each in filled for number in each.numbers):
        raise RunError(
            f"there is not one number to show: {filled[0].bad()[0]}. --again takes up runs that "
            "failed."
        )
    asked = {case.metric.source for part in parts for case in part.cases}
    splits = [
        told
        for split, told in _SPLITS.items()
        if any(metrics_of(f.metrics, p, split) for f in findings.values() for p in asked)
    ]
    return filled, " and ".join(f"{split} images" for split in splits)


def check_labels(config: Config, parts: Sequence[Part], split: Split, advice: str = "") -> None:
    """An error, before anything is trained, where tables need labels and there are none."""
    protocols = {case.metric.protocol for part in parts for case in part.cases}
    if not protocols - {None, "unlabeled"} or (
        split != "validation" and has_test_split(config.data.data)
    ):
        return
    settings = replace(config.data, memory=0.0, probe="validation")  # nothing is decoded for this
    if load_data(replace(config, data=settings)).probe is None:
        raise ValueError(
            f"{config.data.data} has no labels in use, and accuracies need them: sort the images "
            f"into a folder for each class{advice}."
        )
