"""Classes of new pictures by a fine-tuned classifier, as a table with probabilities."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from amcl.checkpoints.evaluations import CLASSIFIER, FOLDER, read_results
from amcl.checkpoints.run_folder import RunFolder
from amcl.data import default_workers, load_all_images
from amcl.errors import RunError
from amcl.evaluation.build import check_channels
from amcl.evaluation.embeddings_file import check_new
from amcl.evaluation.finetuning import load_classifier
from amcl.files import expand_home, write_text
from amcl.metrics.features import features_of
from amcl.printable import printable
from amcl.settings import whole_number
from amcl.training.hardware import find_accelerator


@dataclass(frozen=True)
class Predictions:
    """Classes of images, the likeliest first."""

    files: list[str]
    """Names of the images, (n,)."""
    classes: tuple[str, ...]
    """Names of all classes, (K,)."""
    likeliest: torch.Tensor
    """Indices of the likeliest classes, (n, top)."""
    probabilities: torch.Tensor
    """Probabilities of these classes, (n, top)."""
    unreadable: tuple[tuple[str, str], ...]
    """Files that could not be read, each with the reason."""

    def csv(self) -> str:
        """Return a table: file, class, probability; then class_2, probability_2, …"""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        suffixes = ["", *(f"_{rank}" for rank in range(2, self.likeliest.shape[1] + 1))]
        columns = [f"{name}{suffix}" for suffix in suffixes for name in ("class", "probability")]
        writer.writerow(["file", *columns])
        rows = zip(self.files, self.likeliest.tolist(), self.probabilities.tolist(), strict=True)
        for file, indices, probabilities in rows:
            cells = [printable(file)]
            for index, probability in zip(indices, probabilities, strict=True):
                cells += [self.classes[index], f"{probability:.6g}"]
            writer.writerow(cells)
        return out.getvalue()


def find_classifier(source: str | Path) -> Path:
    """Return the file of a fine-tuned classifier.

    Args:
        source: The file itself, or a run folder, whose newest classifier is taken.
    """
    path = expand_home(source)
    if path.is_file():
        return path
    if not path.is_dir():
        raise FileNotFoundError(f"there is no file or folder {str(source)!r}.")
    if not RunFolder(path).config.is_file() and not (path / FOLDER).is_dir():
        raise RunError(f"{path} is not a run folder: give one, or the file of a classifier.")
    files = [file for result in read_results(path) if (file := result.classifier(path))]
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
    """Write the likeliest classes of images to a table.

    Args:
        source: The file of a classifier, or a run folder that has one.
        data: A folder of images, a named set, or "builtin".
        out: A new .csv file.
        top: Number of classes for each image, at most as many as there are.
        data_root: Folder of named sets.
        canvas: Pixels a side that pictures are decoded at.
        workers: Processes that decode pictures; None for one a core.
        accelerator: Device that computes the classes.

    Returns:
        The predictions. Files that could not be read are listed there, and left out of the table.
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
    classifier = load_classifier(path)
    device = find_accelerator(accelerator)
    size = classifier.transform.image_size
    pictures = load_all_images(
        data, root=data_root, image_size=size, canvas=canvas, pixels=classifier.pixels
    )
    check_channels(str(path), classifier.transform.channels, pictures.images)
    logits = features_of(
        classifier.model.to(device),
        pictures.images,
        classifier.transform,
        device=device,
        workers=default_workers() if workers is None else workers,
    )
    best = logits.values.softmax(1).topk(min(top, len(classifier.classes)), dim=1)
    predictions = Predictions(
        files=[pictures.names[i] for i in logits.indices.tolist()],
        classes=classifier.classes,
        likeliest=best.indices,
        probabilities=best.values,
        unreadable=logits.unreadable,
    )
    write_text(out, predictions.csv())
    return predictions
