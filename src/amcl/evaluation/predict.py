"""A fine-tuned classifier on new pictures, as a table of classes and probabilities."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from amcl.checkpoints.evaluations import CLASSIFIER
from amcl.checkpoints.run_folder import RunFolder
from amcl.data import default_workers, load_all_images
from amcl.errors import RunError
from amcl.evaluation import read_results
from amcl.evaluation.embeddings_file import check_new, spelled_out
from amcl.evaluation.finetuning import load_classifier
from amcl.files import write_text
from amcl.metrics.features import features_of
from amcl.settings import whole_number
from amcl.training.hardware import find_accelerator


@dataclass(frozen=True)
class Predictions:
    """Classes of images, the likeliest first."""

    files: list[str]
    """(n,), names of the images."""
    classes: tuple[str, ...]
    """(K,), all there are."""
    likeliest: torch.Tensor
    """(n, top), numbers of classes."""
    probabilities: torch.Tensor
    """(n, top)."""
    unreadable: tuple[tuple[str, str], ...]
    """Files that were left out, with the reason."""

    def csv(self) -> str:
        """Columns file, class, probability; then class_2, probability_2, … for the next ones."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        ends = ["", *(f"_{i}" for i in range(2, self.likeliest.shape[1] + 1))]
        writer.writerow(["file", *(f"{name}{end}" for end in ends for name in _COLUMNS)])
        numbers, shares = self.likeliest.tolist(), self.probabilities.tolist()
        for file, row, likely in zip(self.files, numbers, shares, strict=True):
            cells = [(self.classes[i], f"{p:.6g}") for i, p in zip(row, likely, strict=True)]
            writer.writerow([spelled_out(file), *(text for cell in cells for text in cell)])
        return out.getvalue()


_COLUMNS = ("class", "probability")


def find_classifier(source: str | Path) -> Path:
    """The file of a fine-tuned classifier: `source` itself, or the newest one of a run folder."""
    path = Path(source).expanduser()
    if path.is_file():
        return path
    if not path.is_dir():
        raise FileNotFoundError(f"there is no file or folder {str(source)!r}.")
    if not RunFolder(path).config.is_file() and not (path / "evaluation").is_dir():
        raise RunError(f"{path} is not a run folder: give one, or the file of a classifier.")
    results = [r for r in read_results(path) if r.protocol == "finetune"]
    files = [file for result in results if (file := result.classifier(path))]
    if not files:
        raise RunError(
            f"{path} has no classifier yet: train one with `amcl evaluate {path} --protocols "
            "finetune`."
        )
    return files[-1]


def predict(
    source: str | Path,
    data: str,
    out: str | Path,
    *,
    top: int = 1,
    data_root: Path | None = None,
    canvas: int | None = None,
    workers: int | None = None,
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto",
) -> Predictions:
    """Write the likeliest classes of the images in `data` to `out`, a new .csv file.

    `source` is the file of a classifier, or a run folder that has one; `top` is how many classes
    are given for each image, at most as many as there are. Files that cannot be read are left
    out, and named in what comes back.
    """
    out = Path(out)
    whole_number("--top", top)
    if out.suffix != ".csv":
        raise ValueError(f"{out} must end in .csv: predictions are written as a table.")
    check_new(out)
    path = find_classifier(source)
    if path.suffix != CLASSIFIER:
        raise ValueError(
            f"{path} is not a classifier: give a run folder, or the {CLASSIFIER} file that `amcl "
            "evaluate RUN --protocols finetune` has written."
        )
    saved, device = load_classifier(path), find_accelerator(accelerator)
    size = saved.transform.image_size
    listed = load_all_images(data, root=data_root, image_size=size, canvas=canvas)
    found = features_of(
        saved.model.to(device),
        listed.images,
        saved.transform,
        device=device,
        workers=default_workers() if workers is None else workers,
    )
    best = found.values.softmax(1).topk(min(top, len(saved.classes)), dim=1)
    predictions = Predictions(
        files=[listed.names[i] for i in found.indices.tolist()],
        classes=saved.classes,
        likeliest=best.indices,
        probabilities=best.values,
        unreadable=found.unreadable,
    )
    write_text(out, predictions.csv())
    return predictions
