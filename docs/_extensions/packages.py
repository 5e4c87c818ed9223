"""The directive `package`: every public class and function of a package."""

import importlib
import inspect
from collections.abc import Iterable
from typing import Annotated, get_args, get_origin

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


def public_names(package: str) -> list[str]:
    """Return what a package exports, without its modules."""
    module = importlib.import_module(package)
    names = getattr(module, "__all__", [])
    return [name for name in names if not inspect.ismodule(getattr(module, name))]


def _described(value: object) -> str:
    """Return a value in words."""
    if isinstance(value, str | int | float) or not isinstance(value, Iterable):
        return f"`{value!r}`"
    names = ", ".join(f"`{key}`" for key in value)
    return f"a {type(value).__name__} with {names}"


class Package(SphinxDirective):
    """Sections on what a package exports."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the entries."""
        package = self.arguments[0]
        module = importlib.import_module(package)
        lines = [f"```{{eval-rst}}\n.. py:module:: {package}\n```"]
        lines.append((inspect.getdoc(module) or "").partition("\n>>>")[0])
        for name in public_names(package):
            lines += [f"## {name}", self._entry(package, name, getattr(module, name))]
        return self.parse_text_to_nodes("\n\n".join(lines), allow_section_headings=True)

    def _entry(self, package: str, name: str, value: object) -> str:
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            return f"`{package}.{name}` is {_described(value)}."
        pages = vars(self.env).setdefault("amcl_pages", {})
        key = f"{value.__module__}.{value.__qualname__}"
        first = pages.setdefault(key, (self.env.docname, f"{package}.{name}"))
        if first != (self.env.docname, f"{package}.{name}"):
            return f"See {{py:obj}}`{first[1]}`."
        kind = "function"
        if inspect.isclass(value):
            drop_marks(value)
            kind = "exception" if issubclass(value, BaseException) else "class"
        return f"```{{eval-rst}}\n.. auto{kind}:: {package}.{name}\n```"


def drop_marks(value: type) -> None:
    """Leave out of annotations what is meant for the parser of the command line."""
    init = getattr(value.__init__, "__annotations__", {})
    for annotations in (init, *(vars(c).get("__annotations__", {}) for c in value.__mro__)):
        for name, hint in annotations.items():
            if get_origin(hint) is Annotated:
                annotations[name] = get_args(hint)[0]


_COLON = "\ue000"  # a private character in place of a colon, while napoleon reads


def hide_colon(app, what, name, obj, options, lines) -> None:
    """Keep napoleon from taking the words before a colon for the type of an attribute."""
    if what in ("attribute", "property") and lines:
        lines[0] = lines[0].replace(":", _COLON)


def show_colon(app, what, name, obj, options, lines) -> None:
    """Put colons back."""
    lines[:] = [line.replace(_COLON, ":") for line in lines]


def setup(app) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("package", Package)
    app.connect("autodoc-process-docstring", hide_colon, priority=400)
    app.connect("autodoc-process-docstring", show_colon, priority=600)
    return {"parallel_read_safe": True}
