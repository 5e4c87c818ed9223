"""Images to pre-train on: folders, named data sets, a built-in one; batches of them."""

from amcl.data.batch import Batch
from amcl.data.decode import UnreadableImage
from amcl.data.images import DataSet, FileImages, Images, Labeled, MemoryImages, Probe
from amcl.data.load import default_workers, load_all_images, load_dataset
from amcl.data.locate import (
    absolute_source,
    has_test_split,
    same_source,
    source_name,
    validation_source,
)
from amcl.data.named import missing_sets
from amcl.data.stream import stream

__all__ = [
    "Batch",
    "DataSet",
    "FileImages",
    "Images",
    "Labeled",
    "MemoryImages",
    "Probe",
    "UnreadableImage",
    "absolute_source",
    "default_workers",
    "has_test_split",
    "load_all_images",
    "load_dataset",
    "missing_sets",
    "same_source",
    "source_name",
    "stream",
    "validation_source",
]
