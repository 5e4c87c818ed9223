"""`amcl data NAME`: put a known data set into the data folder; `pack` and `check` of one's own."""

import sys
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import tyro

from amcl.cli import data_check, data_pack
from amcl.cli.help import Help
from amcl.cli.options import read_options
from amcl.data.download import DownloadError, download
from amcl.data.locate import suggestion
from amcl.data.named import DATASETS, data_root

HELP = Help(
    about="Put a known data set into the data folder: downloaded, checked, whole or not at all.",
    examples=(
        ("Fetch CIFAR-10.", "amcl data cifar10"),
        ("Fetch STL-10 into a folder of your own.", "amcl data stl10 --root /data"),
        ("Read where ImageNet is to be had.", "amcl data imagenet"),
        ("Pack images of your own into shards.", "amcl data pack FOLDER --out shards"),
        ("Verify shards, and decode every image.", "amcl data check shards"),
    ),
    details="""Downloaded are cifar10, cifar100 and stl10. For tinyimagenet and imagenet, which
are fetched by hand, the command says where they are to be had.""",
)


@dataclass(frozen=True)
class Data:
    """Options of `amcl data`."""

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
        if args[1:] and (near := get_close_matches(args[0], parts, n=1)):
            raise ValueError(f"there is no amcl data {args[0]}: did you mean amcl data {near[0]}?")
        options = read_options(Data, args, command="amcl data", help=HELP)
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
