"""A curation from beginning to end."""

import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch

from amcl.checkpoints import open_model
from amcl.checkpoints.loaded_model import LoadedModel
from amcl.curation.columns import find_similar, make_columns, pixel_keys
from amcl.curation.exports import METADATA, metadata_csv, write_exports
from amcl.curation.info import by_reason, make_info
from amcl.curation.leaks import find_leaks, leaks_csv
from amcl.curation.links import check_link_folder, is_within, link_images
from amcl.curation.lists import write_lists
from amcl.curation.request import FILE, Request, begin, check_reusable
from amcl.curation.result import Curation, read_curation, write_curation
from amcl.curation.selection import NO_UNCERTAINTIES, Rule, select
from amcl.curation.settings import CurationSettings, Export, LinkKind
from amcl.curation.uncertainty import Absent, model_fingerprint, trained_method
from amcl.curation.work import MeasuredSet, Work
from amcl.data import absolute_source, load_all_images, same_source
from amcl.data.load import AllImages
from amcl.errors import RunError
from amcl.evaluation.build import input_transform
from amcl.extras import missing, needed
from amcl.files import expand_home, write_text
from amcl.printable import printable

logger = logging.getLogger("amcl")


def curate(
    model: LoadedModel | str | Path,
    data: str,
    out: str | Path,
    settings: CurationSettings | None = None,
    *,
    against: str | None = None,
    link: str | Path | None = None,
    link_kind: LinkKind | None = None,
    export: Sequence[Export] = (),
    reuse: str | Path | None = None,
    data_root: Path | None = None,
    canvas: int | None = None,
    crop: float | None = None,
    workers: int | None = None,
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto",
) -> Curation:
    """Find copies, odd and ambiguous images, and images to label first; see docs/curation.md.

    Nothing of the images is changed. The same call resumes one that was killed.

    Args:
        model: A model, or what `open_model` takes. Uncertainties need a run whose temperatures
            adapt.
        data: A folder of images, a named set, or "builtin".
        out: Folder of the results, a new one or that of the same call.
        settings: Numbers, thresholds, the selection and the seed.
        against: Another set, in which copies of the images are looked for.
        link: A new folder for links to the images that are kept, or to those that are selected.
        link_kind: Kind of the links; None for symbolic ones.
        export: Tools that the table is written for.
        reuse: Folder of an earlier curation of the same images by the same model: what was measured
            there is taken over.
        data_root: Folder of named sets.
        canvas: Pixels a side that pictures are decoded at.
        crop: Share of the shorter side that a central crop takes; see `EvaluationData`.
        workers: Processes that decode pictures; None for one a core.
        accelerator: Device that computes.

    Returns:
        The curation, as `read_curation` returns it.

    Example:
        >>> curation = curate("runs/first", "pictures", "curation")  # doctest: +SKIP
        >>> curation.rows("keep", False)  # doctest: +SKIP
        [3, 17]
    """
    settings = CurationSettings() if settings is None else settings
    out = expand_home(out)
    link = None if link is None else expand_home(link)
    if link is None and link_kind is not None:
        raise ValueError(
            f"--link-kind {link_kind} is the kind of the links of --link: give --link NEW_FOLDER "
            "too."
        )
    if link is not None and is_within(link, absolute_source(data)):
        raise ValueError(
            f"--link {link} lies in {data}, where the links would be images of --data themselves: "
            "name a folder outside of it."
        )
    model = model if isinstance(model, LoadedModel) else open_model(model)
    if against is not None and same_source(data, against):
        raise ValueError(f"--against {against} is the folder of --data itself: name another set.")
    method = trained_method(model)
    if settings.by == "uncertain" and isinstance(method, Absent):
        raise ValueError(f"{NO_UNCERTAINTIES} ({method.reason}).")
    size = model.backbone.image_size
    stored = model.image_options()
    images = load_all_images(data, root=data_root, image_size=size, canvas=canvas, **stored)
    if link is not None and not images.paths:
        raise ValueError(f"{data} has no files that --link could point to: give a folder.")
    other = None
    if against is not None:
        other = load_all_images(against, root=data_root, image_size=size, canvas=canvas, **stored)
    transform = input_transform(model, crop, images.images)
    request = Request(
        settings=settings,
        model=model_fingerprint(model, method),
        images=images.images.fingerprint(),
        transform=asdict(transform),
        against=None if against is None else absolute_source(against),
        others=None if other is None else other.images.fingerprint(),
        link=None if link is None else str(link.absolute()),
        link_kind=link_kind or "symbolic",
        export=tuple(export),
    )
    if link is not None and not (out / FILE).is_file():
        check_link_folder(link)
    is_complete = (out / "curation.json").is_file()
    measured = out if is_complete else _measured_folder(out, reuse, request)
    begin(out, request)
    if is_complete:
        logger.info("%s is complete: nothing was left to do.", out)
        return read_curation(out)
    work = Work(
        model=model,
        method=method,
        transform=transform,
        request=request,
        source=absolute_source(data),
        out=out,
        measured=measured,
        workers=workers,
        accelerator=accelerator,
    )
    return _finish(work, images, other)


def _finish(work: Work, images: AllImages, other: AllImages | None) -> Curation:
    """Measure the images, compare them, and write everything; the file that is complete last."""
    settings = work.request.settings
    measured = work.measure(images, "images")
    similar = find_similar(measured.x, measured.facts, measured.names, images.images, settings)
    printed = [printable(name) for name in measured.names]
    table = make_columns(measured.x, measured.facts, printed, similar, settings)
    label_first = _select(measured, table, "typical", settings.label_first, settings.seed)
    selected: list[int] = []
    if settings.select is not None:
        selected = _select(measured, table, settings.rule, settings.select, settings.seed)
        if len(selected) < settings.select:
            logger.warning("only %d images remain without copies: all are selected", len(selected))
        order = {row: rank for rank, row in enumerate(selected, 1)}
        table["selected"] = [order.get(row) for row in range(len(measured.names))]
    info = make_info(work, measured, similar, table, label_first)
    for reason, columns in by_reason(info["left_out"]).items():
        logger.info("without %s: %s", ", ".join(columns), reason)
    curation = Curation(work.out, table, info)
    if other is not None:
        info["counts"]["leaks"] = _write_leaks(work, measured, printed, other, similar.threshold)
    write_lists(curation, label_first, selected)
    _write_for_others(curation, work.request, measured, sorted(selected), printed)
    if missing("pyarrow"):
        logger.info("%s", needed("curation.parquet", "pyarrow", "parquet"))
    write_curation(curation)
    return read_curation(work.out)


def _write_for_others(
    curation: Curation,
    request: Request,
    images: MeasuredSet,
    selected: list[int],
    printed: Sequence[str],
) -> None:
    """Write exports, and links to the images that are selected or else kept."""
    paths = images.paths if images.all.paths else printed
    write_exports(curation, request.export, paths, images.features.values)
    if request.link is not None:
        rows = selected or curation.rows("keep")
        has_metadata = "huggingface" in request.export
        texts = {METADATA: metadata_csv(curation, rows)} if has_metadata else {}
        targets = {images.names[row]: images.paths[row] for row in rows}
        link_images(Path(request.link), targets, request.link_kind, texts)


def _measured_folder(out: Path, reuse: str | Path | None, request: Request) -> Path:
    """Return the folder in which measurements are."""
    if reuse is None:
        return out
    folder = expand_home(reuse)
    if not ((folder / "curation.json").is_file() and (folder / FILE).is_file()):
        raise RunError(f"--reuse {folder} is no complete curation: finish it first.")
    check_reusable(folder, request)
    measured = folder / read_curation(folder).info["measured"]
    if not (measured / "measured").is_dir():
        raise RunError(f"--reuse {folder}: what was measured is not in {measured} anymore.")
    return measured


def _select(
    measured: MeasuredSet, table: dict[str, Any], rule: Rule, count: int, seed: int
) -> list[int]:
    """Return selected rows in their order, among those that are kept."""
    if not count:
        return []
    rows = torch.tensor(table["keep"]).nonzero().squeeze(1)
    uncertainty = table.get("uncertainty")
    chosen = select(
        rule,
        count,
        measured.x if len(rows) == len(measured.x) else measured.x[rows],
        typicality=torch.tensor(table["typicality"])[rows],
        uncertainty=None if uncertainty is None else torch.tensor(uncertainty)[rows],
        seed=seed,
    )
    selected: list[int] = rows[chosen].tolist()
    return selected


def _write_leaks(
    work: Work, measured: MeasuredSet, printed: list[str], other: AllImages, threshold: float
) -> int:
    """Write `leaks.csv`; return the number of images that stand in the other set."""
    against = work.measure(other, "against")
    contents: list[tuple[Any, Any]] = [
        (pixel_keys(measured.facts, measured.all.images), pixel_keys(against.facts, other.images))
    ]
    if measured.facts.files and against.facts.files:
        contents.append((measured.facts.files, against.facts.files))
    leaks = find_leaks(measured.x, against.x, threshold, contents)
    others = [printable(name) for name in against.names]
    write_text(work.out / "leaks.csv", leaks_csv(leaks, printed, others))
    return len({leak.row for leak in leaks})
