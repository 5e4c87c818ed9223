"""Output of commands: lines, results on a terminal or in a pipe, pages, JSON files."""

import re
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markdown import Markdown

from amcl.console import SafeConsole
from amcl.files import write_text
from amcl.text_files import to_json
from amcl.training.display import console as progress_console

_WIDE = 10_000  # columns: a pipe has no right edge to wrap at


def print_line(text: str, console: Console = progress_console) -> None:
    """Print text as it is, however long its lines are.

    Args:
        text: One or more lines.
        console: Where to print; the default is the console of progress, on stderr.
    """
    console.print(text, soft_wrap=True, markup=False)


def results_console() -> Console:
    """Return the console for results; lines of a pipe or file are neither wrapped nor padded."""
    if sys.stdout is None or sys.stdout.isatty():
        return SafeConsole(highlight=False)
    trimmed: Any = _Trimmed(sys.stdout)
    return SafeConsole(file=trimmed, width=_WIDE, highlight=False)


def show_page(page: Path, console: Console) -> None:
    """Print the tables of an experiment, and the paths of its page, numbers and pictures.

    Args:
        page: The HTML page, with `table.md` beside it.
        console: Where to print.
    """
    text = (page.parent / "table.md").read_text(encoding="utf-8")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("!["))
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        console.print(text, markup=False)
    print_line(f"{page}, with table.md, numbers.csv and pictures", console)


def check_new_json(path: Path | None) -> None:
    """Raise an error if the file of the option --json exists."""
    if path is not None and path.exists():
        raise ValueError(f"{path} exists already: choose another file for --json.")


def write_json(path: Path | None, content: dict[str, Any]) -> None:
    """Write the file of the option --json, if it was given."""
    if path is not None:
        write_text(path, to_json(content) + "\n")


class _Trimmed:
    """A stream without blanks at the ends of lines."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(re.sub(r" +$", "", text, flags=re.MULTILINE))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
