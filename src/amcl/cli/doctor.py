"""`amcl doctor`: versions, devices, data folders, free disk, and what is missing."""

import multiprocessing
import os
import platform
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

import torch
from packaging.requirements import Requirement
from packaging.version import Version

from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.options import read_options
from amcl.cli.output import check_new_json, print_line, results_console, write_json
from amcl.data.named import DATASETS, data_root, missing_sets
from amcl.errors import RunError

HELP = Help(
    about="Show versions, devices, data folders, free disk space, and what each extra still needs.",
    examples=(
        ("Check this installation.", "amcl doctor"),
        ("Check a data folder of your own.", "amcl doctor --data-root /data"),
        ("Write a file to attach to a bug report.", "amcl doctor --json doctor.json"),
    ),
    details="""The exit code is 1 where a required package is missing or has a version that is not
supported. Extras are optional: what is missing there is listed, and is no error.""",
)
_DEVELOPMENT = ("dev", "bench", "docs", "test")  # extras that no user needs
_COMMANDS = "train"  # the extra that commands need
_LOW_DISK = 5  # GiB


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Options of `amcl doctor`."""

    data_root: Path | None = None
    """The data folder; none: $AMCL_DATA, or ~/.cache/amcl."""
    json: Path | None = None
    """Write all of it to this new file too."""


class Broken(RunError):
    """A required package is missing, or has a version that is not supported."""

    exit_code = 1


@command("amcl doctor")
def main(args: list[str]) -> None:
    """Run the command."""
    options = read_options(Doctor, args, command="amcl doctor", help=HELP)
    check_new_json(options.json)
    state = examine(options.data_root)
    print_line("\n".join(_lines(state)), results_console())
    write_json(options.json, state)
    if state["problems"]:
        raise Broken("\n".join(state["problems"]))


def examine(root: Path | None = None) -> dict[str, Any]:
    """Return what is known of the installation and the machine.

    Args:
        root: The data folder; None for the default one.
    """
    folder = data_root(root)
    required, extras = _requirements()
    return {
        "amcl": version("amcl-torch"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _installed(name) for name in required},
        "devices": _devices(),
        "data": {
            "folder": str(folder),
            "sets": {name: not missing_sets([name], folder) for name in DATASETS},
        },
        "free": {
            label: _free_gib(path)
            for label, path in (
                ("working folder", Path.cwd()),
                ("data folder", folder),
                ("temporary files", Path(tempfile.gettempdir())),
            )
        },
        "extras": {
            extra: [p for requirement in requirements if (p := _problem(requirement))]
            for extra, requirements in extras.items()
        },
        "problems": [p for requirement in required.values() if (p := _problem(requirement))],
    }


def _requirements() -> tuple[dict[str, Requirement], dict[str, list[Requirement]]]:
    """Return the packages that are required, and those of each extra for users."""
    required: dict[str, Requirement] = {}
    extras: dict[str, list[Requirement]] = {}
    package = distribution("amcl-torch")
    for text in package.requires or []:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": _COMMANDS}):
            required[requirement.name] = requirement
    for extra in package.metadata.get_all("Provides-Extra") or []:
        if extra not in (_COMMANDS, *_DEVELOPMENT):
            extras[extra] = [
                r
                for r in map(Requirement, package.requires or [])
                if r.marker is not None
                and r.marker.evaluate({"extra": extra})
                and r.name not in required
            ]
    return required, extras


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _problem(requirement: Requirement) -> str:
    """Return what is wrong with a package; empty if nothing is."""
    installed = _installed(requirement.name)
    if installed is None:
        return f"{requirement.name} is not installed"
    if not requirement.specifier.contains(Version(installed), prereleases=True):
        return f"{requirement.name} is {installed}, and {requirement.specifier} is supported"
    return ""


def _devices() -> list[str]:
    cores = multiprocessing.cpu_count()
    threads = torch.get_num_threads()
    devices = [f"CPU: {cores} cores, {threads} threads in use{_memory()}"]
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        devices.append(f"GPU {index}: {properties.name}, {_gib(properties.total_memory)}")
    if torch.backends.mps.is_available():
        devices.append("GPU: Apple MPS")
    return devices


def _memory() -> str:
    """Return the memory of the machine in words; empty where the system does not say."""
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" not in names:
        return ""
    return f", {_gib(os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE'))} of memory"


def _gib(size: float) -> str:
    return f"{size / 2**30:.0f} GiB"


def _free_gib(path: Path) -> float:
    """Return the free space where a folder is, or where it would be made."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free / 2**30


def _lines(state: dict[str, Any]) -> list[str]:
    lines = [f"amcl {state['amcl']}, Python {state['python']}, {state['platform']}"]
    packages = (f"{name} {version or 'missing'}" for name, version in state["packages"].items())
    lines += ["", f"Packages: {', '.join(packages)}", "", "Devices:"]
    lines += [f"  {device}" for device in state["devices"]]
    lines += ["", f"Data folder: {state['data']['folder']}"]
    for name, present in state["data"]["sets"].items():
        lines.append(f"  {name:<14}{'present' if present else f'missing: amcl data {name}'}")
    lines += ["", "Free disk space:"]
    for label, gib in state["free"].items():
        low = " (low: checkpoints and features may not fit)" if gib < _LOW_DISK else ""
        lines.append(f"  {label:<16}{gib:,.0f} GiB{low}")
    lines += ["", "Extras:"]
    for extra, missing in state["extras"].items():
        lines.append(f"  {extra:<14}{'; '.join(missing) or 'installed'}")
    if any(state["extras"].values()):
        lines.append("  To add one: pip install '.[EXTRA]' in a checkout of amcl.")
    problems = state["problems"]
    lines += ["", "There are problems." if problems else "Everything that is required is there."]
    return lines
