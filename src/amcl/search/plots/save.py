"""Pictures as files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from amcl.drawing import save_png
from amcl.search.plots.axis import Axis
from amcl.search.plots.heads import heads_and_top_k
from amcl.search.plots.history import history
from amcl.search.plots.importance import importance
from amcl.search.plots.sensitivity import OWN_PICTURE, sensitivity
from amcl.search.records import Record


def save_plots(
    records: Sequence[Record],
    axes: Mapping[str, Axis],
    objective_label: str,
    share: bool,
    folder: Path,
    images: int | None = None,
) -> list[Path]:
    """Write each picture that the space allows as a PNG file; where they are.

    `images`: how many the objective is an accuracy on.
    """
    figures = {
        "history": history(records, objective_label, share, images),
        "importance": importance(records, axes, images),
    }
    if any(name not in OWN_PICTURE for name in axes):
        figures["sensitivity"] = sensitivity(records, axes, objective_label, share, images)
    if any(name in OWN_PICTURE for name in axes):
        figures["heads_and_top_k"] = heads_and_top_k(records, axes, objective_label, share, images)
    paths = [folder / f"{name}.png" for name in figures]
    for path, figure in zip(paths, figures.values(), strict=True):
        save_png(figure, path)
    return paths
