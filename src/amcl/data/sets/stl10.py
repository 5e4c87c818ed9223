"""STL-10."""

from pathlib import Path

import torch

from amcl.data.download import Archive, download_archive
from amcl.data.images import DataSet, Labeled, MemoryImages, Probe
from amcl.data.named import DOWNLOAD, NamedDataSet, Report, data_set, register_dataset
from amcl.data.options import LoadOptions
from amcl.data.split import choose_subset, hold_out

CLASSES = (
    *("airplane", "bird", "car", "cat", "deer"),
    *("dog", "horse", "monkey", "ship", "truck"),
)
ARCHIVE = Archive(
    url="https://cs.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
    sha256="f31fd99273a1acb8609c8db427cebb1de3f71de77758cdc0e22956e1289b9866",
    torchvision="STL10",
)
COUNTS = {"unlabeled": 100_000, "train": 5_000, "test": 8_000}


def _load(root: Path, dataset: NamedDataSet, options: LoadOptions) -> DataSet:
    """Load the unlabeled images to train on; the labeled training images are the bank.

    A method that learns from labels is trained on the labeled ones that are not held out.
    """
    folder = root / dataset.path
    if not folder.is_dir():
        raise dataset.missing_error(root)
    probe = None
    bank = None
    if options.reads_labels:
        bank = Labeled(_images(folder, "train"), _labels(folder, "train"))
    if bank is not None and options.uses_labels:
        if options.split == "test":
            queries = Labeled(_images(folder, "test"), _labels(folder, "test"))
        else:  # not trained on, so that more can be held out than of images that are
            count = min(options.validation, len(bank.labels) // 5)
            remaining, held_out = hold_out(bank.labels, count, options.seed)
            queries = bank.subset(held_out)
            bank = bank.subset(remaining)
        probe = Probe(bank, queries, CLASSES, options.split)
    if bank is not None and options.train_labels:
        train = bank.subset(choose_subset(bank.labels, options.subset))
        return data_set(dataset, train.images, probe, options, train.labels)
    images = _images(folder, "unlabeled")
    chosen = choose_subset(torch.zeros(len(images)), options.subset)
    return data_set(dataset, images.subset(chosen), probe, options)


def _images(folder: Path, split: str) -> MemoryImages:
    """Map images from the file: the system keeps the parts in use, once for all processes."""
    count = COUNTS[split]
    flat = _bytes(folder / f"{split}_X.bin", count * 3 * 96 * 96)
    return MemoryImages(flat.view(count, 3, 96, 96).transpose(2, 3))  # stored column by column


def _labels(folder: Path, split: str) -> torch.Tensor:
    return _bytes(folder / f"{split}_y.bin", COUNTS[split]).long() - 1


def _bytes(path: Path, size: int) -> torch.Tensor:
    actual = path.stat().st_size if path.is_file() else 0
    if actual != size:
        raise ValueError(
            f"{path} must be {size:,} bytes, found {actual:,}: remove {path.parent} and run "
            "`amcl data stl10` again."
        )
    return torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)


def _download(root: Path, report: Report) -> None:
    download_archive(ARCHIVE, root, report)


register_dataset(
    "stl10",
    NamedDataSet(
        path="stl10_binary",
        instructions=DOWNLOAD.format(name="stl10"),
        image_size=96,
        mean=(0.4467, 0.4398, 0.4066),
        std=(0.2603, 0.2566, 0.2713),
        load=_load,
        download=_download,
        validation_source="unused",
    ),
)
