"""Files of benchmark results: a page in Markdown, and the numbers in JSON."""

import json
import platform
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def conditions() -> str:
    """Return the machine, the number of threads, and the versions that were measured."""
    machine = f"{platform.machine()}, {torch.get_num_threads()} threads"
    return f"{machine}, torch {torch.__version__}, Python {platform.python_version()}"


def write_results(name: str, title: str, text: str, numbers: dict[str, Any]) -> None:
    """Write NAME.md and NAME.json into the folder of results, and print the text."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(f"# {title}\n\n{text}")
    (RESULTS / f"{name}.json").write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")
    print(f"\n{text}")
