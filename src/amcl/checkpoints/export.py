"""Export of a model as files for other tools."""

import logging
import os
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import torch

from amcl.checkpoints.card import model_card
from amcl.checkpoints.files import export_backbone, save_tensors
from amcl.checkpoints.loaded_model import LoadedModel
from amcl.checkpoints.method import saved_method
from amcl.checkpoints.onnx_file import require_onnx, write_onnx
from amcl.errors import RunError
from amcl.files import digest, file_digest, remove_unfinished, temporary_folder, write_text
from amcl.metrics.features import fingerprint
from amcl.text_files import read_json, require, to_json

LIST = "export.json"
"""File that lists what an export wrote, so that the next one knows its own files."""
FILES = ("backbone.safetensors", "method.safetensors", "backbone.onnx", "README.md")
"""Files that an export may write."""

logger = logging.getLogger("amcl")


def export(
    model: LoadedModel,
    out: Path | None = None,
    *,
    onnx: bool = False,
    heads: bool = True,
    overwrite: bool = False,
) -> list[Path]:
    """Write a model into a new folder.

    - `backbone.safetensors`: timm's keys; amcl and `Backbone.code` load it;
    - `method.safetensors`, with `heads` and where there is a checkpoint: heads and φ too;
    - `backbone.onnx`, with `onnx`: images (batch, C, S, S), normalized, to features;
    - `README.md`: a model card; `export.json`: a list of these files.

    The folder may hold an earlier export of the same run, and nothing else. Files that are missing
    are added; to change or remove any takes `overwrite`. Files that a user edited or added are
    never touched.

    Args:
        model: The model, as `open_model` returns it.
        out: The folder; None for `RUN/export`.
        onnx: Whether to write an ONNX file.
        heads: Whether to write the whole method, with its heads.
        overwrite: Whether files of an earlier export may be replaced.

    Returns:
        The files of the export.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from amcl.checkpoints import open_model
        >>> model = open_model("resnet18", width=0.25, image_size=32)
        >>> with TemporaryDirectory() as folder:
        ...     [path.name for path in export(model, Path(folder))]
        ['README.md', 'backbone.safetensors', 'export.json']
    """
    folder = _folder(model, out)
    earlier = _earlier(folder, model)
    if onnx:
        require_onnx()
    with temporary_folder(folder) as staging:
        export_backbone(staging / "backbone.safetensors", model.backbone, model.metadata())
        if heads and model.checkpoint is not None:
            _write_method(staging / "method.safetensors", model)
        if onnx:
            about = {**model.metadata(), **model.backbone.metadata()}
            write_onnx(model.backbone, staging / "backbone.onnx", about)
        write_text(staging / "README.md", model_card(model))
        return _move(staging, folder, model, earlier, overwrite)


class _Written(TypedDict):
    """Content of `export.json`."""

    run: str
    """Digest of the run."""
    weights: str
    """Digest of the weights."""
    files: dict[str, str]
    """File → SHA-256."""
    before: NotRequired[dict[str, str]]
    """The same of files that are being replaced; it is here until the export is complete."""


def _folder(model: LoadedModel, out: Path | None) -> Path:
    if out is not None:
        return out
    if model.folder is None:
        raise ValueError(f"{model.name} is no run: say where the files go, with --out FOLDER.")
    return model.folder / "export"


def _run_of(model: LoadedModel) -> str:
    """Return a digest that is the same for all checkpoints of a run."""
    if model.config is None:
        return fingerprint(model.backbone)
    return digest([model.config.to_toml().encode()])


def _earlier(folder: Path, model: LoadedModel) -> _Written | None:
    """Return the export that the folder holds; an error if it holds anything else."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file: choose a new folder with --out.")
    if not folder.exists():
        return None
    remove_unfinished(folder)
    present = set(os.listdir(folder)) - {LIST}
    if not present:
        return None
    fix = "choose a new folder with --out."
    if not (folder / LIST).is_file():
        raise RunError(f"{folder} is not empty, and holds no export: {fix}")
    earlier = _read_list(folder / LIST)
    before = earlier.get("before", {})
    others = sorted(present - earlier["files"].keys() - before.keys())
    if others:
        raise RunError(f"{folder} holds {', '.join(others)} beside an export: {fix}")
    if earlier["run"] != _run_of(model):
        raise RunError(f"{folder} holds the export of another run: {fix}")
    digests = {name: file_digest(folder / name) for name in sorted(present)}
    known = [earlier["files"].items(), before.items()]
    changed = [name for name, sha in digests.items() if all((name, sha) not in k for k in known)]
    if changed:
        raise RunError(
            f"{', '.join(changed)} in {folder} changed after the export and would be lost: move it "
            f"away, or {fix}"
        )
    return {**earlier, "files": digests}


def _read_list(path: Path) -> _Written:
    """Read `export.json`. It may come from anywhere, so names of other files are an error."""
    try:
        values: Any = read_json(path)
        require(values, _Written, path)
    except ValueError as error:
        raise RunError(f"{error} Remove the folder, or choose another: --out.") from None
    written: _Written = values
    if foreign := sorted({*written["files"], *written.get("before", {})} - set(FILES)):
        raise RunError(
            f"{path} lists {', '.join(map(repr, foreign))}, which `amcl export` does not write: "
            "choose a new folder with --out."
        )
    return written


def _write_method(path: Path, model: LoadedModel) -> None:
    """Write the whole method, with its configuration in the metadata."""
    assert model.checkpoint is not None
    saved = saved_method(model.checkpoint)
    exported = model.backbone.network.state_dict()
    stored = saved.backbone(model.metadata()).network.state_dict()
    if not all(torch.equal(value.cpu(), stored[name]) for name, value in exported.items()):
        raise RunError(
            f"the heads in {model.checkpoint} are of another step than the backbone: export the "
            "checkpoint itself, or leave the heads out with --no-heads."
        )
    metadata: dict[str, Any] = {"config": saved.config.to_toml(), **model.metadata()}
    save_tensors(path, saved.state, metadata)


def _move(
    staging: Path, folder: Path, model: LoadedModel, earlier: _Written | None, overwrite: bool
) -> list[Path]:
    """Move the files into the folder one by one, each whole.

    The list is there before and after, so that a later export knows what a killed one left.
    """
    new = {path.name: file_digest(path) for path in sorted(staging.iterdir())}
    paths = [*(folder / name for name in new), folder / LIST]
    weights = fingerprint(model.backbone)
    old = {} if earlier is None else earlier["files"]
    # Files of other weights would lie beside the new ones as if they belonged together.
    others = earlier is not None and earlier["weights"] != weights
    stale = old.keys() - new.keys() if others else set()
    changed = sorted(stale | {name for name in old.keys() & new.keys() if old[name] != new[name]})
    if changed and not overwrite:
        raise RunError(
            f"{folder} holds an earlier export, whose {', '.join(changed)} would be replaced: "
            "choose a new folder with --out, or replace it with --overwrite."
        )
    complete = earlier is not None and "before" not in earlier
    if complete and new.items() <= old.items() and not changed:
        logger.info("%s holds this export already: nothing was written", folder)
        return paths
    try:
        files = {name: sha for name, sha in old.items() if name not in stale} | new
        listing = {"run": _run_of(model), "weights": weights, "files": files}
        write_text(folder / LIST, to_json({**listing, "before": old}) + "\n")
        for name in new:
            (staging / name).replace(folder / name)
        for name in stale:
            (folder / name).unlink()
        write_text(folder / LIST, to_json(listing) + "\n")
    except OSError as error:
        raise RunError(f"could not write {folder} ({error}). Is the disk full?") from error
    return paths
