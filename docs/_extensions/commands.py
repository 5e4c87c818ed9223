"""The directive `commands`: a section for each command, with all of its options."""

import contextlib
import importlib
import io

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from amcl.cli import GROUPS
from amcl.cli.help import HelpPage, HelpShown, about, names_of, usage_of

# The methods share most of their options: those of the other methods are shown by --help-all.
_ARGUMENTS = {"pretrain": ["--data", "builtin"]}


def page_of(command: str) -> HelpPage | None:
    """Return the help of a command; None for one that takes words alone."""
    if command in ("completion", "models", "recipes"):
        return None
    name, *words = command.split()
    module = importlib.import_module(f"amcl.cli.{name}")
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            module.main([*words, *_ARGUMENTS.get(command, []), "--help-all"])
        except HelpShown as shown:
            return shown.page
    raise RuntimeError(f"amcl {command} shows no help")


def _parts(command: str) -> list[str]:
    """Return a command and those of two words below it."""
    return {
        "data": ["data", "data pack", "data check"],
        "analyze": ["analyze", "analyze overlap RUN"],
    }.get(command, [command])


def _text_of(command: str) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        importlib.import_module(f"amcl.cli.{command}").main(["--help"])
    return shown.getvalue()


def _rows(options: list, name) -> str:
    return "\n\n".join(f"`{name(o)}`\n: {about(o) or 'See above.'}" for o in options)


def markdown(command: str) -> str:
    """Return the section on a command."""
    page = page_of(command)
    if page is None:
        return f"### amcl {command}\n\n```text\n{_text_of(command)}```\n"
    examples = "\n".join(f"# {what}\n{line}" for what, line in page.help.examples)
    parts = [
        f"### {page.command}",
        page.help.about,
        f"```text\n{page.usage}\n```",
        f"```bash\n{examples}\n```",
        page.help.details,
    ]
    if page.positionals:
        parts += ["**Arguments**", _rows(list(page.positionals), usage_of)]
    for title, options in page.sections().items():
        rows = _rows(options, names_of)
        if title == "Options" or not page.help.main:
            parts += [f"**{title}**", rows]
        else:
            parts.append(f":::{{dropdown}} {title}\n{rows}\n:::")
    return "\n\n".join(part for part in parts if part) + "\n"


class Commands(SphinxDirective):
    """Sections on all commands, grouped by purpose."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        parts = []
        for title, commands in GROUPS.items():
            named = [part for command in commands for part in _parts(command)]
            parts += [f"## {title}", *map(markdown, named)]
        return self.parse_text_to_nodes("\n\n".join(parts), allow_section_headings=True)


def setup(app) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
