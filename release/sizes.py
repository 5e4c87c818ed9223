"""Disk space of each dependency, in the core and in every extra that is installed: `make sizes`.

What several dependencies need counts for none of them alone. Compiled modules do not count, since
pip makes them or not.
"""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from dependencies import PROJECT, Package, installed
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

COMMANDS = "train"  # the extra that every other one adds to
TOOLS = ("all", "bench", "dev", "docs", "test")
"""Extras that only work on the project needs, and the one that joins the others."""


def size_of(package: Package) -> int:
    """Return the bytes of the files of a package."""
    paths = [Path(str(file.locate())) for file in package.distribution.files or ()]
    return sum(path.stat().st_size for path in paths if path.suffix != ".pyc" and path.is_file())


def reached(name: str, packages: Mapping[str, Package]) -> set[str]:
    """Return the names of a package and of all that it needs, directly or not."""
    names: set[str] = set()
    queue = [name]
    while queue:
        current = queue.pop()
        if current not in names:
            names.add(current)
            queue += packages[current].needs
    return names


def named_by(extra: str) -> list[str]:
    """Return the dependencies that an extra of the project names; "" is for the core."""
    requirements = [Requirement(text) for text in distribution(PROJECT).requires or ()]
    return [
        canonicalize_name(each.name)
        for each in requirements
        if (each.marker is None if not extra else "extra" in str(each.marker))
        and (each.marker is None or each.marker.evaluate({"extra": extra}))
    ]


def sizes(extra: str) -> list[tuple[str, int, int]]:
    """Return name, bytes, and bytes with what it alone brings, the largest first.

    Args:
        extra: An installed extra; "" for the core.
    """
    extras = ",".join(sorted({COMMANDS, extra} - {""})) if extra else ""
    packages = installed(f"{PROJECT}[{extras}]")
    among = {name for base in {"", extra, COMMANDS if extra else ""} for name in named_by(base)}
    rows = []
    for name in named_by(extra):
        others = [reached(other, packages) for other in among - {name}]
        alone = reached(name, packages).difference(*others) | {name}
        total = sum(size_of(packages[each]) for each in alone)
        rows.append((name, size_of(packages[name]), total))
    return sorted(rows, key=lambda row: -row[2])


def main() -> None:
    """Print a table in Markdown."""
    extras = distribution(PROJECT).metadata.get_all("Provides-Extra") or []
    print("| extra | dependency | MB | MB with what it alone brings |\n| --- | --- | --- | --- |")
    for extra in ["", COMMANDS, *sorted({*extras} - {COMMANDS, *TOOLS})]:
        try:
            rows = sizes(extra)
        except PackageNotFoundError as error:
            print(f"| {extra} | not installed: {error.name} | | |")
            continue
        for name, own, total in rows:
            print(f"| {extra or 'none'} | {name} | {own / 1e6:.1f} | {total / 1e6:.1f} |")


if __name__ == "__main__":
    main()
