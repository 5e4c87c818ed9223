"""Curations of odd folders, with damaged and hostile files, and again after an interruption."""

import json
import os
import random
import re
import shutil
import signal
from pathlib import Path

import pytest

from amcl.cli import main
from amcl.cli.process import run_process
from amcl.curation import measure
from faults.hostile_values import CPU, amounts, attack, dumped, variants
from faults.test_images import READ, UNREADABLE
from tiny_runs import picture_folder, process_kept

ATTACK = "curations of odd folders and damaged files"


def words_of(folder, *more, model="test_vit"):
    data = ["--data", str(folder / "pictures"), "--out", str(folder / "out")]
    return ["curate", str(model), *data, "--workers", "0", "--accelerator", "cpu", *CPU, *more]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A curation with leaks and its images. Do not write into it."""
    folder = tmp_path_factory.mktemp("curated") / "original"
    picture_folder(folder / "pictures", count=8, size=16)
    picture_folder(folder / "other", count=2, size=16)
    assert main(words_of(folder, "--against", str(folder / "other"))) == 0
    return folder


@pytest.fixture
def curated(original, tmp_path):
    """A copy of the folder of a curation, whose images stay where they are."""
    return shutil.copytree(original / "out", tmp_path / "runs/out")


def test_all_odd_files_in_one_folder(tmp_path, capsys):
    folder = picture_folder(tmp_path / "pictures", count=8, size=16)
    for number, make in enumerate(UNREADABLE.values()):
        make(folder)
        (odd,) = folder.glob("odd.*")
        odd.rename(folder / f"unreadable{number}{odd.suffix}")
    for number, make in enumerate(READ.values()):
        make(folder)
        for odd in folder.glob("odd.*"):
            odd.rename(folder / f"read{number}{odd.suffix}")
    words = words_of(tmp_path, "--export", "fiftyone", "coco", "huggingface", "lightly")
    assert main(words) == 0
    output = capsys.readouterr()
    assert "\x1b" not in output.err + output.out
    review = (tmp_path / "out/review.txt").read_text()
    skipped = {Path(line.split("\t")[0]).stem for line in review.splitlines()}
    # A folder is no file, and a link to nothing none either.
    numbers = {name.removeprefix("unreadable") for name in skipped if "unreadable" in name}
    assert len(numbers) >= len(UNREADABLE) - 4
    keep = (tmp_path / "out/keep.txt").read_text() + (tmp_path / "out/drop.txt").read_text()
    assert "a\\nb\\x1b[31m.png" in keep
    assert "unreadable" not in keep
    page = (tmp_path / "out/curation.html").read_text()
    assert "\x1b" not in page
    assert "caf\\\\xe9.png" in page  # in JSON


@pytest.mark.parametrize("make", ["nothing", "no images", "broken images"])
def test_folders_without_images(tmp_path, capsys, make):
    pictures = tmp_path / "pictures"
    if make != "nothing":
        pictures.mkdir()
    if make == "broken images":
        (pictures / "a.png").write_bytes(b"no")
    assert main(words_of(tmp_path)) in (1, 2)
    message = capsys.readouterr().err
    assert "Traceback" not in message
    assert "pictures" in message or "1 image files" in message
    assert not (tmp_path / "out/curation.json").exists()


def test_one_image(tmp_path, capsys):
    picture_folder(tmp_path / "pictures", count=1, size=16)
    assert main(words_of(tmp_path, "--select", "5")) == 0
    assert "1 image in" in capsys.readouterr().out
    assert len((tmp_path / "out/selected.txt").read_text().splitlines()) == 1


@pytest.mark.parametrize("name", ["pictures", "pictures/", "linked", "../FOLDER/pictures"])
def test_the_same_folder_is_no_other_set(tmp_path, capsys, name):
    picture_folder(tmp_path / "pictures", count=2, size=16)
    (tmp_path / "linked").symlink_to(tmp_path / "pictures")
    other = f"{tmp_path}/{name.replace('FOLDER', tmp_path.name)}"
    assert main(words_of(tmp_path, "--against", other)) == 2
    assert "is the folder of --data itself" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_second_command_changes_nothing_and_makes_a_missing_page(original, capsys):
    out = original / "out"
    words = words_of(original, "--against", str(original / "other"))
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    (out / "curation.html").unlink()
    assert main(words) == 0
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert main([*words, "--seed", "1"]) == 1
    assert "--seed was 0 and is now 1" in " ".join(capsys.readouterr().err.split())
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_an_interrupted_command_is_resumed(tmp_path, capsys, monkeypatch):
    picture_folder(tmp_path / "pictures", count=8, size=16)
    monkeypatch.setattr(measure, "PART", 4)
    write = measure.whole_file
    parts = []

    def interrupt(path):
        parts.append(path)
        if len(parts) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return write(path)

    words = words_of(tmp_path)
    with process_kept(), monkeypatch.context() as patch:
        patch.setattr(measure, "whole_file", interrupt)
        assert run_process(lambda: lambda: main(words)) == 130
    message = capsys.readouterr().err
    assert "interrupted. What was measured is kept: the same command resumes." in message
    assert main(words) == 0
    assert parts.count(parts[0]) == 1


def test_what_a_killed_command_left_is_removed(tmp_path):
    """After the folder of links has its name, and after the last file has its own."""
    picture_folder(tmp_path / "pictures", count=2, size=16)
    words = words_of(tmp_path, "--link", str(tmp_path / "links"))
    assert main(words) == 0
    left = [tmp_path / ".links.1.writing", tmp_path / "out/.curation.html.2.writing"]
    left[0].mkdir()
    left[1].write_text("half a page")
    (tmp_path / "out/curation.json").unlink()
    assert main(words) == 0
    assert not any(path.exists() for path in left)


@amounts
def test_damaged_parts(original, tmp_path, count, capsys, record):
    """A part with a flipped bit is an error that says what to do, or has the same values."""
    folder = shutil.copytree(original, tmp_path / "copy")
    words = words_of(folder)
    shutil.rmtree(folder / "out")
    assert main(words) == 0
    table = (folder / "out/curation.csv").read_bytes()
    (part,) = (folder / "out/measured/images").iterdir()
    whole = part.read_bytes()
    choice = random.Random(count)
    for _ in range(count):
        damaged = bytearray(whole)
        bit = choice.randrange(8 * len(whole))
        damaged[bit // 8] ^= 1 << (bit % 8)
        part.write_bytes(damaged)
        (folder / "out/curation.json").unlink(missing_ok=True)
        capsys.readouterr()
        code = main(words)
        message = " ".join(capsys.readouterr().err.split())
        assert "Traceback" not in message
        if code:
            assert re.search(r"remove the folder .*measured/images and run again", message), message
        else:
            assert (folder / "out/curation.csv").read_bytes() == table
    record("parts of a curation with a flipped bit", count)


@amounts
def test_hostile_results(original, curated, tmp_path, count, capsys, record):
    """The page and a report of a curation whose files have other values."""
    (tmp_path / "escape").write_text("thesis")
    words = words_of(original, "--against", str(original / "other"))
    words[words.index("--out") + 1] = str(curated)
    total = 0
    for name in ("curation.json", "settings.json"):
        file = curated / name
        texts = [dumped(v) for v in variants(json.loads(file.read_text()), count)]
        texts += ["", "{", "[" * 100_000, "null"]
        attack(curated, file, texts, [words], capsys)
        total += len(texts)
    for name in ("curation.csv", "leaks.csv"):
        file = curated / name
        text = file.read_text()
        cells = [text.replace(",", ";", 1), text.upper(), text[:-9], text + "x\n", "\x1b[31m\n", ""]
        attack(curated, file, [*cells, text.replace("000.png", "<b>\x1b.png")], [words], capsys)
        total += len(cells) + 1
    record("results of a curation with another value", total)
