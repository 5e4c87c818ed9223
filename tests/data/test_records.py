import os
from hashlib import sha256

import pytest
import torch

from amcl.data import FileImages
from amcl.data.records import FileRecord, FileRecords


def test_files_keep_their_names_and_order():
    files = FileRecords([os.fsdecode(b"a\xff.png"), "é.png", "b.png"])
    assert len(files) == 3
    part = files.select(torch.tensor([2, 0])).select(torch.tensor([1, 0, 1]))
    assert [part[index].name for index in range(len(part))] == [
        "a\udcff.png",
        "b.png",
        "a\udcff.png",
    ]


@pytest.mark.parametrize("kind", ["folder", "pipe", "empty"])
def test_what_is_no_file_with_content_is_not_opened(tmp_path, kind):
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.touch()
    with pytest.raises(ValueError, match={"pipe": "not a regular file"}.get(kind, kind)):
        FileRecord(str(path)).open()


def test_hashes_of_files_stay_what_they_were(tmp_path):
    """Runs and cached features of earlier versions are recognized by them."""
    paths = [tmp_path / "cats" / "1.png", tmp_path / "dogs" / "2.png"]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(b"x" * len(path.name))
        os.utime(path, ns=(1, 2_000_000_003))
    images = FileImages([str(path) for path in [*paths, tmp_path / "none.png"]], 48)
    lines = "cats/1.png 5\ndogs/2.png 5\nnone.png missing\n"
    assert images.identity() == sha256(f"48{lines}".encode()).hexdigest()
    lines = "".join(f"{path} 5 2000000003\n" for path in paths) + f"{tmp_path}/none.png missing\n"
    assert images.fingerprint() == sha256(f"3 48{lines}".encode()).hexdigest()
