"""`amcl data pack`: pack images into shards."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.options import read_options
from amcl.cli.output import print_line
from amcl.data.options import Labels
from amcl.data.shards.pack import SHARD_SIZE, pack
from amcl.data.shards.plan import ShardSize
from amcl.settings import whole_number
from amcl.training.display import log_to_console

HELP = Help(
    about="Pack images into shards, tar archives that `--data` reads and WebDataset too.",
    examples=(
        ("Pack a folder.", "amcl data pack FOLDER --out shards"),
        (
            "Pack 10,000 images into each shard, in a random order.",
            "amcl data pack FOLDER --out shards --shard-size 10000 --shuffle 0",
        ),
        ("Verify the result.", "amcl data check shards"),
    ),
    details="""Files are packed as they are, with their classes; each split gets a folder. The same
command resumes after a stop. manifest.json has the SHA-256 of every shard.""",
)


@dataclass(frozen=True, kw_only=True)
class Pack:
    """Options of `amcl data pack`."""

    data: Annotated[str, tyro.conf.Positional]
    """A folder of images, in the layouts that `amcl pretrain` takes; also tables."""
    out: Path
    """Folder of the shards, new; the same command resumes one that was interrupted."""
    shard_size: str = SHARD_SIZE
    """Size of a shard: bytes, as in 500MB or 1GiB, or a number of images, as in 10000."""
    labels: Labels = "auto"
    """auto: folders are classes if every image is at CLASS/FILE; folders: the first level of
    folders; none: no labels."""
    shuffle: int | None = None
    """Seed of a random order; none: the order of the folder, with which training is the same."""
    workers: int | None = None
    """Shards that are written at once; none: one a core, at most 8."""

    def __post_init__(self) -> None:
        ShardSize.parse(self.shard_size)
        if self.workers is not None:
            whole_number("workers", self.workers, "give the number of threads that pack")


@command("amcl data pack", "Finished shards are kept: the same command resumes.")
def main(args: list[str]) -> None:
    """Run the command."""
    options = read_options(Pack, args, command="amcl data pack", help=HELP)
    log_to_console()
    manifest = pack(
        options.data,
        options.out,
        shard_size=options.shard_size,
        labels=options.labels,
        shuffle=options.shuffle,
        workers=options.workers,
    )
    for path, reason in manifest.skipped:
        print_line(f"skipped {path}: {reason}")
    skipped = f" {len(manifest.skipped):,} files were skipped." if manifest.skipped else ""
    print_line(
        f"{options.out}: {manifest.images:,} images in {len(manifest.shards):,} shards, "
        f"{manifest.size / 1e6:,.1f} MB.{skipped}"
    )
    print_line(f"train on them with: amcl pretrain --data {shlex.quote(str(options.out))}")
