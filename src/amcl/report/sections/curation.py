"""Section of curations that were made with the runs."""

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from amcl.checkpoints import open_model
from amcl.curation import Curation, read_curation
from amcl.curation.uncertainty import model_fingerprint, trained_method
from amcl.errors import RunError
from amcl.files import expand_home
from amcl.report.blocks import Block, Link, Section
from amcl.report.curation import FILE
from amcl.report.curation.words import facts
from amcl.report.runs import Run
from amcl.results import Table

HOW = "Copies, odd images and more, by what this model sees in a folder of images."


def curations(runs: Sequence[Run], folders: Sequence[Path], page: Path) -> Section:
    """Return the key numbers of curations, with links to their pages.

    Args:
        runs: The runs.
        folders: Folders of `amcl curate`.
        page: Folder of the page that has the section.

    Raises:
        RunError: A curation was made with another model, or it has no page.
    """
    names = {_fingerprint(run): run.name for run in runs}
    blocks: list[Block] = []
    for folder in map(expand_home, folders):
        curation = read_curation(folder)
        model = curation.info["model"]
        if model["fingerprint"] not in names:
            raise RunError(
                f"--curation {folder} was made with other weights than those of "
                f"{', '.join(names.values())}: with {model['name']}."
            )
        blocks += _blocks(curation, names[model["fingerprint"]], len(runs) > 1, page)
    return Section("Curation", blocks, HOW)


def _fingerprint(run: Run) -> str:
    model = open_model(run.path)
    return model_fingerprint(model, trained_method(model))


def _blocks(curation: Curation, run: str, several: bool, page: Path) -> list[Block]:
    file = curation.folder / FILE
    if not file.is_file():
        raise RunError(f"--curation {curation.folder} has no {FILE}: run amcl curate again.")
    header, row = zip(*facts(curation), strict=True)
    source = curation.info["data"]["source"]
    caption = f"{source}, by {run}" if several else source
    # Quoted, no name of a folder is taken for the scheme of an address.
    address = quote(os.fsencode(os.path.relpath(file, page)))
    return [Table(header, [row], caption), Link(f"Look at {source}", address)]
