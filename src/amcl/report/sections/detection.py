"""Detectors: average precision, by class too, and pictures of detections beside the truth."""

import shlex
from collections.abc import Sequence

from amcl.checkpoints.evaluations import Result
from amcl.data.decode import UnreadableImage, decode_whole, size
from amcl.data.records import FileRecord
from amcl.report.blocks import Block, Gallery, Note, Paragraph, Picture, Section
from amcl.report.runs import Run, beside
from amcl.results import Table
from amcl.results.precision import precision_table
from amcl.results.read import newest

HOW = (
    "A detector was trained end to end from the backbone. AP is the mean over classes, and over "
    "overlaps from 0.50 to 0.95 at which an object counts as detected. In the pictures, annotated "
    "objects are on the left and detected ones on the right, with their scores."
)
_LARGEST = 2_000  # pixels a side of a picture; `amcl detect` draws some 1,000
_MOST = 10  # classes at each end of a list, where there are more than twice as many


def detection(runs: Sequence[Run]) -> Section | None:
    """Return the detectors of runs; None where no run has one."""
    if not any(_results(run) for run in runs):
        return None
    return Section("Detection", beside(runs, _of_run), HOW)


def _results(run: Run) -> list[Result]:
    return [r for r in newest(run.results) if r.protocol == "detect" and not r.checkpoint]


def _of_run(run: Run) -> list[Block]:
    blocks: list[Block] = []
    for result in _results(run):
        settings = result.settings
        blocks.append(
            Paragraph(
                f"On {result.data}, {result.images.get('test', 0):,} test images, after "
                f"{settings.get('epochs')} epochs on {result.images.get('train', 0):,} images of "
                f"{settings.get('image_size')} pixels, seed {result.seed}"
                f"{', from random weights' if settings.get('scratch') else ''}; in %."
            )
        )
        blocks += [precision_table(result), *_classes(result), *_pictures(run, result)]
    return blocks


def _classes(result: Result) -> list[Block]:
    """Return the precision of each class, of many those at both ends."""
    boxes = result.details.get("box_classes", {})
    masks = result.details.get("mask_classes", {})
    classes = [name for name, value in boxes.items() if value is not None]
    classes.sort(key=lambda name: -boxes[name])
    shown = classes
    caption = "Average precision of each class, in %."
    if len(classes) > 2 * _MOST:
        shown = classes[:_MOST] + classes[-_MOST:]
        caption = (
            f"The {_MOST} classes of the highest and of the lowest average precision in %, of "
            f"{len(classes)} with objects."
        )
    header = ["class", "boxes", *(["masks"] if masks else [])]
    rows = []
    for name in shown:
        values = [boxes[name], *([masks.get(name)] if masks else [])]
        rows.append([name, *("–" if v is None else f"{100 * v:.1f}" for v in values)])
    return [Table(header, rows, caption)] if rows else []


def _pictures(run: Run, result: Result) -> list[Block]:
    folder = result.path(run.path).with_suffix("") / "pictures"
    pictures = []
    lost = 0
    for number, name in enumerate(result.details.get("pictures", [])):
        try:
            picture = FileRecord(str(folder / f"{number:02d}.png"))
            shape = size(picture)
            if max(shape) > _LARGEST:  # all pictures are held until the page is written
                raise UnreadableImage(picture.name, f"more than {_LARGEST:,} pixels a side")
            pixels = decode_whole(picture, shape)
        except UnreadableImage:
            lost += 1
            continue
        pictures.append(Picture([pixels], title=name))
    blocks: list[Block] = []
    if pictures:
        caption = "Annotated objects on the left, detected ones on the right."
        blocks.append(Gallery(pictures, caption, "annotated and detected objects", large=True))
    if lost:
        blocks.append(
            Note(f"{lost} pictures are missing from {shlex.quote(str(folder))} or cannot be read.")
        )
    return blocks
