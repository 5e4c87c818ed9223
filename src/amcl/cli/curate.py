"""`amcl curate`: copies, odd and ambiguous images of a folder, and what to label first."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal

import tyro

from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.model import Model, ModelOptions
from amcl.cli.options import read_options
from amcl.cli.output import print_line, results_console
from amcl.curation import CurationSettings, curate
from amcl.curation.settings import Export, LinkKind
from amcl.curation.summary import summary
from amcl.data.display import Bands
from amcl.report import curation_page
from amcl.training.display import log_to_console
from amcl.training.hardware import set_threads

HELP = Help(
    about="Find copies, odd and ambiguous images of a folder, and those to label first. It writes "
    "a page to look at, a table, and lists to act on; nothing is moved or deleted.",
    examples=(
        ("Check a folder by a run.", "amcl curate runs/first --data FOLDER --out curation"),
        (
            "Select 1,000 images, by published weights.",
            "amcl curate timm:resnet50 --data FOLDER --out curation --select 1000 --by balanced",
        ),
        (
            "List the images that stand in a test set too.",
            "amcl curate runs/first --data FOLDER --out curation --against OTHER_FOLDER",
        ),
    ),
    main=(
        "data",
        "out",
        "threshold",
        "select",
        "by",
        "against",
        "link",
        "export",
        "label-first",
        "seed",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Curate(CurationSettings):
    """Options of `amcl curate`."""

    model: Model
    data: Annotated[str, tyro.conf.arg(metavar="FOLDER|NAME")]
    """A folder of images in any nesting, shards, tables, or builtin, cifar10, cifar100, stl10."""
    out: Path
    """Folder of the results, new; the same command resumes one that was interrupted."""
    against: str | None = None
    """Another set, such as a test set: leaks.csv lists the images that stand in both."""
    link: Path | None = None
    """A new folder for links to the images that are kept, or to those that are selected."""
    link_kind: LinkKind | None = None
    """symbolic links, hard links, or copies of the files; none: symbolic."""
    export: tuple[Export, ...] = ()
    """Other tools that the table is written for: fiftyone, coco, huggingface, lightly."""
    reuse: Path | None = None
    """Folder of an earlier curation: take over what was measured there of the same images."""
    data_root: Path | None = None
    """Where named sets lie; none: $AMCL_DATA, or ~/.cache/amcl."""
    canvas: int | None = None
    """Pixels a side that pictures are decoded to; none: 1.5 times the input."""
    crop: float | None = None
    """A central square of this share of the shorter side, 0: all of the picture; none: 0.875 where
    pictures are decoded larger than inputs of more than 64 pixels, else all."""
    bands: Bands | None = None
    """Channels that the page shows as red, green and blue, counted from 1; none: the first three,
    and gray where there are one or two. Values of more than 8 bits are stretched to be seen."""
    workers: int | None = None
    """Processes that decode pictures; none: one a core, at most 8."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto: a GPU where there is one."""
    threads: int = 0
    """CPU threads; 0: as torch chooses."""
    weights: Annotated[ModelOptions, tyro.conf.OmitArgPrefixes] = field(
        default_factory=ModelOptions
    )


@command("amcl curate", "What was measured is kept: the same command resumes.")
def main(args: list[str]) -> None:
    """Run the command."""
    options = read_options(Curate, args, command="amcl curate", help=HELP)
    log_to_console()
    set_threads(options.threads)
    curation = curate(
        options.weights.open(options.model),
        options.data,
        options.out,
        CurationSettings(**{f.name: getattr(options, f.name) for f in fields(CurationSettings)}),
        against=options.against,
        link=options.link,
        link_kind=options.link_kind,
        export=options.export,
        reuse=options.reuse,
        data_root=options.data_root,
        canvas=options.canvas,
        crop=options.crop,
        workers=options.workers,
        accelerator=options.accelerator,
    )
    page = curation_page(
        curation,
        data_root=options.data_root,
        workers=options.workers,
        command=["amcl", "curate", *args],
        bands=options.bands,
    )
    size = page.stat().st_size / 2**20
    print_line(summary(curation), results_console())
    print_line(f"page: {page} ({size:.1f} MiB): open it in a browser", results_console())
