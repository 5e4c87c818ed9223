"""Streams that nobody reads, that are full, closed, or of ASCII; users without a home folder."""

import errno
import io
import os
import pwd
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from amcl.checkpoints.files import load_checkpoint
from amcl.cli import COMMANDS, main
from amcl.cli.output import results_console
from amcl.cli.process import run_process
from amcl.data import load_all_images
from amcl.data.named import data_root, missing_sets
from amcl.files import expand_home
from amcl.progress import Progress
from amcl.training import pretrain
from amcl.training.display import log_to_console
from tiny_runs import assert_same_run, picture_folder, process_kept, tiny_vit

ATTACK = "streams that are closed, full, not read or of ASCII; users without a home folder"
SMALL = (
    "--data builtin --subset 64 --backbone resnet10t --width 0.125 --epochs 2 --batch-size 32 "
    "--threads 1 --knn-k 5"
)
LAST_LINE = "judge it with: amcl evaluate run"


def shell(line, folder, **variables):
    """Run a line of bash in which `amcl` is this package; its exit code is that of `amcl`."""
    python = f"{shlex.quote(sys.executable)} -m amcl "
    return subprocess.run(
        ["bash", "-c", line.replace("amcl ", python, 1) + "; exit ${PIPESTATUS[0]}"],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


class Broken(io.StringIO):
    """A terminal that is gone, or a pipe or file that takes nothing."""

    def __init__(self, error, terminal):
        super().__init__()
        self.error = error
        self.terminal = terminal
        self.attempts = 0

    def write(self, text):
        self.attempts += 1
        raise OSError(self.error, os.strerror(self.error))

    def flush(self):
        self.write("")

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize(
    ("error", "terminal"),
    [(errno.EPIPE, False), (errno.EIO, True), (errno.ENOSPC, False)],
)
def test_training_survives_a_stderr_that_breaks(tmp_path, monkeypatch, error, terminal):
    """Without the command line around it: in a program of somebody else."""
    config = tiny_vit("simclr", picture_folder(tmp_path / "pictures", 16))
    log_to_console()
    pretrain(config, tmp_path / "straight")
    broken = Broken(error, terminal)
    monkeypatch.setattr(sys, "stderr", broken)
    pretrain(config, tmp_path / "run")
    assert broken.attempts > 5
    assert_same_run(tmp_path / "straight", tmp_path / "run")
    lines = [
        len((tmp_path / run / "log.txt").read_text(encoding="utf-8").splitlines())
        for run in ("straight", "run")
    ]
    assert lines[1] == lines[0]


@pytest.mark.parametrize("stream", ["broken", None])
def test_a_bar_survives_a_stderr_that_breaks(monkeypatch, stream):
    broken = Broken(errno.EPIPE, terminal=True) if stream else None
    monkeypatch.setattr(sys, "stderr", broken)
    monkeypatch.setattr(time, "monotonic", iter(range(0, 10_000, 10)).__next__)
    with Progress("decoding images", 2) as progress:
        progress.advance(1)
        progress.advance(1)
    assert broken is None or broken.attempts > 0


def process(stdout, work, capsys):
    """Run a command as a process does, with another stdout; returns the code and stderr."""
    with process_kept():
        sys.stdout = stdout
        code = run_process(lambda: work)
    return code, capsys.readouterr().err


@pytest.mark.parametrize("rich", [False, True])
def test_a_reader_that_has_seen_enough_is_no_error_and_the_work_continues(capsys, rich):
    """As `amcl compare A B --json FILE | head -1` leaves it: the file is still to be written."""
    reader, writer = os.pipe()
    os.close(reader)
    done = []

    def work():
        show = results_console().print if rich else print
        for _ in range(3):
            show("a line of results")
            sys.stdout.flush()
        done.append("the file is written")
        return 0

    with os.fdopen(writer, "w") as stdout:
        assert process(stdout, work, capsys) == (0, "")
    assert done


@pytest.mark.parametrize(
    ("stream", "reason"), [("/dev/full", "No space left on device"), (None, "Bad file descriptor")]
)
def test_results_that_cannot_be_printed_are_an_error(capsys, stream, reason):
    stdout = open(stream, "w") if stream else None  # noqa: SIM115
    line = f"amcl: results could not be printed: {reason}.\n"
    assert process(stdout, lambda: main(["recipes"]), capsys) == (1, line)
    assert process(stdout, lambda: print("wrong") or 2, capsys) == (2, line)
    assert process(stdout, lambda: 0, capsys) == (0, "")  # it had nothing to print

    def help_of_a_command():
        print("usage: amcl")
        sys.exit(0)

    assert process(stdout, help_of_a_command, capsys) == (1, line)
    if stdout is not None:
        stdout.close()


@pytest.mark.parametrize("command", [*COMMANDS, "recipes show cifar10-simclr-amcl", "recipes list"])
def test_an_ascii_terminal_gets_escapes(tmp_path, capsys, command):
    words = command.split() if " " in command else [command, "--help"]
    with (tmp_path / "out.txt").open("w", encoding="ascii") as stdout:
        assert process(stdout, lambda: main(words), capsys) == (0, "")
    text = (tmp_path / "out.txt").read_text(encoding="ascii")
    assert len(text) > 50
    if command == "recipes list":
        assert "resnet10t \\xd70.25, " in text


def test_a_pipe_of_training_that_nobody_reads(tmp_path):
    done = shell(f"amcl pretrain {SMALL} --out run 2>&1 | head -1", tmp_path)
    assert (done.returncode, done.stdout) == (0, "run folder: run\n")
    assert (tmp_path / "run/log.txt").read_text(encoding="utf-8").endswith(f"{LAST_LINE}\n")
    assert (tmp_path / "run/backbone.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "streams",
    [">/dev/full 2>/dev/full", ">&- 2>&- <&-", "2>&-", "2>&1 >/dev/null | (exit)"],
)
def test_training_needs_no_streams(tmp_path, streams):
    done = shell(f"amcl pretrain {SMALL} --out run {streams}", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "run/log.txt").read_text(encoding="utf-8").endswith(f"{LAST_LINE}\n")
    assert load_checkpoint(tmp_path / "run/checkpoints/last.pt")["step"] == 4


@pytest.mark.slow
def test_commands_work_in_the_c_locale(tmp_path):
    c = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    for line in (
        f"pretrain {SMALL} --out run",
        "evaluate run --data builtin --protocols knn",
        "compare run",
        "report run",
        "export run",
        "cost",
        "sweep --data builtin --list",
        "nothing-τ",
    ):
        done = shell(f"amcl {line}", tmp_path, **c)
        assert "Traceback" not in done.stderr, line
        assert done.returncode == (2 if line.startswith(("sweep", "nothing")) else 0), done.stderr
        assert (done.stdout + done.stderr).isascii()


@pytest.fixture
def homeless(monkeypatch):
    """The user of a container: any number, without a name, a home folder or HOME."""

    def nobody(*_):
        raise KeyError("uid not found")

    for name in ("HOME", "USER", "LOGNAME", "AMCL_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.setattr(pwd, "getpwnam", nobody)
    monkeypatch.setenv("TMPDIR", "/no/such/folder")


def test_without_a_home_folder_a_tilde_is_a_clear_error(homeless, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"^~/x: there is no home folder that ~ could stand for"):
        expand_home("~/x")
    with pytest.raises(ValueError, match=r"cache/amcl: there is no home .* AMCL_DATA names the"):
        data_root()
    (tmp_path / "~old").mkdir()
    assert expand_home("~old") == Path("~old")
    assert data_root(tmp_path) == tmp_path


def test_what_is_not_at_home_needs_none(homeless):
    assert len(load_all_images("builtin", image_size=32).names) > 100
    assert missing_sets(["builtin"]) == []


@pytest.mark.parametrize(
    "words",
    [
        "pretrain --data ~/x",
        "pretrain --data cifar10",
        "pretrain --data builtin --init ~/x",
        "evaluate ~/x --data builtin",
        "compare ~/x",
        "report ~/x",
        "export ~/x",
        "embed ~/x --data builtin --out x.npz",
        "predict ~/x --data builtin --out x.csv",
        "cost ~/x",
        "data cifar10",
    ],
)
def test_commands_say_so_in_one_line(homeless, tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == (1 if words.startswith("data") else 2)
    assert "there is no home folder" in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.iterdir())
