"""Download of named data sets into the data folder: checked, and whole or not at all."""

import contextlib
import io
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from amcl.data.named import DATASETS, Report
from amcl.files import file_digest

_TIMEOUT = 20.0  # seconds without a byte after which an address counts as unreachable


@dataclass(frozen=True, kw_only=True)
class Archive:
    """An archive that a data set is downloaded as.

    Args:
        url: Its address.
        sha256: SHA-256 of the archive, checked before it is unpacked.
        torchvision: Name of the data set in torchvision, which knows its folder and its files.
    """

    url: str
    sha256: str
    torchvision: str


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
    dataset = DATASETS[name]
    path = root / dataset.path
    if dataset.download is not None:
        dataset.download(root, report)
    elif path.is_dir():
        report(f"{path} is already there; it has no checksums to verify.")
    else:
        instructions = dataset.missing_error(root)
        raise DownloadError(f"{name} cannot be downloaded for you: {instructions}")


def download_archive(archive: Archive, root: Path, report: Report) -> None:
    """Download an archive, check it, and unpack it into a folder unless it is there.

    Args:
        archive: The archive.
        root: The data folder.
        report: Called with a line of text at each step.

    Raises:
        DownloadError: It could not be downloaded, or is not the right one.
    """
    from torchvision import datasets  # type: ignore[import-untyped]

    dataset: Any = getattr(datasets, archive.torchvision)
    target = root / dataset.base_folder
    if target.exists():
        if not _verified(dataset, root):
            raise DownloadError(
                f"{target} is there, but does not have the right checksums: remove it, then run "
                "the same command again."
            )
        report(f"{target} is already there, and its checksums are right.")
        return
    report(f"downloading {archive.url} …")
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=f".{dataset.base_folder}-") as folder:
        try:
            with short_timeout_and_quiet():
                datasets.utils.download_url(archive.url, folder, filename=dataset.filename)
            file = Path(folder) / dataset.filename
            if (sha256 := file_digest(file)) != archive.sha256:
                raise OSError(f"its SHA-256 is {sha256}, and must be {archive.sha256}")
            datasets.utils.extract_archive(file, folder)
        except (OSError, RuntimeError, HTTPException) as error:
            raise DownloadError(
                f"{archive.url} could not be downloaded: {one_line(error)}.\nBy hand: get it on a "
                f"machine with access, and unpack it to {target}."
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
def short_timeout_and_quiet() -> Iterator[None]:
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


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__
