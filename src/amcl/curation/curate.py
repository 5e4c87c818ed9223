"""A curation from beginning to end."""

import logging
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from amcl.checkpoints import open_model
from amcl.checkpoints.loaded_model import LoadedModel
from amcl.curation.columns import Similarity, find_similar, make_columns, pixel_keys
from amcl.curation.exports import METADATA, metadata_csv, write_exports
from amcl.curation.leaks import find_leaks, leaks_csv
from amcl.curation.links import check_link_folder, link_images
from amcl.curation.lists import write_lists
from amcl.curation.measure import Measurements, Pass, identity_of
from amcl.curation.neighbors import unit_features
from amcl.curation.request import FILE, Request, begin
from amcl.curation.result import FORMAT, Curation, Info, read_curation, write_curation
from amcl.curation.selection import select
from amcl.curation.settings import CurationSettings, Export, LinkKind
from amcl.curation.summary import histogram_of, pairs_of
from amcl.curation.uncertainty import Absent, ViewPairs, model_fingerprint, trained_method
from amcl.data import absolute_source, default_workers, load_all_images, same_source
from amcl.data.load import AllImages
from amcl.errors import RunError
from amcl.evaluation.build import input_transform
from amcl.evaluation.cache import FeatureCache
from amcl.extras import missing, needed
from amcl.files import expand_home, write_text
from amcl.metrics.features import Features, Transform
from amcl.printable import printable
from amcl.training.hardware import find_accelerator

logger = logging.getLogger("amcl")


@dataclass(frozen=True)
class _Set:
    """Images of a source with what was measured of those that can be read."""

    all: AllImages
    measured: Measurements
    features: Features
    x: torch.Tensor
    names: list[str]
    file: Path

    @property
    def paths(self) -> list[str]:
        """Absolute paths of the rows."""
        return [self.all.paths[i] for i in self.measured.indices.tolist()]


def curate(
    model: LoadedModel | str | Path,
    data: str,
    out: str | Path,
    settings: CurationSettings | None = None,
    *,
    against: str | None = None,
    link: str | Path | None = None,
    link_kind: LinkKind = "symbolic",
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
        link_kind: Kind of the links.
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
    model = model if isinstance(model, LoadedModel) else open_model(model)
    if against is not None and same_source(data, against):
        raise ValueError(f"--against {against} is the folder of --data itself: name another set.")
    method = trained_method(model)
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
        link_kind=link_kind,
        export=tuple(export),
    )
    if link is not None and not (out / FILE).is_file():
        check_link_folder(link)
    begin(out, request)
    if (out / "curation.json").is_file():
        logger.info("%s is complete: nothing was left to do.", out)
        return read_curation(out)
    work = _Work(
        model, method, transform, request, out, _measured(out, reuse), workers, accelerator
    )
    return _finish(work, data, images, other)


@dataclass(frozen=True)
class _Work:
    """A model at work on sets of images."""

    model: LoadedModel
    method: Any
    transform: Transform
    request: Request
    out: Path
    measured: Path
    workers: int | None
    accelerator: Literal["auto", "cpu", "cuda", "mps"]

    def measure(self, images: AllImages, part: str) -> _Set:
        """Measure all images of a set, or take over what was measured."""
        settings = self.request.settings
        device = find_accelerator(self.accelerator)
        views = None
        if part == "images" and not isinstance(self.method, Absent):
            assert self.model.config is not None
            makes = self.transform.views(self.model.config.views)
            views = ViewPairs(self.method, makes, settings.pairs, device)
        fingerprint = images.images.fingerprint()
        identity = [self.request.model, self.request.transform, fingerprint]
        a_pass = Pass(
            folder=self.measured / "measured" / part,
            images=images.images,
            model=self.model,
            transform=self.transform,
            cache=FeatureCache(self._features_folder()),
            views=views,
            seed=settings.seed,
            device=device,
            workers=default_workers() if self.workers is None else self.workers,
            identity=identity_of([*identity, settings.pairs, settings.seed]),
        )
        measured, features = a_pass.run()
        if not torch.equal(measured.indices, features.indices):
            raise RunError(
                f"other images could be read before: remove {a_pass.folder}, and the features in "
                f"{a_pass.cache.folder}, and run again."
            )
        return _Set(
            images,
            measured,
            features,
            unit_features(features.values),
            [images.names[i] for i in measured.indices.tolist()],
            a_pass.cache.path(self.model.backbone, images.images, self.transform),
        )

    def _features_folder(self) -> Path:
        """Return the folder of features, which is the run's if it can be: evaluations share it."""
        run = self.model.folder
        shared = run is not None and os.access(run, os.W_OK)
        return (run if run is not None and shared else self.measured) / "features"


def _finish(work: _Work, data: str, images: AllImages, other: AllImages | None) -> Curation:
    """Measure the images, compare them, and write everything; the file that is complete last."""
    settings = work.request.settings
    ours = work.measure(images, "images")
    similar = find_similar(ours.x, ours.measured, ours.names, images.images, settings)
    printed = [printable(name) for name in ours.names]
    table = make_columns(ours.x, ours.measured, printed, similar, settings)
    left_out = _left_out(work.method, ours.measured, table)
    for names, reason in _by_reason(left_out).items():
        logger.info("without %s: %s", names, reason)
    label_first = _select(ours, table, "typical", settings.label_first, settings.seed)
    selected: list[int] = []
    if settings.select is not None:
        selected = _select(ours, table, settings.rule, settings.select, settings.seed)
        if len(selected) < settings.select:
            logger.warning("only %d images remain without copies: all are selected", len(selected))
        order = {row: rank for rank, row in enumerate(selected, 1)}
        table["selected"] = [order.get(row) for row in range(len(ours.names))]
    info = _info(work, data, ours, similar, table, left_out, label_first)
    curation = Curation(work.out, table, info)
    if other is not None:
        info["counts"]["leaks"] = _write_leaks(work, ours, printed, other, similar.threshold)
    write_lists(curation, label_first, selected)
    export = work.request.export
    write_exports(curation, export, ours.paths if images.paths else printed, ours.features.values)
    if work.request.link is not None:
        rows = sorted(selected) or curation.rows("keep")
        texts = {METADATA: metadata_csv(curation, rows)} if "huggingface" in export else {}
        targets = {ours.names[row]: ours.paths[row] for row in rows}
        link_images(Path(work.request.link), targets, work.request.link_kind, texts)
    if missing("pyarrow"):
        logger.info("%s", needed("curation.parquet", "pyarrow", "parquet"))
    write_curation(curation)
    return read_curation(work.out)


def _measured(out: Path, reuse: str | Path | None) -> Path:
    """Return the folder in which measurements are."""
    if reuse is None:
        return out
    folder = expand_home(reuse)
    if not (folder / "curation.json").is_file():
        raise RunError(f"--reuse {folder} is no complete curation: finish it first.")
    measured = folder / read_curation(folder).info["measured"]
    if not (measured / "measured").is_dir():
        raise RunError(f"--reuse {folder}: what was measured is not in {measured} anymore.")
    return measured


def _left_out(method: Any, measured: Measurements, table: dict[str, Any]) -> dict[str, str]:
    reasons: dict[str, str] = {}
    if not measured.tau_differs:
        reason = "the temperature is the same for all images"
        if isinstance(method, Absent):
            reason = method.reason
        elif "tau" not in measured.pairs:
            reason = f"{type(method.settings).title} has no temperatures of pairs of any images"
        reasons |= dict.fromkeys(("uncertainty", "uncertainty_spread"), reason)
    if isinstance(method, Absent):
        reasons["ambiguity"] = method.reason
    if "bytes" not in table:
        reasons["bytes"] = "the images are no files"
    return reasons


def _by_reason(left_out: dict[str, str]) -> dict[str, str]:
    """Return reasons by the names of all columns that they are about."""
    names: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        names.setdefault(reason, []).append(name)
    return {", ".join(columns): reason for reason, columns in names.items()}


def _select(ours: _Set, table: dict[str, Any], rule: Any, count: int, seed: int) -> list[int]:
    """Return selected rows in their order, among those that are kept."""
    if not count:
        return []
    rows = torch.tensor(table["keep"]).nonzero().squeeze(1)
    uncertainty = table.get("uncertainty")
    chosen = select(
        rule,
        count,
        ours.x if len(rows) == len(ours.x) else ours.x[rows],
        typicality=torch.tensor(table["typicality"])[rows],
        uncertainty=None if uncertainty is None else torch.tensor(uncertainty)[rows],
        seed=seed,
    )
    selected: list[int] = rows[chosen].tolist()
    return selected


def _write_leaks(
    work: _Work, ours: _Set, printed: list[str], other: AllImages, threshold: float
) -> int:
    """Write `leaks.csv`; return the number of images that stand in the other set."""
    theirs = work.measure(other, "against")
    contents: list[tuple[Any, Any]] = [
        (pixel_keys(ours.measured, ours.all.images), pixel_keys(theirs.measured, other.images))
    ]
    if ours.measured.files and theirs.measured.files:
        contents.append((ours.measured.files, theirs.measured.files))
    leaks = find_leaks(ours.x, theirs.x, threshold, contents)
    others = [printable(name) for name in theirs.names]
    write_text(work.out / "leaks.csv", leaks_csv(leaks, printed, others))
    return len({leak.row for leak in leaks})


def _info(
    work: _Work,
    data: str,
    ours: _Set,
    similar: Similarity,
    table: dict[str, Any],
    left_out: dict[str, str],
    label_first: list[int],
) -> Info:
    pairs, pairs_left_out = pairs_of(similar, similar.thresholds[0]["cosine"])
    unreadable = ours.measured.unreadable
    counts = {
        "images": len(ours.all.names),
        "unreadable": len(unreadable),
        "exact": table["duplicate_kind"].count("exact"),
        "near": table["duplicate_kind"].count("near"),
        "groups": int(similar.groups.group.max()),
        "outliers": sum(table["outlier"]),
        "keep": sum(table["keep"]),
        "selected": sum(rank is not None for rank in table.get("selected", ())),
    }
    values = work.request.values()
    settings = {**asdict(work.request.settings), "against": values["against"]}
    return {
        "format": FORMAT,
        "settings": {**settings, "link": values["link"], "export": values["export"]},
        "model": {
            "name": work.model.name,
            "fingerprint": work.request.model,
            "image_size": work.model.backbone.image_size,
        },
        "data": {
            "source": absolute_source(data),
            "fingerprint": work.request.images,
            "images": len(ours.all.names),
            "unreadable": [(printable(ours.all.names[i]), reason) for i, reason in unreadable],
        },
        "left_out": left_out,
        "counts": counts,
        "threshold": similar.threshold,
        "thresholds": similar.thresholds,
        "histogram": histogram_of(similar),
        "pairs": pairs,
        "pairs_left_out": pairs_left_out,
        "label_first": label_first,
        "measured": os.path.relpath(work.measured, work.out),
        "features": str(ours.file.absolute()),
    }
