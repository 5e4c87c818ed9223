"""Registries: things by name, each declared in a file of its own, here or in another package."""

import difflib
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import TypeVar

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Things of one kind by name.

    The modules of a package register what they define when they are imported; so do modules that
    installed packages list in an entry-point group, and scripts of a user. All of the former are
    imported the first time that a name is looked up.

    Args:
        kind: What is registered, for messages, such as "method".
        package: Package whose modules register things.
        group: Entry-point group in which installed packages list modules; none if it is empty.

    Example:
        >>> shapes = Registry[type]("shape", package="")
        >>> shapes.register("circle", int)
        >>> shapes.names(), shapes["circle"]
        (('circle',), <class 'int'>)
    """

    def __init__(self, kind: str, package: str, group: str = "") -> None:
        self.kind = kind
        self.package = package
        self.group = group
        self._things: dict[str, T] = {}
        self._origins: dict[str, str] = {}
        self._loaded = False

    def register(self, name: str, thing: T, source: object = None) -> None:
        """Register a thing; an error if the name belongs to another one.

        Args:
            name: Name of the thing.
            thing: The thing itself.
            source: Class or function that defines it; None for the thing itself. One that is
                defined anew, as in a notebook, replaces the one of the same name and module.
        """
        origin = _origin(thing if source is None else source)
        registered = self._origins.setdefault(name, origin)
        if registered != origin:
            raise ValueError(
                f"the {self.kind} {name!r} is registered already, as {registered}: choose another "
                "name."
            )
        self._things[name] = thing

    def unregister(self, name: str) -> None:
        """Remove a thing.

        Args:
            name: Name of a registered thing.
        """
        self[name]
        del self._things[name], self._origins[name]

    def names(self) -> tuple[str, ...]:
        """Return the names of all things, in alphabetical order."""
        self._load()
        return tuple(sorted(self._things))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._things

    def __getitem__(self, name: str) -> T:
        self._load()
        if name not in self._things:
            near = difflib.get_close_matches(name, self._things, n=1)
            names = ", ".join(self.names())
            hint = f"did you mean {near[0]!r}?" if near else f"there are {names}."
            raise ValueError(f"there is no {self.kind} {name!r}: {hint}")
        return self._things[name]

    def _load(self) -> None:
        """Import every module of the package, and those that installed packages list."""
        if self._loaded:
            return
        self._loaded = True
        if self.package:
            package = importlib.import_module(self.package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self.package}.{module.name}")
        for entry in entry_points(group=self.group) if self.group else ():
            entry.load()


def _origin(thing: object) -> str:
    """Return the module and name under which a class or function was defined."""
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', repr(thing))}"
