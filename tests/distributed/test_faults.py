"""Processes that do not fit together, and one that is killed."""

import os
import socket
import subprocess
import sys

LOST = r"""
import multiprocessing, os, signal, sys, time
import torch, torch.distributed as dist
from amcl.errors import RunError
from amcl.training.ranks import shared_errors

def work(rank, folder, victim):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=3)
    try:
        with shared_errors():
            time.sleep(1)
            if rank == victim:
                os.kill(os.getpid(), signal.SIGKILL)
            dist.all_reduce(torch.zeros(1))
    except RunError as error:
        os.write(1, f"{rank} {error}\n".encode())  # in one piece

if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    victim = int(sys.argv[2])
    processes = [fork.Process(target=work, args=(k, sys.argv[1], victim)) for k in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
"""


def test_unequal_batches_are_an_error_on_all_processes(two_processes):
    for results in two_processes:
        for message in results["unequal"]:
            assert "(1, 4, 2) on rank 0, (1, 5, 2) on rank 1" in message
            assert "drop_last=True" in message


def test_a_killed_process_is_named(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LOST, str(tmp_path), "1"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    lines = sorted(done.stdout.splitlines())
    assert len(lines) == 2, done.stdout + done.stderr
    for rank, line in zip("02", lines, strict=True):
        machine = socket.gethostname()
        assert line.startswith(f"{rank} process 1 of 3 ({machine}) has ended without a message")
        assert f"(this is process {rank})" in line
