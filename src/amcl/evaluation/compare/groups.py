"""Runs that differ in their seeds alone, and names that tell such groups apart."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amcl.evaluation.compare.runs import Run
from amcl.evaluation.compare.settings import differing, setting, short, text

_LEADING = ("method.name", "method.heads", "method.temperature")
_PUBLISHED = {"method.heads": 1, "method.temperature": "constant"}  # go without saying


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that differ in their seeds alone, in the order of these."""

    name: str
    runs: tuple[Path, ...]
    seeds: tuple[int, ...]
    settings: dict[str, Any]
    """All that changes what is learned, as "section.name"."""

    @property
    def repeated(self) -> list[int]:
        """Seeds of more than one run."""
        return [seed for seed, count in Counter(self.seeds).items() if count > 1]

    @property
    def pairable(self) -> set[int]:
        """Seeds of exactly one run."""
        return set(self.seeds) - set(self.repeated)

    def describe(self) -> str:
        """Epochs, runs and seeds, for people."""
        epochs = self.settings.get("run.epochs")
        trained = "" if epochs is None else f"{epochs} epoch{'s' * (epochs != 1)}; "
        members = zip(self.runs, self.seeds, strict=True)
        return f"{self.name}: {trained}" + ", ".join(f"{run} (seed {s})" for run, s in members)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "runs": [str(run) for run in self.runs],
            "seeds": list(self.seeds),
            "settings": self.settings,
        }


def grouped(runs: Sequence[Run], baseline: str | Path | None) -> list[list[Run]]:
    """Runs by what they learn, and by seed within each group; that of the baseline first."""
    kinds: list[dict[str, Any]] = []
    for run in runs:
        if run.settings not in kinds:
            kinds.append(run.settings)
    groups = [[run for run in runs if run.settings == kind] for kind in kinds]
    if baseline is not None:
        wanted = Path(baseline).resolve()
        if all(run.path.resolve() != wanted for run in runs):
            given = ", ".join(str(run.path) for run in runs)
            raise ValueError(f"the baseline {baseline} is none of the runs: choose from {given}.")
        groups.sort(key=lambda group: all(run.path.resolve() != wanted for run in group))
    return [sorted(group, key=lambda run: run.seed) for group in groups]


def named(groups: Sequence[Sequence[Run]]) -> tuple[Group, ...]:
    """Groups with short names, of the folder of a run where settings make none."""
    names = _names([group[0].settings for group in groups])
    folders = [group[0].path.resolve().name for group in groups]
    if len(groups) == 1:
        more = len(groups[0]) - 1
        names = [folders[0] + (f" and {more} more" if more else "")]
    elif len(set(names)) < len(names):
        names = [f"{name} ({folder})" for name, folder in zip(names, folders, strict=True)]
    return tuple(
        Group(
            name=name,
            runs=tuple(run.path for run in group),
            seeds=tuple(run.seed for run in group),
            settings=group[0].settings,
        )
        for name, group in zip(names, groups, strict=True)
    )


def notes_of_groups(groups: Sequence[Group]) -> list[str]:
    """What names leave out, and which runs cannot be paired."""
    notes = _unnamed([group.settings for group in groups])
    for group in groups:
        for seed in group.repeated:
            runs = [str(r) for r, s in zip(group.runs, group.seeds, strict=True) if s == seed]
            notes.append(
                f"{group.name}: seed {seed} appears {len(runs)} times ({', '.join(runs)}). All "
                "count in the mean, none is paired."
            )
    baseline = groups[0]
    return notes + [
        f"{group.name} shares no seed with {baseline.name} that could be paired: no differences."
        for group in groups[1:]
        if not group.pairable & baseline.pairable
    ]


def _names(tables: list[dict[str, Any]]) -> list[str]:
    """The method, and what else tells groups apart; as published goes without saying."""
    keys = [key for key in _telling(tables) if key != "method.name"]
    names = []
    for table in tables:
        said = [key for key in keys if key in table and table[key] != _PUBLISHED.get(key)]
        words = [str(table.get("method.name", "")), *(setting(key, table[key]) for key in said)]
        names.append(" ".join(words).strip())
    return names


def _telling(tables: list[dict[str, Any]]) -> list[str]:
    """Few names of settings that tell all tables apart; heads and temperature first."""
    rest = differing(tables)
    chosen = [key for key in _LEADING if key in rest]
    rest = [key for key in rest if key not in _LEADING]

    def apart(keys: list[str]) -> int:
        return len({json.dumps([t.get(key) for key in keys], default=str) for t in tables})

    while rest and apart(chosen) < len(tables):
        chosen.append(max(rest, key=lambda key: apart([*chosen, key])))
        rest.remove(chosen[-1])
    return chosen


def _unnamed(tables: list[dict[str, Any]]) -> list[str]:
    """A note of the settings that differ without a word of them in the names."""
    told = _telling(tables)
    silent = [k for k in differing(tables) if k not in told and not _of_the_method(k, tables)]
    if not silent:
        return []
    values = [f"{short(key)} ({', '.join(text(t.get(key)) for t in tables)})" for key in silent]
    return [f"The groups differ in more than their names say: {'; '.join(values)}."]


def _of_the_method(key: str, tables: list[dict[str, Any]]) -> bool:
    """Whether a setting differs only because not every method has it."""
    values: dict[Any, list[Any]] = {}
    for table in tables:
        values.setdefault(table.get("method.name"), []).append(table.get(key))
    constant = all(value == found[0] for found in values.values() for value in found)
    return key.startswith("method.") and constant and any(key not in table for table in tables)
