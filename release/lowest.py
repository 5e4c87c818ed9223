"""Constraints at the lower ends of the ranges in pyproject.toml: `make test-lowest` uses them.

python release/lowest.py > build/lowest.txt
"""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
TOOLS = ("bench", "dev", "docs", "test")
"""Extras that only work on the project needs."""


def lowest(requirements: list[str]) -> list[str]:
    """Return each requirement pinned to its lower end; those of the project itself are left out.

    >>> lowest(["torch>=2.6,<3", "psycopg[binary]>=3.2,<4", "amcl-torch[train]"])
    ['torch==2.6', 'psycopg==3.2']
    """
    pins = []
    for text in requirements:
        requirement = Requirement(text)
        versions = [spec.version for spec in requirement.specifier if spec.operator == ">="]
        if versions:
            pins.append(f"{requirement.name}=={versions[0]}")
        elif re.sub(r"[-_.]+", "-", requirement.name) != "amcl-torch":
            raise ValueError(f"{text} has no lower end: give it one, as in {text}>=1.")
    return pins


def constraints() -> list[str]:
    """Return the constraints of the core and of every extra that is not for developers."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    used = [requirement for name in extras if name not in TOOLS for requirement in extras[name]]
    return sorted(set(lowest([*project["dependencies"], *used])))


if __name__ == "__main__":
    print("\n".join(constraints()))
