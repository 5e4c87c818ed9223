"""The packages that an installation consists of, read from the installed packages."""

from dataclasses import dataclass, field
from importlib.metadata import Distribution, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "amcl-torch"


@dataclass
class Package:
    """An installed package, and the names of those that it needs here."""

    distribution: Distribution
    needs: set[str] = field(default_factory=set)


def installed(requirement: str) -> dict[str, Package]:
    """Return all installed packages that a requirement leads to, sorted by name.

    Args:
        requirement: Requirement as pip takes it, such as ``amcl-torch[dev]``. Markers decide what
            belongs to this platform; a package that is needed and missing is an error.
    """
    packages: dict[str, Package] = {}
    visited = set()
    queue = [Requirement(requirement)]
    while queue:
        current = queue.pop()
        name = canonicalize_name(current.name)
        package = packages.setdefault(name, Package(distribution(name)))
        for extra in {"", *current.extras} - {e for n, e in visited if n == name}:
            visited.add((name, extra))
            for text in package.distribution.requires or ():
                needed = Requirement(text)
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    package.needs.add(canonicalize_name(needed.name))
                    queue.append(needed)
    return dict(sorted(packages.items()))
