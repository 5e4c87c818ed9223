"""Numbers that no machine has room for, and files that a decoder does not survive."""

import os
import signal
import time

import pytest
import torch

from amcl.cli import main
from amcl.cli.command import attempt
from amcl.data import stream, workers
from amcl.data.images import FileImages
from amcl.data.shapes import shapes
from amcl.errors import memory_message
from amcl.losses import AMCLLoss, ContrastiveLoss, CrossCorrelationLoss, NegativeCosineLoss
from amcl.temperature import ConstantTemperature
from tiny_runs import picture_folder

ATTACK = "numbers that no machine has room for; files that end or hang their decoder"
SMALL = [
    *("pretrain", "--data", "builtin", "--subset", "64", "--batch-size", "32", "--epochs", "1"),
    *("--backbone", "resnet10t", "--width", "0.125", "--threads", "1", "--knn-k", "5"),
]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--image-size", "1000000"], 1, "not enough memory (715,255.7 GiB"),
        (["--method", "moco", "--queue", "1000000000000"], 1, "a smaller --queue"),
        (["--heads", "10000000"], 1, "fewer --heads"),
        (["--width", "1e9"], 1, "a smaller network (--backbone, --width)"),
        (["--threads", "100000"], 2, "--threads must be at most 1024, got 100000"),
        (["--lr", "1e38"], 2, "--lr must be at most 1e+09, got 1e+38"),
        (["--lr", "1e9"], 3, "training diverged"),
        (["--method", "barlow", "--batch-size", "1"], 1, "batch normalization needs two or more"),
        (["--accumulate", "32"], 1, "or a smaller --accumulate"),
    ],
)
def test_numbers_that_are_too_large_or_too_small(options, code, message, tmp_path, capsys):
    assert main([*SMALL, *options, "--out", str(tmp_path / "run")]) == code
    output = capsys.readouterr().err
    assert message in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    "words",
    [
        "embed run --data builtin --out x.npz",
        "evaluate run --data builtin",
        "export run",
        "detect resnet10t --scratch --data builtin",
        "predict run --data builtin --out x.csv",
        "report run",
        "cost",
    ],
)
def test_threads_of_every_command_are_bounded(words, capsys, monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: pytest.fail("too late"))
    assert main([*words.split(), "--threads", "100000"]) == 2
    assert "--threads must be at most 1024, got 100000" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lr", "1e38"], "--lr must be at most 1e+09, got 1e+38"),
        (["--scale-jitter", "1e-9", "1"], "--scale-jitter must be at least 0.05, got 1e-09"),
        (["--devices", "-1"], "--devices must be a whole number, at least 0, got -1"),
        (["--workers", "-1"], "--workers must be a whole number, at least 0, got -1"),
        (["--channels", "1000000"], "there is not enough memory"),
    ],
)
def test_numbers_that_no_detector_takes(options, message, tmp_path, capsys):
    data = shapes(tmp_path / "shapes", train=4, test=1)
    small = ["--image-size", "64", "--batch-size", "2", "--epochs", "1", "--threads", "1"]
    words = ["detect", "resnet10t", "--scratch", "--data", str(data), *small, *options]
    assert main([*words, "--out", str(tmp_path / "out")]) in (1, 2)
    output = capsys.readouterr().err
    assert message in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("error", "amount"),
    [
        (MemoryError(), "memory. Choose"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB."), "(2.50 GiB"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: allocate 2147483648 bytes"),
            "2.0",
        ),
    ],
)
def test_memory_errors_are_one_line(error, amount, capsys):
    def work():
        raise error

    assert attempt("amcl embed", work) == 1
    output = capsys.readouterr().err
    assert "amcl embed: there is not enough memory" in output
    assert amount in output


def test_other_errors_of_torch_are_not_taken_for_it():
    assert memory_message(RuntimeError("mat1 and mat2 shapes cannot be multiplied")) is None

    def work():
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        attempt("amcl embed", work)


def bad_file(monkeypatch, folder, then):
    """Files of which one does something to the process that decodes it."""
    paths = sorted(
        str(path) for path in picture_folder(folder / "pictures", count=8).rglob("*.png")
    )
    plain = FileImages.decode

    def decode(self, index):
        if index == 5:
            then()
        return plain(self, index)

    monkeypatch.setattr(FileImages, "decode", decode)
    return FileImages(paths, 16), paths[5]


def test_a_file_that_kills_its_decoder_is_named(tmp_path, monkeypatch):
    files, name = bad_file(monkeypatch, tmp_path, lambda: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(ChildProcessError, match=r"has died while .* was decoded") as error:
        list(stream(files, torch.arange(8).split(2), workers=2))
    assert name in str(error.value)
    assert "memory may have run out" in str(error.value)


def test_a_file_that_hangs_its_decoder_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "STALLED", 1.0)
    monkeypatch.setattr(workers, "SLICE", 0.2)
    files, name = bad_file(monkeypatch, tmp_path, lambda: time.sleep(60))
    start = time.monotonic()
    with pytest.raises(ChildProcessError, match=r"minutes while .* was decoded") as error:
        list(stream(files, torch.arange(8).split(2), workers=2))
    assert name in str(error.value)
    assert time.monotonic() - start < 30


LOSSES = {
    "amcl": lambda: AMCLLoss(dim=8, num_heads=2),
    "contrastive": lambda: ContrastiveLoss(2, ConstantTemperature(0.5)),
    "cosine": lambda: NegativeCosineLoss(2, ConstantTemperature(0.5)),
    "correlation": lambda: CrossCorrelationLoss(2, ConstantTemperature(0.5)),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_finite_where_projections_are_zero(name, dtype):
    loss = LOSSES[name]()
    z = torch.randn(2, 2, 6, 8, generator=torch.Generator().manual_seed(0))
    z[:, :, 1] = 0
    z0, z1 = (each.to(dtype).requires_grad_() for each in z)
    value = loss(z0, z1, *([z0[0], z1[0]] if name == "cosine" else []))
    value.backward()
    assert value.isfinite()
    assert z0.grad.isfinite().all()
    assert z1.grad.isfinite().all()
