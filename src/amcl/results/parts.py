"""Results that may stand in one row: same protocol, data, split, settings and images."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from amcl.checkpoints.evaluations import Result
from amcl.results.names import differing, format_setting, short
from amcl.results.numbers import is_accuracy
from amcl.results.read import flat
from amcl.results.record import Record


class Entry(NamedTuple):
    """A result, with the run and the index of the group that it belongs to."""

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
class Part:
    """Entries that belong into the same rows, one row for each metric.

    Args:
        label: Protocol, settings that tell it from other parts, data and split.
        metrics: Names of the metrics to show.
        entries: The results.
        twin: Whether another part differs from this one in its images alone.
    """

    label: str
    metrics: list[str]
    entries: list[Entry]
    twin: bool

    @property
    def same_images(self) -> bool:
        """Return whether all results are of the same images."""
        return len({entry.sha256 for entry in self.entries}) == 1

    def images(self, metric: str) -> int | None:
        """Return the number of images that an accuracy is of; None for other metrics."""
        return (self.entries[0].result.num_test_images or None) if is_accuracy(metric) else None

    def value(self, record: Record, metric: str) -> float | None:
        """Return the number of a run: the mean over seeds of the protocol, the newest of each."""
        results = [entry.result for entry in self.entries if entry.record is record]
        by_seed = {r.seed: r.metrics[metric] for r in results if metric in r.metrics}
        return fmean(by_seed.values()) if by_seed else None


def make_parts(entries: Sequence[Entry], metrics: Sequence[str]) -> list[Part]:
    """Return entries by protocol, data, split, settings and images; those of checkpoints last.

    Args:
        entries: The results of all runs.
        metrics: The metrics to show; all if empty.
    """
    parts = _together(entries)
    names = list(dict.fromkeys(name for part in parts for name in _metrics(part)))
    if unknown := [name for name in metrics if name not in names]:
        raise ValueError(
            f"--metrics: no run has {', '.join(unknown)}: there are {', '.join(names)}."
        )
    if metrics:
        parts = [part for part in parts if set(metrics) & set(_metrics(part))]
    return [_part(part, parts, metrics or names) for part in parts]


def notes_of(parts: Sequence[Part]) -> list[str]:
    """Return notes on rows of different images, and on means over seeds of the protocol."""
    notes = []
    if drawn := [part.label for part in parts if not part.same_images]:
        notes.append(f"Each seed was judged on its own held-out images: {'; '.join(drawn)}.")
    if apart := [part.label for part in parts if part.twin]:
        notes.append(f"Judged on different images, and so in different rows: {'; '.join(apart)}.")
    notes += _notes_of_settings(parts)
    for part in parts:
        seeds: dict[Path | None, set[int]] = {}
        for entry in part.entries:
            seeds.setdefault(entry.record.path, set()).add(entry.result.seed)
        if several := [f"{run} of {len(each)}" for run, each in seeds.items() if len(each) > 1]:
            notes.append(f"{part.label}: means over seeds of the protocol, {', '.join(several)}.")
    return notes


def _notes_of_settings(parts: Sequence[Part]) -> list[str]:
    """Protocols that ran with different settings, so that not every group is in each row."""
    notes = []
    for family in dict.fromkeys(part.entries[0].family for part in parts):
        members = [part for part in parts if part.entries[0].family == family]
        groups = [{entry.group for entry in part.entries} for part in members]
        if all(each == set.union(*groups) for each in groups):
            continue
        if names := [short(key) for key in differing([p.entries[0].settings for p in members])]:
            notes.append(
                f"{family[1]} was run with different settings ({', '.join(names)}): numbers "
                "of different rows must not be compared. Evaluate all runs with the same."
            )
    return notes


def _together(entries: Sequence[Entry]) -> list[list[Entry]]:
    kinds: dict[str, list[Entry]] = {}
    for entry in entries:
        kind = json.dumps([entry.family, entry.settings], sort_keys=True)
        kinds.setdefault(kind, []).append(entry)
    families = list(dict.fromkeys(entry.family for entry in entries))

    def order(part: list[Entry]) -> tuple[Any, ...]:
        first = part[0]
        settings = [_numbers_first(value) for _, value in sorted(first.settings.items())]
        return first.result.checkpoint, families.index(first.family), settings, first.sha256

    return sorted((part for kind in kinds.values() for part in _by_images(kind)), key=order)


def _numbers_first(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, int | float)
    return not number, value if number else 0.0, "" if number else str(value)


def _by_images(entries: list[Entry]) -> list[list[Entry]]:
    units: list[list[Entry]] = []  # a group stays together where it can
    for group in dict.fromkeys(entry.group for entry in entries):
        unit = [entry for entry in entries if entry.group == group]
        units += [unit] if _alike(unit) else [[entry] for entry in unit]
    parts: list[list[Entry]] = []
    for unit in units:
        part = next((part for part in parts if _alike(part + unit)), None)
        if part is None:
            parts.append(unit)
        else:
            part += unit
    return parts


def _alike(entries: list[Entry]) -> bool:
    """Return whether images are the same for all, or each seed's own where a seed held them out."""
    drawn = {(entry.record.seed, entry.sha256) for entry in entries}
    seeds, images = (len(set(column)) for column in zip(*drawn, strict=True))
    held_out = entries[0].result.split == "validation"
    return images == 1 or (held_out and images == seeds == len(drawn))


def _metrics(entries: list[Entry]) -> list[str]:
    return list(dict.fromkeys(name for entry in entries for name in entry.result.metrics))


def _part(entries: list[Entry], parts: list[list[Entry]], metrics: Sequence[str]) -> Part:
    """Return a part whose label has the settings in which it differs from others of its family."""
    first = entries[0]
    family = [other[0].settings for other in parts if other[0].family == first.family]
    words = [format_setting(key, first.settings.get(key)) for key in differing(family)]
    twin = family.count(first.settings) > 1
    if twin:
        words.append(f"sha256={'+'.join(dict.fromkeys(e.sha256[:8] for e in entries))}")
    checkpoint, protocol, data, split = first.family
    return Part(
        label=" ".join(filter(None, [protocol, checkpoint, *words, "/", data, split])),
        metrics=[name for name in _metrics(entries) if name in metrics],
        entries=entries,
        twin=twin,
    )
