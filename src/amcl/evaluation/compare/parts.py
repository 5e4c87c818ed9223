"""Which results belong into the same rows, and what these are called."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from amcl.evaluation.compare.settings import differing, flat, setting, short
from amcl.evaluation.results import Result


class Entry(NamedTuple):
    """A result, with the group, the folder and the seed of its run."""

    group: int
    run: Path
    seed: int
    result: Result

    @property
    def family(self) -> tuple[str, str, str, str]:
        return self.result.checkpoint, self.result.protocol, self.result.data, self.result.split

    @property
    def told(self) -> dict[str, Any]:
        """What the protocol was told, and how many images it had."""
        counts = {name: n for name, n in self.result.images.items() if name != "sha256"}
        return flat(self.result.settings) | flat(counts, "images.")

    @property
    def sha256(self) -> str:
        return str(self.result.images.get("sha256"))


@dataclass(frozen=True, kw_only=True)
class Part:
    """Entries that belong into the same rows, one for each metric."""

    label: str
    metrics: list[str]
    entries: list[Entry]
    twin: bool
    """Whether another part differs from this in its images alone."""

    @property
    def same_images(self) -> bool:
        return len({entry.sha256 for entry in self.entries}) == 1


def make_parts(entries: Sequence[Entry], metrics: Sequence[str]) -> list[Part]:
    """Entries by protocol, data, split, settings and images; checkpoints last.

    `metrics`: only these, in whatever order the results have them.
    """
    parts = _together(entries)
    known = dict.fromkeys(name for part in parts for name in _metrics(part))
    if unknown := [name for name in metrics if name not in known]:
        raise ValueError(f"no run has {', '.join(unknown)}: there are {', '.join(known)}.")
    if metrics:
        parts = [part for part in parts if set(metrics) & set(_metrics(part))]
    return [_part(part, parts, metrics or list(known)) for part in parts]


def notes_of_parts(parts: Sequence[Part]) -> list[str]:
    """Which rows are of different images, and which of means over seeds of the protocol."""
    notes = []
    if drawn := [part.label for part in parts if not part.same_images]:
        notes.append(f"Each seed was judged on its own held-out images: {'; '.join(drawn)}.")
    if apart := [part.label for part in parts if part.twin]:
        notes.append(f"Judged on different images, and so in different rows: {'; '.join(apart)}.")
    notes += _notes_of_settings(parts)
    for part in parts:
        seeds: dict[Path, set[int]] = {}
        for entry in part.entries:
            seeds.setdefault(entry.run, set()).add(entry.result.seed)
        if several := [f"{run} of {len(found)}" for run, found in seeds.items() if len(found) > 1]:
            notes.append(f"{part.label}: means over seeds of the protocol, {', '.join(several)}.")
    return notes


def _notes_of_settings(parts: Sequence[Part]) -> list[str]:
    """Protocols that were told different things, so that not every group is in each row."""
    notes = []
    for family in dict.fromkeys(part.entries[0].family for part in parts):
        own = [part for part in parts if part.entries[0].family == family]
        groups = [{entry.group for entry in part.entries} for part in own]
        if len(own) > 1 and any(each != set.union(*groups) for each in groups):
            told = [part.entries[0].told for part in own]
            if names := [short(key) for key in differing(told)]:
                notes.append(
                    f"{family[1]} was run with different settings ({', '.join(names)}): numbers "
                    "of different rows must not be compared. Evaluate all runs with the same."
                )
    return notes


def _together(entries: Sequence[Entry]) -> list[list[Entry]]:
    kinds: dict[str, list[Entry]] = {}
    for entry in entries:
        kind = json.dumps([entry.family, entry.told], sort_keys=True)
        kinds.setdefault(kind, []).append(entry)
    families = list(dict.fromkeys(entry.family for entry in entries))

    def order(part: list[Entry]) -> tuple[Any, ...]:
        first = part[0]
        told = [_number_first(value) for _, value in sorted(first.told.items())]
        return first.result.checkpoint, families.index(first.family), told, first.sha256

    return sorted((part for kind in kinds.values() for part in _by_images(kind)), key=order)


def _number_first(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, int | float)
    return not number, value if number else 0.0, "" if number else str(value)


def _by_images(entries: list[Entry]) -> list[list[Entry]]:
    units: list[list[Entry]] = []  # a group stays together where it can
    for group in dict.fromkeys(entry.group for entry in entries):
        unit = [entry for entry in entries if entry.group == group]
        units += [unit] if _alike(unit) else [[entry] for entry in unit]
    parts: list[list[Entry]] = []
    for unit in units:
        for part in parts:
            if _alike(part + unit):
                part += unit
                break
        else:
            parts.append(unit)
    return parts


def _alike(entries: list[Entry]) -> bool:
    """The same images for all; or for each seed its own, if the run's seed held them out."""
    drawn = {(entry.seed, entry.sha256) for entry in entries}
    seeds, images = (len(set(column)) for column in zip(*drawn, strict=True))
    held_out = entries[0].result.split == "validation"
    return images == 1 or (held_out and images == seeds == len(drawn))


def _metrics(entries: list[Entry]) -> list[str]:
    return list(dict.fromkeys(name for entry in entries for name in entry.result.metrics))


def _part(entries: list[Entry], parts: list[list[Entry]], metrics: Sequence[str]) -> Part:
    """A part, with the settings in which it differs from others of its family in its label."""
    first = entries[0]
    family = [other[0].told for other in parts if other[0].family == first.family]
    said = [setting(key, first.told.get(key)) for key in differing(family)]
    twin = family.count(first.told) > 1
    if twin:
        said.append(f"sha256={'+'.join(dict.fromkeys(e.sha256[:8] for e in entries))}")
    model, protocol, data, split = first.family
    return Part(
        label=" ".join(filter(None, [protocol, model, *said, "/", data, split])),
        metrics=[name for name in _metrics(entries) if name in metrics],
        entries=entries,
        twin=twin,
    )
