"""CIFAR-100."""

from pathlib import Path

from amcl.data import cifar10
from amcl.data.download import Archive, download_archive
from amcl.data.images import DataSet
from amcl.data.named import DOWNLOAD, NamedDataSet, Report, from_tensors, register_dataset
from amcl.data.options import LoadOptions

ARCHIVE = Archive(
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    sha256="85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
    torchvision="CIFAR100",
)


def _load(root: Path, dataset: NamedDataSet, options: LoadOptions) -> DataSet:
    from torchvision.datasets import CIFAR100  # type: ignore[import-untyped]

    if not (root / dataset.path).is_dir():
        raise dataset.missing_error(root)
    tensors, classes = cifar10.read_torchvision_cifar(CIFAR100, root)
    return from_tensors(dataset, tensors, classes, options)


def _download(root: Path, report: Report) -> None:
    download_archive(ARCHIVE, root, report)


register_dataset(
    "cifar100",
    NamedDataSet(
        path="cifar-100-python",
        instructions=DOWNLOAD.format(name="cifar100"),
        image_size=32,
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
        load=_load,
        download=_download,
    ),
)
