"""Tables on a terminal, and as plain lines in a file or pipe."""

import re
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markdown import Markdown

_WIDE = 10_000  # columns: a pipe has no right edge to wrap at


def results_console() -> Console:
    """Return the console for results; lines of a pipe or file are neither wrapped nor padded."""
    if sys.stdout is None or sys.stdout.isatty():
        return Console(highlight=False)
    trimmed: Any = _Trimmed(sys.stdout)
    return Console(file=trimmed, width=_WIDE, highlight=False)


def show_page(page: Path, console: Console) -> None:
    """Print the tables of an experiment, and where its page, numbers and pictures are."""
    text = (page.parent / "table.md").read_text(encoding="utf-8")
    text = "\n".join(x for x in text.splitlines() if not x.startswith("!["))
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        console.print(text, markup=False)
    where = f"{page}, with table.md, numbers.csv and pictures"
    console.print(where, soft_wrap=True, markup=False)


class _Trimmed:
    """A stream without blanks at the ends of lines."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(re.sub(r" +$", "", text, flags=re.MULTILINE))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
