"""Packing of folders into shards, and the check of shards."""

import errno
import json
import os
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch

from amcl.cli import main
from amcl.data import DataSet, load_dataset
from amcl.data.shards import pack as packing
from amcl.data.shards.check import Check
from amcl.data.shards.pack import pack
from amcl.data.shards.plan import ShardSize
from amcl.errors import RunError
from shard_files import picture


def load(source, **options) -> DataSet:
    settings = {"image_size": 24, "canvas": 24, "memory": 0, "workers": 0}
    return load_dataset(str(source), **settings | options)


def folder_of(root: Path, classes=("10", "2"), each: int = 12, first: int = 0) -> Path:
    for number, name in enumerate(classes):
        for i in range(each):
            file = root / name / f"{i:02}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(picture(first + number * each + i))
    return root


def content(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.parent.name != ".amcl"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def assert_same_images(first: DataSet, second: DataSet) -> None:
    every = torch.arange(len(first.train))
    assert torch.equal(first.train[every], second.train[every])
    assert len(first.train) == len(second.train)
    assert (first.probe is None) == (second.probe is None)
    if first.probe is None or second.probe is None:
        return
    assert first.probe.classes == second.probe.classes
    for ours, theirs in (
        (first.probe.bank, second.probe.bank),
        (first.probe.queries, second.probe.queries),
    ):
        assert torch.equal(ours.labels, theirs.labels)
        every = torch.arange(len(ours.labels))
        assert torch.equal(ours.images[every], theirs.images[every])


@pytest.mark.parametrize("size", ["7", "20kB", "500MB"])
def test_a_packed_set_is_its_folder(tmp_path, size):
    folder = folder_of(tmp_path / "folder", each=20)
    manifest = pack(str(folder), tmp_path / "shards", shard_size=size)
    assert manifest.images == 40
    assert_same_images(load(tmp_path / "shards"), load(folder))
    if size == "20kB":
        sizes = [shard.size for shard in manifest.shards]
        assert len(sizes) > 3
        assert max(sizes) <= 20_000 + 10_240  # tar fills its last record


def test_splits_and_classes_are_kept(tmp_path):
    for split, first in (("train", 0), ("val", 100), ("test", 200)):
        folder_of(tmp_path / "folder" / split, first=first)
    pack(str(tmp_path / "folder"), tmp_path / "shards", shard_size="10")
    names = sorted(path.name for path in (tmp_path / "shards").iterdir())
    assert names == [".amcl", "classes.json", "manifest.json", "test", "train", "validation"]
    for probe in ("validation", "test"):
        expected, data = (load(tmp_path / name, probe=probe) for name in ("folder", "shards"))
        assert_same_images(data, expected)
    train = f"{tmp_path}/shards/train/{{000000..000002}}.tar"
    assert load(train).probe.classes == ("10", "2")
    assert not list(Check(train, workers=0).faults())


def test_files_are_as_they_were_in_the_layout_of_webdataset(tmp_path):
    folder = tmp_path / "folder"
    names = ["ä/x.y.z.png", "ä/x_y.z.png", "ä/no extension", f"ä/{'n' * 200}.PNG", "b/x.png"]
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(picture(number))
    latin = os.fsencode(folder) + b"/b/caf\xe9.png"
    Path(os.fsdecode(latin)).write_bytes(picture(9))
    pack(str(folder), tmp_path / "shards")
    with tarfile.open(tmp_path / "shards/000000.tar", errors="surrogateescape") as archive:
        members = archive.getmembers()
        files = {m.name: archive.extractfile(m).read() for m in members}
    keys = [name.partition(".")[0] for name in files]
    assert keys == [key for key in dict.fromkeys(keys) for _ in range(3)]
    for key in dict.fromkeys(keys):
        about = json.loads(files[f"{key}.json"])
        image = next(c for n, c in files.items() if n.lower() == f"{key}.png".lower())
        path = os.fsencode(folder) + b"/" + about["path"].encode("utf-8", "surrogateescape")
        assert image == Path(os.fsdecode(path)).read_bytes()
        assert about["class"] == key[0]
        assert files[f"{key}.cls"] == (b"0" if key[0] == "b" else b"1")
    assert {"ä/x_y_z.png", "ä/x_y_z-2.png", "ä/no extension.png"} <= files.keys()
    assert len(load(tmp_path / "shards", labels="none").train) == 6


def test_the_same_folder_makes_the_same_bytes(tmp_path):
    first = folder_of(tmp_path / "first")
    second = tmp_path / "elsewhere/second"
    shutil.copytree(first, second, copy_function=shutil.copy)
    pack(str(first), tmp_path / "a", shard_size="5", workers=1, shuffle=3)
    pack(str(second), tmp_path / "b", shard_size="5", workers=4, shuffle=3)
    pack(str(second), tmp_path / "c", shard_size="5", workers=4, shuffle=4)
    a, b, c = (content(tmp_path / name) for name in "abc")
    assert a == b
    assert a.keys() == c.keys()
    assert a != c
    plain, shuffled = (load(path, labels="none").train for path in (first, tmp_path / "a"))
    pixels = [
        {row.numpy().tobytes() for row in data[torch.arange(24)]} for data in (plain, shuffled)
    ]
    assert pixels[0] == pixels[1]
    assert not torch.equal(plain[torch.arange(24)], shuffled[torch.arange(24)])


def test_what_is_finished_is_kept(tmp_path, monkeypatch):
    folder = folder_of(tmp_path / "folder")
    pack(str(folder), tmp_path / "whole", shard_size="5")
    write = packing.write_shard

    def interrupted(out, name, samples):
        if name == "000002.tar":
            raise KeyboardInterrupt
        return write(out, name, samples)

    monkeypatch.setattr(packing, "write_shard", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pack(str(folder), tmp_path / "out", shard_size="5", workers=1)
    monkeypatch.undo()
    first = tmp_path / "out/000000.tar"
    before = first.stat().st_mtime_ns
    assert not (tmp_path / "out/manifest.json").exists()
    assert "was not finished" in " ".join(load(tmp_path / "out", labels="none").warnings)
    (tmp_path / "out/000001.tar").write_bytes(b"half")
    monkeypatch.chdir(tmp_path)
    pack("folder", "out", shard_size="5")
    assert first.stat().st_mtime_ns == before
    assert content(tmp_path / "out") == content(tmp_path / "whole")
    pack("folder", "out", shard_size="5")
    assert first.stat().st_mtime_ns == before
    assert not load("out", labels="none").warnings


def test_other_images_and_other_files_are_never_overwritten(tmp_path):
    folder, other = folder_of(tmp_path / "folder"), folder_of(tmp_path / "other", first=100)
    pack(str(folder), tmp_path / "out")
    before = content(tmp_path / "out")
    with pytest.raises(ValueError, match=r"other images, or the images have changed"):
        pack(str(other), tmp_path / "out")
    with pytest.raises(ValueError, match=r"begun with --shard-size 500MB, not 5:"):
        pack(str(folder), tmp_path / "out", shard_size="5")
    os.utime(folder / "2/00.png", (1, 1))
    with pytest.raises(ValueError, match=r"have changed since"):
        pack(str(folder), tmp_path / "out")
    with pytest.raises(ValueError, match="holds something else"):
        pack(str(other), folder)
    (tmp_path / "file").write_text("a thesis")
    with pytest.raises(ValueError, match="holds something else"):
        pack(str(other), tmp_path / "file")
    assert content(tmp_path / "out") == before
    assert (tmp_path / "file").read_text() == "a thesis"


def test_files_that_cannot_be_read_are_skipped_and_those_that_cannot_be_decoded_are_not(
    tmp_path, capsys
):
    folder = folder_of(tmp_path / "folder")
    (folder / "2/00.png").write_bytes(b"no picture")
    (folder / "2/01.png").write_bytes(b"")
    (folder / "2/02.png").unlink()
    (folder / "2/02.png").symlink_to("nowhere")
    (folder / "2/03.png").unlink()
    os.mkfifo(folder / "2/03.png")
    out = str(tmp_path / "out")
    assert main(["data", "pack", str(folder), "--out", out]) == 0
    told = capsys.readouterr().err
    assert "skipped 2/01.png: empty file (0 bytes)\n" in told
    assert "skipped 2/02.png: no such file or directory\n" in told
    assert "skipped 2/03.png: not a regular file\n" in told
    assert "21 images in 1 shards" in told
    assert len(json.loads(Path(out, "manifest.json").read_text())["shards"][0]["skipped"]) == 3
    assert main(["data", "check", out, "--workers", "0"]) == 1
    shown = capsys.readouterr()
    assert shown.out == f"{out}/000000.tar/2/00.png: {shown.out.partition(': ')[2]}"
    assert "1 shards compared with their hashes, 21 images decoded; 1 faults" in shown.err


def test_a_full_disk_is_one_line_and_what_is_finished_is_kept(tmp_path, monkeypatch, capsys):
    folder = folder_of(tmp_path / "folder")
    words = ["data", "pack", str(folder), "--out", str(tmp_path / "out"), "--shard-size", "5"]
    with monkeypatch.context() as patch:
        patch.setattr(packing.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 8, 1))
        assert main(words) == 1
    assert "GB are free: make room" in capsys.readouterr().err
    write = packing.write_shard

    def full(out, name, samples):
        if name == "000003.tar":
            raise OSError(errno.ENOSPC, "No space left on device", str(out / name))
        return write(out, name, samples)

    with monkeypatch.context() as patch:
        patch.setattr(packing, "write_shard", full)
        assert main([*words, "--workers", "1"]) == 1
    lines = capsys.readouterr().err.splitlines()
    finished = len(list((tmp_path / "out").glob("*.tar")))
    assert finished >= 3
    assert lines[-1].endswith(
        f"the disk is full. {finished} of 5 shards are finished and kept; the same command makes "
        "the others."
    )
    assert main(words) == 0
    assert not list(Check(str(tmp_path / "out"), workers=0).faults())


def test_damage_is_named(tmp_path):
    folder = folder_of(tmp_path / "folder")
    pack(str(folder), tmp_path / "out", shard_size="5")
    shards = sorted((tmp_path / "out").glob("*.tar"))
    with shards[0].open("r+b") as file:
        file.seek(700)  # within the first image
        file.write(b"damage")
    with shards[1].open("ab") as file:
        file.write(b"more")
    shards[2].unlink()
    shutil.copy(shards[3], tmp_path / "out/more.tar")
    faults = [
        str(fault).removeprefix(f"{tmp_path}/out/")
        for fault in Check(str(tmp_path / "out"), workers=0).faults()
    ]
    assert "000000.tar: its SHA-256 is not that of the manifest" in faults
    assert any(fault.startswith("000000.tar/10/00.png: ") for fault in faults)
    assert "000001.tar: 30,724 bytes instead of 30,720" in faults
    assert "000002.tar: missing" in faults
    assert any(fault.startswith("more.tar: not in ") for fault in faults)
    for shard in shards[:2]:
        shard.unlink()
    (tmp_path / "out/more.tar").unlink()
    pack(str(folder), tmp_path / "out", shard_size="5")
    assert not list(Check(str(tmp_path / "out"), workers=0).faults())


@pytest.mark.parametrize(
    "row",
    [
        {"name": "../../secret.tar"},
        {"name": "/etc/passwd"},
        {"name": 3},
        {"bytes": "x"},
        {"skipped": [["a"]]},
    ],
)
def test_manifests_that_lead_elsewhere_are_refused(tmp_path, row, capsys):
    pack(str(folder_of(tmp_path / "folder")), tmp_path / "out")
    path = tmp_path / "out/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["shards"][0] |= row
    path.write_text(json.dumps(manifest))
    assert main(["data", "check", str(tmp_path / "out"), "--workers", "0"]) == 2
    assert "manifest.json is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["0", "", "x", "-5", "5 apples", "0.1B", "1e9B", "GB"])
def test_sizes_that_are_none(size):
    with pytest.raises(ValueError, match=r"10000, or of bytes, such as 500MB"):
        ShardSize.parse(size)


def test_what_cannot_be_packed(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="No images"):
        pack(str(tmp_path / "empty"), tmp_path / "out")
    with pytest.raises(FileNotFoundError, match="neither a folder nor"):
        pack(str(tmp_path / "nowhere"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_error_of_a_disk_ends_packing(tmp_path, monkeypatch):
    """It may pass, so that the image is not skipped."""
    folder = folder_of(tmp_path / "folder")

    def broken(self):
        raise OSError(errno.EIO, "Input/output error", self.name)

    monkeypatch.setattr("amcl.data.records.FileRecord.open", broken)
    with pytest.raises(OSError, match="Input/output error"):
        pack(str(folder), tmp_path / "out")
    monkeypatch.undo()
    assert not list((tmp_path / "out").glob("*.tar"))
    assert pack(str(folder), tmp_path / "out").images == 24


def test_shards_are_packed_anew(tmp_path):
    folder = folder_of(tmp_path / "folder")
    pack(str(folder), tmp_path / "few")
    pack(str(tmp_path / "few"), tmp_path / "many", shard_size="5")
    assert_same_images(load(tmp_path / "many"), load(folder))


@pytest.mark.parametrize("ending", ["npy", "tif"])
def test_images_of_many_channels(tmp_path, ending):
    generator = np.random.default_rng(0)
    for number in range(24):
        file = tmp_path / "folder" / "ab"[number % 2] / f"{number}.{ending}"
        file.parent.mkdir(parents=True, exist_ok=True)
        bands = generator.integers(0, 4096, (24, 24, 5), dtype=np.uint16)
        if ending == "npy":
            np.save(file, bands)
        else:
            tifffile.imwrite(file, bands, planarconfig="contig")
    pack(str(tmp_path / "folder"), tmp_path / "shards")
    data = load(tmp_path / "shards")
    assert data.channels == 5
    assert_same_images(data, load(tmp_path / "folder"))
    assert not list(Check(str(tmp_path / "shards"), workers=0).faults())


def test_running_out_of_space_is_an_error_of_the_run(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.EDQUOT, "Disk quota exceeded", "x")

    monkeypatch.setattr(packing, "write_shard", full)
    with pytest.raises(RunError, match=r"0 of 1 shards are finished"):
        pack(str(folder_of(tmp_path / "folder")), tmp_path / "out")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pack x --out y --shard-size 10zb", "--shard-size must be a number of images"),
        ("pack x --out y --workers 0", "--workers must be a whole number, at least 1, got 0"),
        ("check x --workers -1", "--workers must be a whole number, at least 0, got -1"),
    ],
)
def test_errors_name_options_as_they_are_typed(capsys, words, message):
    assert main(["data", *words.split()]) == 2
    assert message in capsys.readouterr().err
