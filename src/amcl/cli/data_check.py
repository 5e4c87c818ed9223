"""`amcl data check`: verify hashes of shards, and decode every image."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.options import read_options
from amcl.cli.output import print_line, results_console
from amcl.data.shards.check import Check
from amcl.errors import RunError
from amcl.settings import non_negative_int
from amcl.training.display import log_to_console

HELP = Help(
    about="Check images: the SHA-256 of shards, and whether every image can be decoded.",
    examples=(
        ("Check shards.", "amcl data check shards"),
        ("Check a folder of images.", "amcl data check FOLDER"),
        ("Use four processes.", "amcl data check shards --workers 4"),
    ),
    details="""Each bad file or image is a line of the output; the exit code is 1 if there is
one.""",
)


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Options of `amcl data check`."""

    data: Annotated[str, tyro.conf.Positional]
    """Shards, tables, or a folder of images, as in `amcl pretrain --data`."""
    workers: int | None = None
    """Processes that decode; none: one a core, at most 8."""

    def __post_init__(self) -> None:
        if self.workers is not None:
            non_negative_int("workers", self.workers, "give the number of processes, or 0 for none")


@command("amcl data check")
def main(args: list[str]) -> None:
    """Run the command."""
    options = read_options(CheckOptions, args, command="amcl data check", help=HELP)
    log_to_console()
    check = Check(options.data, options.workers)
    console = results_console()
    count = 0
    for fault in check.faults():
        count += 1
        print_line(str(fault), console)
    hashes = f"{check.shards:,} shards compared with their hashes" if check.shards else ""
    done = ", ".join(filter(None, (hashes, f"{check.images:,} images decoded")))
    if count:
        raise RunError(f"{options.data}: {done}; {count:,} faults.")
    print_line(f"{options.data}: {done}; all is well.")
