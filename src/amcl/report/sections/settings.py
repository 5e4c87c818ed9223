"""How the runs were made: settings and environment."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from amcl.report.blocks import Block, Code, Section, Table
from amcl.report.runs import Run, beside

HOW = (
    "With these settings the run can be made again: `amcl pretrain --config config.toml --out NEW`."
)


def settings(runs: Sequence[Run]) -> Section:
    """What differs between runs, then each config.toml and where it ran."""
    blocks: list[Block] = []
    if len(runs) > 1:
        blocks.append(_differences(runs))
    blocks += beside(runs, _of_run)
    return Section("Settings", blocks, HOW)


def _of_run(run: Run) -> list[Block]:
    text = json.dumps(run.starts, indent=2, ensure_ascii=False)
    return [Code(run.config.to_toml(), "config.toml"), Code(text, "Environment of each start")]


def _differences(runs: Sequence[Run]) -> Table:
    flat = [_flat(tomllib.loads(run.config.to_toml())) for run in runs]
    names = dict.fromkeys(name for one in flat for name in one)
    rows = [
        (name, *(one.get(name, "–") for one in flat))
        for name in names
        if len({one.get(name, "–") for one in flat}) > 1
    ]
    if not rows:
        rows = [("none", *("" for _ in runs))]
    header = ("setting that differs", *(run.name for run in runs))
    return Table(header, rows, "All other settings are the same in all runs.")


def _flat(table: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """{"run.seed": "0", …}."""
    found: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{name}.")
        else:
            found[before + name] = json.dumps(value, ensure_ascii=False).strip('"')
    return found
