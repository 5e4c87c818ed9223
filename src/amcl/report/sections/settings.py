"""Settings and environment of the runs."""

import json
import tomllib
from collections.abc import Sequence
from typing import Any

from amcl.report.blocks import Block, Code, Section
from amcl.report.runs import Run, beside
from amcl.results import Table
from amcl.results.formatting import MISSING
from amcl.results.group_names import differing, follows_choice
from amcl.results.read import flat

HOW = (
    "With these settings the run can be made again: `amcl pretrain --config config.toml --out NEW`."
)


def settings(runs: Sequence[Run]) -> Section:
    """Return the settings that differ, then each config.toml and environment."""
    blocks: list[Block] = []
    if len(runs) > 1:
        blocks.append(_differences(runs))
    blocks += beside(runs, _of_run)
    return Section("Settings", blocks, HOW)


def _of_run(run: Run) -> list[Block]:
    text = json.dumps(run.starts, indent=2, ensure_ascii=False)
    return [Code(run.config.to_toml(), "config.toml"), Code(text, "Environment of each start")]


def _differences(runs: Sequence[Run]) -> Table:
    tables = [flat(tomllib.loads(run.config.to_toml())) for run in runs]
    rows = [
        (name, *(_text(table[name]) if name in table else MISSING for table in tables))
        for name in differing(tables)
        if not follows_choice(name, tables)
    ]
    if not rows:
        rows = [("none", *("" for _ in runs))]
    header = ("setting that differs", *(run.name for run in runs))
    return Table(header, rows, "All other settings are the same in all runs.")


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).strip('"')
