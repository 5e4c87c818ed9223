"""Two hosts, each with an address and a name of its own, train as one process does."""

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from amcl.checkpoints import read_metrics
from amcl.training import pretrain
from distributed.hosts_worker import config
from hosts import INTERFACE, Host, two_hosts
from tiny_runs import picture_folder

TESTS = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}  # sums in another order, in float32


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """Two hosts on one machine."""
    with two_hosts(tmp_path_factory.mktemp("hosts")) as made:
        if isinstance(made, str):
            pytest.skip(made)
        yield made


def curve(run: Path) -> torch.Tensor:
    """The loss of each step."""
    rows = [row for row in read_metrics(run) if row["kind"] == "step"]
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    return torch.tensor([row["loss"] for row in rows])


@pytest.mark.slow
def test_two_hosts_train_as_one_process_and_notice_that_the_cable_is_pulled(hosts, tmp_path):
    worker = TESTS / "distributed/hosts_worker.py"
    done = subprocess.run(
        [sys.executable, worker, tmp_path, *(host.namespace for host in hosts)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.stdout.splitlines() == ["both 1 1", "both 0 0"], done.stdout + done.stderr
    assert curve(tmp_path / "alone").unique().numel() == curve(tmp_path / "alone").numel()
    silent = "for 2 seconds: it was stopped, its machine is down, or the network"
    first = r"amcl: process 1 of 2 \(.+\) has given no sign of life"
    assert re.search(rf"{first} {silent}.*\(this is process 0\)", done.stderr)
    second = "amcl: torchrun on the machine of process 0 of 2 has not answered"
    assert re.search(rf"{second} {silent}.*\(this is process 1\)", done.stderr)
    assert "Traceback" not in done.stderr
    torch.testing.assert_close(curve(tmp_path / "both"), curve(tmp_path / "alone"), **TOLERANCE)


def start(host: Host, words: str, folder: Path) -> subprocess.Popen[str]:
    """Start `amcl pretrain` by torchrun on a host."""
    begin = "--nnodes 2 --nproc-per-node 1 --rdzv-id hosts --rdzv-backend c10d --rdzv-endpoint"
    torchrun = [sys.executable, "-m", "torch.distributed.run", *begin.split(), "node-a:29400"]
    with (folder / f"{host.name}.txt").open("w") as output:
        return subprocess.Popen(
            host.command([*torchrun, "-m", "amcl", "pretrain", *words.split()]),
            env={**ENVIRONMENT, "GLOO_SOCKET_IFNAME": INTERFACE},
            cwd=folder,
            stdout=output,
            stderr=output,
        )


@pytest.mark.slow
def test_torchrun_on_two_hosts_of_which_one_is_killed(hosts, tmp_path):
    picture_folder(tmp_path / "pictures")
    settings = config(tmp_path)
    # Long enough to be killed in the middle; at a low rate, so that rounding does not grow.
    optimizer = replace(settings.optimizer, lr=1e-5)
    settings = replace(settings, optimizer=optimizer, run=replace(settings.run, epochs=40))
    (tmp_path / "settings.toml").write_text(settings.to_toml())
    run = tmp_path / "run"
    both = [start(host, "--config settings.toml --out run", tmp_path) for host in hosts]
    try:
        wait_for_epoch(run, 3, both)
        both[1].kill()
        assert both[0].wait(60) != 0
    finally:
        for process in both:
            process.kill()
            process.wait()
    printed = (tmp_path / "node-a.txt").read_text()
    before, message, after = printed.partition(
        "process 1 of 2 (node-b) has ended without a message"
    )
    assert message, printed
    assert "Resume the run." in after
    assert "Traceback" not in before  # torchrun adds its own at the end
    pretrain(settings, run, resume=True)  # the number of processes may be another
    pretrain(settings, tmp_path / "alone")
    torch.testing.assert_close(curve(run), curve(tmp_path / "alone"), **TOLERANCE)


def wait_for_epoch(run: Path, epoch: int, processes: list[subprocess.Popen[str]]) -> None:
    """Wait until a run has done an epoch."""
    end = time.monotonic() + 300
    while not (run / "metrics.jsonl").exists() or all(
        row.get("epoch", 0) < epoch for row in read_metrics(run)
    ):
        assert time.monotonic() < end
        assert [process.poll() for process in processes] == [None, None]
        time.sleep(0.05)
