"""Damaged and odd archives: what is lost is named, and nothing else is lost."""

import io
import os
import tarfile

import pytest

from amcl.data import UnreadableImage
from amcl.data.decode import decode
from amcl.data.shards.index import build_index
from amcl.data.shards.records import ShardRecords
from shard_files import picture, samples, write_shard


def read(path):
    """The names that are read with the right bytes, and what is named as damaged."""
    index = build_index(path)
    records = ShardRecords([index])
    names = []
    for number in range(len(records)):
        with records[number].open() as file:
            assert file.read() == picture(int(os.path.basename(records.member(number))[:3]))
        names.append(records.member(number))
    return names, index.damages


def names_of(numbers):
    return [f"{n:03}.png" for n in numbers]


def offsets(path):
    with tarfile.open(path) as archive:
        return {member.name: member for member in archive.getmembers()}


def damage(path, position, content):
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


@pytest.fixture
def shard(tmp_path):
    return write_shard(tmp_path / "0.tar", samples(range(6)))


def test_an_undamaged_shard(shard):
    assert read(shard) == (names_of(range(6)), ())


@pytest.mark.parametrize("content", [b"\xff" * 512, b"\0" * 512, b"002.png\0"])
@pytest.mark.parametrize("file", ["002.png", "002.cls"])
def test_a_damaged_header_costs_its_image(shard, file, content):
    content += b"x" * 10 if len(content) < 512 else b""
    damage(shard, offsets(shard)[file].offset, content)
    names, damages = read(shard)
    assert names == names_of([0, 1, 3, 4, 5])
    assert any("byte" in reason for _, reason in damages)
    assert any(name.startswith("002") for name, _ in damages)
    labels = ShardRecords([build_index(shard)]).labels
    assert len(labels) == 5
    assert min(labels) >= 0


def test_every_cut_costs_what_is_behind_it_and_is_named(shard):
    whole = shard.read_bytes()
    ends = {m.name: m.offset_data + m.size for m in offsets(shard).values()}
    for size in range(0, max(ends.values()), 700):
        shard.write_bytes(whole[:size])
        names, damages = read(shard)
        complete = [n for n in names_of(range(6)) if ends[n] <= size]
        labeled = [n for n in complete if ends[n.replace("png", "cls")] <= size]
        assert names in (complete, labeled)
        assert damages or not size


def test_a_flipped_bit_in_an_image_costs_that_image(tmp_path):
    shard = write_shard(tmp_path / "0.tar", samples(range(3)))
    member = offsets(shard)["001.png"]
    damage(shard, member.offset_data + member.size // 2, b"\xaa\x55\xaa")
    records = ShardRecords([build_index(shard)])
    with pytest.raises(UnreadableImage, match=r"0.tar/001.png"):
        decode(records[1], 24)
    decode(records[0], 24)
    decode(records[2], 24)


def test_duplicate_keys(tmp_path):
    files = [("000.png", picture(0)), ("000.cls", b"1"), ("000.cls", b"2"), ("000.png", picture(1))]
    names, damages = read(write_shard(tmp_path / "0.tar", [*files, ("000.webp", b"")]))
    assert names == ["000.png"]
    assert [name for name, _ in damages] == ["000.cls", "000.png", "000.webp"]


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names(tmp_path, kind):
    folder = f"{'é' * 60}/" * 4
    long = [(folder + name, content) for name, content in samples(range(4))]
    shard = write_shard(tmp_path / "0.tar", long, kind)
    assert read(shard) == ([folder + name for name in names_of(range(4))], ())
    first = offsets(shard)[folder + "001.png"].offset  # that of the header with the long name
    damage(shard, first, b"\xff" * 20)
    names, damages = read(shard)
    assert names == [folder + name for name in names_of([0, 2, 3])]
    assert damages


def test_names_that_are_no_text(tmp_path):
    name = os.fsdecode(b"\xff\xfe/000.png")
    with tarfile.open(tmp_path / "0.tar", "w", errors="surrogateescape") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(picture(0))
        archive.addfile(info, io.BytesIO(picture(0)))
    assert read(tmp_path / "0.tar") == ([name], ())


def test_what_is_no_file_is_not_read(tmp_path):
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)
    with tarfile.open(tmp_path / "0.tar", "w") as archive:
        for number, kind in enumerate(kinds):
            info = tarfile.TarInfo(f"x{number}.png")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        for name in ("/000.png", "./001.png", "._002.png", "../../003.png"):
            info = tarfile.TarInfo(name)
            number = int(name[-7:-4])
            info.size = len(picture(number))
            archive.addfile(info, io.BytesIO(picture(number)))
    names, damages = read(tmp_path / "0.tar")
    assert names == ["000.png", "001.png", "../../003.png"]
    assert len(damages) == len(kinds)


def test_sparse_files_are_skipped(tmp_path):
    """As GNU tar writes them: by the old format, and by extended headers."""
    big = tmp_path / "sparse.png"
    with big.open("wb") as file:
        for block in range(40):
            file.seek(block * 2**17)
            file.write(b"x" * 600)
    for n in range(2):
        (tmp_path / f"00{n}.png").write_bytes(picture(n))
    for kind in ("gnu", "posix"):
        command = f"tar -C {tmp_path} --format={kind} -S -cf {tmp_path}/0.tar"
        assert os.system(f"{command} 000.png sparse.png 001.png") == 0
        names, damages = read(tmp_path / "0.tar")
        assert names == names_of(range(2))
        assert "sparse" in damages[0][1]


def test_archives_one_after_another(tmp_path):
    first = write_shard(tmp_path / "0.tar", samples(range(2)))
    second = write_shard(tmp_path / "1.tar", samples(range(2, 4)))
    first.write_bytes(first.read_bytes() + second.read_bytes())
    names, damages = read(first)
    assert names == names_of(range(4))
    assert ["zeros" in reason for _, reason in damages] == [True]
