import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import torch

from amcl.data import FileImages, MemoryImages, stream
from amcl.data.stream import read_into_memory
from amcl.progress import Progress

SIDE = 16


@pytest.fixture
def files(tmp_path, picture):
    paths = [
        str(picture(tmp_path / f"{i:02}.png", seed=i, width=SIDE + i, height=SIDE))
        for i in range(12)
    ]
    return FileImages(paths, SIDE)


STEPS = [torch.tensor(indices) for indices in ([3, 0, 11], [5, 5], [7], [1, 2], [10, 4], [9])]


def no_children():
    deadline = time.monotonic() + 5
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_in_order(files, workers):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    batches = list(stream(files, STEPS, workers=workers))
    assert torch.equal(torch.random.get_rng_state(), before)  # training's random numbers
    assert len(batches) == len(STEPS)
    for indices, batch in zip(STEPS, batches, strict=True):
        assert torch.equal(batch.pixels, files[indices])
        assert batch.shapes.tolist() == [[SIDE, SIDE + i] for i in indices.tolist()]
        assert batch.unreadable == []
    assert no_children()


@pytest.mark.parametrize("workers", [0, 2])
def test_unreadable_files_are_replaced_by_the_next(files, workers):
    for index in (5, 6, 11):
        with open(files.path(index), "wb"):
            pass
    batches = list(stream(files, STEPS, workers=workers))
    assert torch.equal(batches[0].pixels, files[torch.tensor([3, 0, 0])])  # after the last, first
    assert batches[0].unreadable == [(files.path(11), "empty file (0 bytes)")]
    assert torch.equal(batches[1].pixels, files[torch.tensor([7, 7])])
    assert [path for path, _ in batches[1].unreadable] == [files.path(5), files.path(6)]
    assert batches[2].unreadable == []


@pytest.mark.parametrize("workers", [0, 1])
def test_nothing_readable_any_more(files, workers):
    for index in range(len(files)):
        with open(files.path(index), "wb"):
            pass
    with pytest.raises(ValueError, match=r"none of the 12 image files .*empty file.*in place"):
        next(stream(files, STEPS, workers=workers))
    assert no_children()


def test_memory_images_need_no_workers():
    pixels = torch.arange(4, dtype=torch.uint8).view(4, 1, 1, 1).repeat(1, 3, 2, 2)
    shapes = torch.arange(8).view(4, 2)
    images = MemoryImages(pixels, shapes).subset(torch.tensor([3, 2, 1]))
    (batch,) = stream(images, [torch.tensor([2, 0])], workers=5)
    assert batch.pixels[:, 0, 0, 0].tolist() == [1, 3]
    assert batch.shapes.tolist() == [[2, 3], [6, 7]]
    (batch,) = stream(MemoryImages(pixels), [torch.tensor([1])], workers=0)
    assert batch.shapes is None


def test_endless_steps_are_read_only_a_little_ahead(files):
    taken = []

    def endless():
        while True:
            taken.append(len(taken))
            yield torch.tensor([len(taken) % 12])

    batches = stream(files, endless(), workers=2, ahead=2)
    next(batches)
    batches.close()
    assert len(taken) <= 6
    assert no_children()


def run(code, *arguments):
    """A program of its own, so that what its workers print is seen."""
    code = textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_ctrl_c_is_handled_by_the_parent_alone(files):
    child = run(
        """
        import sys, torch
        torch.set_num_threads(1)
        from amcl.data import FileImages, stream
        files = FileImages(sys.argv[1:], 16)
        batches = stream(files, (torch.tensor([i % 12]) for i in range(10**9)), workers=2)
        try:
            for number, _ in enumerate(batches):
                if number == 3:
                    print("running", flush=True)
        except KeyboardInterrupt:
            batches.close()
            print("stopped", flush=True)
        """,
        *(files.path(index) for index in range(12)),
    )
    try:
        assert child.stdout.readline() == "running\n"
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to the workers, too
        rest, _ = child.communicate(timeout=30)
    finally:
        child.kill()
    assert (rest, child.returncode) == ("stopped\n", 0)


@pytest.mark.parametrize("workers", [0, 2])
def test_reading_into_memory_leaves_out_the_unreadable(files, workers, monkeypatch):
    monkeypatch.setattr(sys.modules["amcl.data.stream"], "CHUNK", 5)
    for index in (0, 7):
        with open(files.path(index), "wb"):
            pass
    images, kept, unreadable = read_into_memory(files, workers=workers)
    assert kept.tolist() == [1, 2, 3, 4, 5, 6, 8, 9, 10, 11]
    assert torch.equal(images[torch.arange(10)], files[kept])
    assert images.shapes.tolist() == [[SIDE, SIDE + i] for i in kept.tolist()]
    assert [path for path, _ in unreadable] == [files.path(0), files.path(7)]


@pytest.mark.parametrize("workers", [0, 2])
def test_without_replacement_labels_stay_with_their_images(files, workers):
    for index in (1, 6):
        with open(files.path(index), "wb"):
            pass
    steps, labels = torch.arange(12).split(4), torch.arange(12) * 10
    batches = list(stream(files, steps, workers=workers, replace=False))
    kept = [batch.select(step) for batch, step in zip(batches, steps, strict=True)]
    assert [k.tolist() for k in kept] == [[0, 2, 3], [4, 5, 7], [8, 9, 10, 11]]
    assert torch.equal(torch.cat([b.pixels for b in batches]), files[torch.cat(kept)])
    assert batches[2].select(labels[steps[2]]).tolist() == [80, 90, 100, 110]
    assert [path for b in batches for path, _ in b.unreadable] == [files.path(1), files.path(6)]


def test_squares_have_no_shapes(tmp_path, picture):
    paths = [str(picture(tmp_path / f"{i}.png", width=9 + i, height=9 + i)) for i in range(3)]
    assert read_into_memory(FileImages(paths, 9), workers=0)[0].shapes is None


def test_progress_is_for_terminals_and_long_waits(capsys, monkeypatch):
    with Progress("reading", 2) as progress:
        monkeypatch.setattr(time, "monotonic", lambda: progress._start + 9)
        progress.advance(1)
    assert capsys.readouterr() == ("", "")
    with Progress("reading", 2) as progress:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        monkeypatch.setattr(time, "monotonic", lambda: progress._start + 0.5)
        progress.advance(1)
        assert progress._bar is None
        monkeypatch.setattr(time, "monotonic", lambda: progress._start + 2)
        progress.advance(1)
        assert progress._bar is not None
    assert "reading" in capsys.readouterr().err


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_know_which_images_they_hold(files, workers):
    for index in (5, 6, 11):
        with open(files.path(index), "wb"):
            pass
    batches = list(stream(files, STEPS, workers=workers))
    assert [batch.indices.tolist() for batch in batches[:3]] == [[3, 0, 0], [7, 7], [7]]
    left_out = list(stream(files, STEPS, workers=workers, replace=False))
    assert [batch.indices.tolist() for batch in left_out[:3]] == [[3, 0], [], [7]]


def test_batches_of_memory_images_know_which_they_hold():
    images = MemoryImages(torch.zeros(12, 3, 4, 4, dtype=torch.uint8)).subset(torch.arange(4, 12))
    (batch,) = stream(images, [torch.tensor([3, 1])], workers=0)
    assert batch.indices.tolist() == [3, 1]
