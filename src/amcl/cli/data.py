"""`amcl data NAME`: put a known data set into the data folder; `pack` and `check` of one's own."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from amcl.cli import data_check, data_pack
from amcl.cli.options import read_options
from amcl.data.download import DownloadError, download
from amcl.data.locate import suggestion
from amcl.data.named import DATASETS, data_root


@dataclass(frozen=True)
class Data:
    """Put a known data set into the data folder: downloaded, checked, whole or not at all.

    Known are cifar10, cifar100 and stl10, and, to be fetched by hand, tinyimagenet and imagenet,
    for which it says where they are to be had.

    amcl data pack FOLDER --out shards   pack images of your own into shards

    amcl data check shards               verify shards, and decode every image
    """

    name: Annotated[str, tyro.conf.Positional]
    """The data set."""

    root: Path | None = None
    """The data folder; else $AMCL_DATA, else ~/.cache/amcl."""


def main(args: list[str]) -> int:
    """Run the command; 0 if the data set is there at the end, 1 if not, 2 for a wrong name."""
    parts = {"pack": data_pack.main, "check": data_check.main}
    if args and args[0] in parts:
        return parts[args[0]](args[1:])
    try:
        options = read_options(Data, args, command="amcl data")
    except ValueError as error:
        print(f"amcl data: {error}", file=sys.stderr)
        return 2
    if options.name == "builtin":
        print("The built-in data set needs no download.")
        return 0
    if options.name not in DATASETS:
        print(
            f"amcl data: {options.name!r} is no known data set.{suggestion(options.name)} "
            f"Known are {', '.join(DATASETS)}.",
            file=sys.stderr,
        )
        return 2
    try:
        download(options.name, data_root(options.root), lambda line: print(line, flush=True))
    except (DownloadError, ValueError, OSError) as error:
        print(f"amcl data: {error}", file=sys.stderr)
        return 1
    return 0
