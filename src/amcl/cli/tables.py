"""What an experiment wrote, on a terminal."""

from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown


def show_tables(folder: Path, console: Console) -> None:
    """The tables of an experiment's folder; its pictures are files."""
    text = (folder / "table.md").read_text(encoding="utf-8")
    console.print(Markdown("\n".join(x for x in text.splitlines() if not x.startswith("!["))))
