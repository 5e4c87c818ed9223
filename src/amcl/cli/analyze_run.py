"""`amcl analyze overlap RUN`: what a run makes of crops that share little."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from amcl.analysis.crops import CropSettings, crop_pairs_of_run
from amcl.analysis.overlap import JSON, PICTURE, crop_overlap, write_crop_overlap
from amcl.cli.help import Help
from amcl.cli.options import read_options
from amcl.cli.output import print_line, results_console
from amcl.files import expand_home
from amcl.training.display import log_to_console
from amcl.training.hardware import set_threads

HELP = Help(
    about="Measure temperature and similarity of positive pairs by the overlap of their crops.",
    examples=(
        ("Measure a run.", "amcl analyze overlap runs/first"),
        (
            "Take more images and pairs.",
            "amcl analyze overlap runs/first --images 2000 --pairs 8 --out analyses/crops",
        ),
        ("Take other images.", "amcl analyze overlap runs/first --data FOLDER"),
    ),
    details=f"""Views are made as in the run's training; the overlap of a pair is the area that its
two crops share over that of their union (IoU), in the original image. {JSON} has means in bins of
overlap, for each head and over heads, and Spearman's rank correlations with 95 % intervals from a
bootstrap over images; {PICTURE} shows them. Without a run, `amcl analyze overlap` trains runs of
several overlaps: see `amcl analyze --help`.""",
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `amcl analyze overlap RUN`."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    out: Path | None = None
    """Folder of the results; none: "analysis" in the run folder."""
    data: str | None = None
    """The images, if they were moved or are to be others."""
    data_root: str | None = None
    """Folder of named sets, if it was moved."""
    threads: int = 0
    """CPU threads; 0: as torch chooses."""
    settings: Annotated[CropSettings, tyro.conf.OmitArgPrefixes] = field(
        default_factory=CropSettings
    )


def parse(args: list[str]) -> Options:
    """Return the options among the words behind `amcl analyze overlap`."""
    return read_options(Options, args, command="amcl analyze overlap", help=HELP)


def run(options: Options) -> None:
    """Measure, write and print."""
    log_to_console(logging.WARNING)
    set_threads(options.threads)
    folder = expand_home(options.run)
    out = folder / "analysis" if options.out is None else expand_home(options.out)
    pairs = crop_pairs_of_run(
        folder, options.settings, data=options.data, data_root=options.data_root
    )
    result = crop_overlap(pairs, options.settings.seed)
    write_crop_overlap(out, result, pairs, options.settings, str(options.run))
    console = results_console()
    n, k = pairs.iou.shape
    print_line(f"{n:,} {pairs.source}, {k} pairs of views of each", console)
    if pairs.unreadable:
        print_line(f"left out: {len(pairs.unreadable)} that cannot be read", console)
    print_line("rank correlation with the overlap (IoU) of the two crops:", console)
    if result.tau is None:
        print_line("  τ⁺: pairs of images do not differ in it", console)
    else:
        print_line(f"  τ⁺          {result.tau.correlation}", console)
    print_line(f"  similarity  {result.similarity.correlation}", console)
    if result.tau_by_similarity is not None:
        print_line(f"of τ⁺ with the similarity: {result.tau_by_similarity}", console)
    print_line(f"{out / JSON}, {out / PICTURE}", console)
