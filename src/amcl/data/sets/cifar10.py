"""CIFAR-10."""

from pathlib import Path

from amcl.data import cifar10
from amcl.data.images import DataSet
from amcl.data.named import DOWNLOAD, NamedDataSet, from_tensors, register_dataset
from amcl.data.options import LoadOptions


def _load(root: Path, dataset: NamedDataSet, options: LoadOptions) -> DataSet:
    tensors = cifar10.read(root)
    if tensors is None:
        raise dataset.missing_error(root)
    return from_tensors(dataset, tensors, cifar10.CLASSES, options)


register_dataset(
    "cifar10",
    NamedDataSet(
        path=cifar10.FILE,
        instructions=DOWNLOAD.format(name="cifar10"),
        image_size=32,
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        load=_load,
        other_path=cifar10.BATCHES,
    ),
)
