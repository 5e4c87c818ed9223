"""Tiny ImageNet."""

from functools import partial
from pathlib import Path

from amcl.data.listing import Listing
from amcl.data.named import NamedDataSet, register_dataset
from amcl.data.records import FileRecords
from amcl.data.sets.imagenet import load_class_folders


def _list_annotated(folder: Path, classes: tuple[str, ...]) -> Listing:
    """List Tiny ImageNet's val/images, whose classes are in val_annotations.txt."""
    annotations = folder / "val_annotations.txt"
    if not annotations.is_file():
        raise FileNotFoundError(
            f"{annotations} does not exist: unpack the whole archive again, it holds the labels "
            "of the validation images."
        )
    index = {name: number for number, name in enumerate(classes)}
    paths = []
    labels = []
    for line in annotations.read_text(encoding="utf-8").splitlines():
        name, wordnet_id, *_ = line.split("\t")
        if wordnet_id not in index:
            raise ValueError(
                f"{annotations} names the class {wordnet_id}, which has no folder in "
                f"{folder.parent / 'train'}: unpack the whole archive again."
            )
        paths.append(str(folder / "images" / name))
        labels.append(index[wordnet_id])
    return Listing(FileRecords(paths)).with_labels(labels, classes)


register_dataset(
    "tinyimagenet",
    NamedDataSet(
        path="tiny-imagenet-200",
        instructions="get cs231n.stanford.edu/tiny-imagenet-200.zip and unpack it in {root}.",
        image_size=64,
        mean=(0.4802, 0.4481, 0.3975),
        std=(0.2770, 0.2691, 0.2821),
        load=partial(load_class_folders, list_validation=_list_annotated),
        has_test_labels=False,
        validation_source="split",
    ),
)
