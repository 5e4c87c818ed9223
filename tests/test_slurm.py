"""The scripts for SLURM, run by bash; small commands stand in for those of SLURM."""

import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.distributed.run import get_args_parser

from amcl import recipes
from amcl.checkpoints import read_metrics
from amcl.cli import pretrain, search
from amcl.config import Config
from amcl.training import pretrain as train
from tiny_runs import picture_folder, tiny_vit

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples/slurm").glob("*.sh"))
DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))
PRETRAIN, SEARCH = SCRIPTS
# A job of two machines, each with two processes. All of them are this machine.
JOB = {
    "SLURM_JOB_NODELIST": "localhost",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_NTASKS": "2",
    "SLURM_NTASKS_PER_NODE": "1",
    "SLURM_GPUS_ON_NODE": "2",
    "SLURM_CPUS_PER_TASK": "2",
}
ARRAY = {"SLURM_JOB_NUM_NODES": "1", "SLURM_NTASKS": "1", "SLURM_CPUS_PER_TASK": "1"}
RECORD = 'printf "%s\\n" "$@" > words.txt'
RUN_ON_ALL = """pids=()
for ((node = 0; node < SLURM_JOB_NUM_NODES; node++)); do
    SLURM_NODEID=$node SLURM_PROCID=$node SLURM_LOCALID=0 "$@" &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || exit; done"""


@pytest.fixture
def slurm(tmp_path):
    """A function that starts a script, with a shell script in the place of `srun`."""
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "scontrol").write_text('#!/bin/bash\n[[ $* == "show hostnames "* ]] && echo "$3"\n')
    (commands / "amcl").write_text(f'#!/bin/bash\nexec {sys.executable} -m amcl "$@"\n')
    torchrun = f'#!/bin/bash\nexec {sys.executable} -m torch.distributed.run "$@"\n'
    (commands / "torchrun").write_text(torchrun)

    def start(script: Path, *words: str, srun: str, **variables: str) -> subprocess.Popen[str]:
        (commands / "srun").write_text(f"#!/bin/bash\n{srun}\n")
        for command in commands.iterdir():
            command.chmod(0o755)
        return subprocess.Popen(
            ["bash", str(script), *words],
            cwd=tmp_path,
            env={
                **os.environ,
                **variables,
                "PATH": os.pathsep.join([str(commands), os.environ["PATH"]]),
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def ended(job: subprocess.Popen[str]) -> str:
    """Wait for a job, which must succeed, and return its output."""
    with job:
        try:
            output, _ = job.communicate(timeout=240)
        finally:
            job.kill()
    assert job.returncode == 0, output
    return output


def words_of(folder: Path) -> list[str]:
    """The words that `srun` was given."""
    return (folder / "words.txt").read_text().splitlines()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_sound(script):
    subprocess.run(["bash", "-n", script], check=True)
    checker = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if checker is None:
        pytest.skip("shellcheck is not installed")
    subprocess.run([checker, script], check=True)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_without_a_folder_scripts_say_what_they_take(script, slurm):
    job = slurm(script, srun=RECORD)
    assert job.communicate()[0].startswith(f"usage: sbatch {script.name}")
    assert job.returncode == 2


def usage(script: Path) -> list[str]:
    """The words behind the name of a script, as its first comment has them."""
    lines = script.read_text().splitlines()
    first = next(line for line in lines if line.startswith("#   sbatch"))
    return first.split()[3:]


def test_the_command_of_pretraining_is_understood(tmp_path, slurm):
    """By torchrun, and by amcl."""
    words = usage(PRETRAIN)
    ended(slurm(PRETRAIN, *words, srun=RECORD, SLURM_JOB_ID="41", **JOB))
    command, *given = words_of(tmp_path)
    assert command == "torchrun"
    parsed = get_args_parser().parse_args(given)
    assert (parsed.nnodes, parsed.nproc_per_node) == ("2", "2")
    assert (parsed.rdzv_backend, parsed.rdzv_endpoint) == ("c10d", "localhost:20041")
    assert parsed.module
    assert parsed.training_script == "amcl"
    command, *options = parsed.training_script_args
    assert command == "pretrain"
    assert pretrain.parse(options).out == Path(words[0])
    (tmp_path / words[0]).mkdir(parents=True)
    (tmp_path / words[0] / "config.toml").write_text(recipes.recipe("builtin-simclr").to_toml())
    ended(slurm(PRETRAIN, *words, srun=RECORD, SLURM_JOB_ID="41", **JOB))
    assert words_of(tmp_path)[-3:] == ["pretrain", "--resume", words[0]]


def test_the_command_of_a_search_is_understood(tmp_path, slurm, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = usage(SEARCH)
    ended(slurm(SEARCH, *words, srun=RECORD, SLURM_ARRAY_TASK_ID="3", **ARRAY))
    amcl, command, *options = words_of(tmp_path)
    assert (amcl, command) == ("amcl", "search")
    parsed = search.parse(options)
    assert parsed.storage == f"{words[0]}/trials.journal"
    assert (parsed.study, parsed.out) == ("stl10", Path(words[0]) / "worker-3")
    url = "postgresql://me@database/studies"
    ended(slurm(SEARCH, *words, srun=RECORD, SLURM_ARRAY_TASK_ID="3", STORAGE=url, **ARRAY))
    assert search.parse(words_of(tmp_path)[2:]).storage == url


def torchruns() -> list[str]:
    """Every command of torchrun in the documents, but for its first word."""
    lines = [line for path in DOCUMENTS for line in path.read_text().splitlines()]
    return [line.removeprefix("torchrun ") for line in lines if line.startswith("torchrun --")]


@pytest.mark.parametrize("words", torchruns())
def test_commands_of_torchrun_are_understood(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if resumed := re.search(r"--resume (\S+)", words):
        Path(resumed[1]).mkdir(parents=True)
        config = recipes.recipe("imagenet-simclr-amcl").to_toml()
        Path(resumed[1], "config.toml").write_text(config)
    parsed = get_args_parser().parse_args(words.split())
    assert (parsed.module, parsed.training_script) == (True, "amcl")
    assert parsed.training_script_args[0] == "pretrain"
    pretrain.parse(parsed.training_script_args[1:])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_documents_start_scripts_as_they_are_meant(script):
    line = f"sbatch examples/slurm/{script.name} {' '.join(usage(script))}"
    assert any(line in path.read_text().splitlines() for path in DOCUMENTS)


def settings(folder: Path) -> Config:
    """Settings whose loss does not depend on the number of processes: no batch norm."""
    picture_folder(folder / "pictures")
    config = tiny_vit("simclr", folder / "pictures")
    method = replace(config.method, projector_last_norm="none")
    return replace(config, method=method, hardware=replace(config.hardware, accelerator="cpu"))


@pytest.mark.slow
def test_a_job_trains_on_two_machines_and_resumes(tmp_path, slurm):
    (tmp_path / "short.toml").write_text(settings(tmp_path).to_toml())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    job = str(port % 20000)
    words = ["run", "--config", "short.toml"]
    ended(slurm(PRETRAIN, *words, srun=RUN_ON_ALL, SLURM_JOB_ID=job, **JOB))
    rows = [row for row in read_metrics(tmp_path / "run") if row["kind"] == "step"]
    assert len(rows) == 10
    train(Config.from_file(tmp_path / "short.toml"), tmp_path / "alone")
    alone = [row for row in read_metrics(tmp_path / "alone") if row["kind"] == "step"]
    losses = [torch.tensor([row["loss"] for row in each]) for each in (rows, alone)]
    torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
    output = ended(slurm(PRETRAIN, *words, srun=RUN_ON_ALL, SLURM_JOB_ID=job, **JOB))
    assert "run has finished its 2 epochs: nothing is left to do" in output


@pytest.mark.slow
def test_tasks_of_an_array_share_a_search(tmp_path, slurm):
    config = settings(tmp_path)
    config = replace(config, data=replace(config.data, validation=10))
    (tmp_path / "base.toml").write_text(config.to_toml())
    words = ["studies/ours", "--config", "base.toml", "--trials", "4", "--space", "lr=1e-4:1:log"]
    tasks = [
        slurm(SEARCH, *words, srun=RUN_ON_ALL, SLURM_ARRAY_TASK_ID=str(task), **ARRAY)
        for task in range(2)
    ]
    for task in tasks:
        ended(task)
    folders = [tmp_path / f"studies/ours/worker-{task}/trials" for task in range(2)]
    trained = [path.name for folder in folders if folder.exists() for path in folder.iterdir()]
    assert sorted(trained) == ["0000", "0001", "0002", "0003"]
