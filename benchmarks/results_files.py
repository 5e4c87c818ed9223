"""Files of benchmark results: a page in Markdown, and the numbers in JSON."""

import json
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "results.md"


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


def with_block(page: str, name: str, text: str) -> str:
    """Return a page with the text between the marks of a script.

    >>> page = "<!-- made by NAME -->\\nold\\n<!-- end of NAME -->\\n"
    >>> with_block(page, "NAME", "new")
    '<!-- made by NAME -->\\nnew\\n<!-- end of NAME -->\\n'
    """
    begin, end = f"<!-- made by {name} -->", f"<!-- end of {name} -->"
    pattern = re.compile(f"{begin}.*?{end}", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"the page has no block {begin} … {end}: add these two lines to it.")
    return pattern.sub(lambda mark: f"{begin}\n{text}\n{end}", page)


def write_block(name: str, text: str) -> None:
    """Write the text between the marks of a script in docs/results.md."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_block(page, name, text), encoding="utf-8")


def kept_results(name: str, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the numbers of NAME.json, which must have the same "settings"; None without a file."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return None
    numbers: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if numbers["settings"] != settings:
        sys.exit(
            f"{path} was measured with {numbers['settings']}, and this command has {settings}: "
            "give the same options, or remove that file to start again."
        )
    return numbers


def in_new_process(key: Sequence[str]) -> Any:
    """Run this script again with its options and --here KEY --out FILE, and return that JSON."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "numbers.json"
        command = [sys.executable, *sys.argv, "--here", *key, "--out", str(out)]
        done = subprocess.run(command, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(key)} failed with code {done.returncode}")
        return json.loads(out.read_text(encoding="utf-8"))
