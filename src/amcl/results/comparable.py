"""Comparable results: those of the same protocol, data, split, settings and images."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from amcl.checkpoints.evaluations import Result
from amcl.results.formatting import is_accuracy
from amcl.results.group_names import differing, format_setting, short
from amcl.results.read import flat
from amcl.results.record import Record


class RunResult(NamedTuple):
    """A result, with its run and the index of the group that the run belongs to."""

    group: int
    record: Record
    result: Result

    @property
    def family(self) -> tuple[str, str, str, str]:
        """Checkpoint, protocol, data and split."""
        return self.result.checkpoint, self.result.protocol, self.result.data, self.result.split

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the protocol, and the number of images it had."""
        counts = {name: n for name, n in self.result.images.items() if name != "sha256"}
        return flat(self.result.settings) | flat(counts, "images.")

    @property
    def sha256(self) -> str:
        """Checksum of the images."""
        return str(self.result.images.get("sha256"))


@dataclass(frozen=True, kw_only=True)
class ComparableResults:
    """Results that belong into the same rows of a comparison, one row for each metric.

    Args:
        label: Protocol, settings that distinguish it from other rows, data and split.
        metrics: Names of the metrics to show.
        results: The results.
        has_twin: Whether there are other results that differ from these in their images alone.
    """

    label: str
    metrics: list[str]
    results: list[RunResult]
    has_twin: bool

    @property
    def same_images(self) -> bool:
        """True if all results are of the same images."""
        return len({each.sha256 for each in self.results}) == 1

    def images(self, metric: str) -> int | None:
        """Return the number of images that an accuracy is of; None for other metrics."""
        return (self.results[0].result.num_test_images or None) if is_accuracy(metric) else None

    def value(self, record: Record, metric: str) -> float | None:
        """Return the number of a run: the mean over seeds of the protocol, the newest of each."""
        results = [each.result for each in self.results if each.record is record]
        by_seed = {r.seed: r.metrics[metric] for r in results if metric in r.metrics}
        return fmean(by_seed.values()) if by_seed else None


def split_into_comparable(
    results: Sequence[RunResult], metrics: Sequence[str]
) -> list[ComparableResults]:
    """Return results by protocol, data, split, settings and images; those of checkpoints last.

    Args:
        results: The results of all runs.
        metrics: The metrics to show; all if empty.
    """
    parts = _split(results)
    names = list(dict.fromkeys(name for part in parts for name in _metrics(part)))
    if unknown := [name for name in metrics if name not in names]:
        raise ValueError(
            f"--metrics: no run has {', '.join(unknown)}: there are {', '.join(names)}."
        )
    if metrics:
        parts = [part for part in parts if set(metrics) & set(_metrics(part))]
    return [_comparable(part, parts, metrics or names) for part in parts]


def notes_of(parts: Sequence[ComparableResults]) -> list[str]:
    """Return notes on rows of different images, and on means over seeds of the protocol."""
    notes = []
    if held_out := [part.label for part in parts if not part.same_images]:
        notes.append(f"Each seed was judged on its own held-out images: {'; '.join(held_out)}.")
    if twins := [part.label for part in parts if part.has_twin]:
        notes.append(f"Judged on different images, and so in different rows: {'; '.join(twins)}.")
    notes += _notes_of_settings(parts)
    for part in parts:
        seeds: dict[Path | None, set[int]] = {}
        for each in part.results:
            seeds.setdefault(each.record.path, set()).add(each.result.seed)
        if several := [f"{run} of {len(of)}" for run, of in seeds.items() if len(of) > 1]:
            notes.append(f"{part.label}: means over seeds of the protocol, {', '.join(several)}.")
    return notes


def _notes_of_settings(parts: Sequence[ComparableResults]) -> list[str]:
    """Return notes on protocols of different settings, so that not every group is in each row."""
    notes = []
    for family in dict.fromkeys(part.results[0].family for part in parts):
        members = [part for part in parts if part.results[0].family == family]
        groups = [{each.group for each in part.results} for part in members]
        if all(each == set.union(*groups) for each in groups):
            continue
        if names := [short(key) for key in differing([p.results[0].settings for p in members])]:
            notes.append(
                f"{family[1]} was run with different settings ({', '.join(names)}): numbers "
                "of different rows must not be compared. Evaluate all runs with the same."
            )
    return notes


def _split(results: Sequence[RunResult]) -> list[list[RunResult]]:
    by_settings: dict[str, list[RunResult]] = {}
    for each in results:
        key = json.dumps([each.family, each.settings], sort_keys=True)
        by_settings.setdefault(key, []).append(each)
    families = list(dict.fromkeys(each.family for each in results))

    def order(part: list[RunResult]) -> tuple[Any, ...]:
        first = part[0]
        settings = [_numbers_first(value) for _, value in sorted(first.settings.items())]
        return first.result.checkpoint, families.index(first.family), settings, first.sha256

    return sorted((part for each in by_settings.values() for part in _by_images(each)), key=order)


def _numbers_first(value: Any) -> tuple[bool, float, str]:
    return (False, value, "") if isinstance(value, int | float) else (True, 0.0, str(value))


def _by_images(results: list[RunResult]) -> list[list[RunResult]]:
    units: list[list[RunResult]] = []  # a group stays together where it can
    for group in dict.fromkeys(each.group for each in results):
        unit = [each for each in results if each.group == group]
        units += [unit] if _have_same_images(unit) else [[each] for each in unit]
    parts: list[list[RunResult]] = []
    for unit in units:
        part = next((part for part in parts if _have_same_images(part + unit)), None)
        if part is None:
            parts.append(unit)
        else:
            part += unit
    return parts


def _have_same_images(results: list[RunResult]) -> bool:
    """Return True if images are the same for all, or each seed's own where a seed held them out."""
    drawn = {(each.record.seed, each.sha256) for each in results}
    seeds, images = (len(set(column)) for column in zip(*drawn, strict=True))
    held_out = results[0].result.split == "validation"
    return images == 1 or (held_out and images == seeds == len(drawn))


def _metrics(results: list[RunResult]) -> list[str]:
    return list(dict.fromkeys(name for each in results for name in each.result.metrics))


def _comparable(
    results: list[RunResult], parts: list[list[RunResult]], metrics: Sequence[str]
) -> ComparableResults:
    """Return results with a label of the settings in which they differ from their family."""
    first = results[0]
    family = [other[0].settings for other in parts if other[0].family == first.family]
    words = [format_setting(key, first.settings.get(key)) for key in differing(family)]
    has_twin = family.count(first.settings) > 1
    if has_twin:
        words.append(f"sha256={'+'.join(dict.fromkeys(e.sha256[:8] for e in results))}")
    checkpoint, protocol, data, split = first.family
    return ComparableResults(
        label=" ".join(filter(None, [protocol, checkpoint, *words, "/", data, split])),
        metrics=[name for name in _metrics(results) if name in metrics],
        results=results,
        has_twin=has_twin,
    )
