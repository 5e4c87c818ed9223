"""Processes that do not fit together, and one that is killed."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

LOST = r"""
import multiprocessing, os, signal, sys, time
import torch, torch.distributed as dist
from amcl.errors import RunError
from amcl.training import ranks
from amcl.training.ranks import shared_errors

def work(rank, folder, victim, number):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=3)
    try:
        with shared_errors():
            time.sleep(1)
            if rank == victim:
                os.kill(os.getpid(), number)
            dist.all_reduce(torch.zeros(1))
    except RunError as error:
        os.write(1, f"{rank} {error}\n".encode())  # in one piece

if __name__ == "__main__":
    ranks._SILENCE, ranks._PATIENCE = 2.0, 0.5
    fork = multiprocessing.get_context("fork")
    folder, victim, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    processes = [fork.Process(target=work, args=(k, folder, victim, number)) for k in range(3)]
    for process in processes:
        process.start()
    for rank, process in enumerate(processes):
        if rank != victim:
            process.join(60)
    processes[victim].kill()
"""


def test_unequal_batches_are_an_error_on_all_processes(two_processes):
    for results in two_processes:
        for message in results["unequal"]:
            assert "(1, 4, 2) on rank 0, (1, 5, 2) on rank 1" in message
            assert "drop_last=True" in message


def lose(folder: Path, number: int) -> subprocess.CompletedProcess[str]:
    """Send a signal to process 1 of three that work together."""
    return subprocess.run(
        [sys.executable, "-c", LOST, str(folder), "1", str(int(number))],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_a_killed_process_is_named(tmp_path):
    done = lose(tmp_path, signal.SIGKILL)
    lines = sorted(done.stdout.splitlines())
    assert len(lines) == 2, done.stdout + done.stderr
    for rank, line in zip("02", lines, strict=True):
        machine = socket.gethostname()
        assert line.startswith(f"{rank} process 1 of 3 ({machine}) has ended without a message")
        assert f"(this is process {rank})" in line


def test_a_process_that_gives_no_sign_of_life_ends_the_others(tmp_path):
    """One that is stopped is silent as a machine without power is: its connections stay open."""
    done = lose(tmp_path, signal.SIGSTOP)
    assert done.stdout == ""
    lines = sorted(line for line in done.stderr.splitlines() if line.startswith("amcl: "))
    assert len(lines) == 2, done.stderr
    for rank, line in zip("02", lines, strict=True):
        lost = f"process 1 of 3 ({socket.gethostname()}) has given no sign of life for 2 seconds"
        assert line.startswith(f"amcl: {lost}: ")
        assert line.endswith(f"Resume the run. (this is process {rank})")
