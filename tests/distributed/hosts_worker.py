"""What two hosts do: python hosts_worker.py FOLDER NAMESPACE NAMESPACE.

They train until the cable between them is pulled, and resume; one process trains alone. All is
imported once, before the processes are forked into their namespaces.
"""

import ctypes
import multiprocessing
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import amcl.training.ranks
from amcl.config import Config
from amcl.errors import RunError
from amcl.training import pretrain
from factories import change
from hosts import FIRST, INTERFACE
from tiny_runs import picture_folder, tiny_vit

EPOCHS = 2
PULLED = 1  # epoch after which the cable is pulled
fork = multiprocessing.get_context("fork")


def config(folder: Path) -> Config:
    """Settings whose loss does not depend on the number of processes: no batch norm."""
    made = tiny_vit("simclr", folder / "pictures", epochs=EPOCHS)
    method = change(made.method, projector_last_norm="none")
    return replace(
        made, method=method, hardware=replace(made.hardware, accelerator="cpu", threads=1)
    )


def enter(rank: int, namespace: str) -> None:
    """Become the process of a host, as torchrun would start it."""
    with open(f"/run/netns/{namespace}") as file:
        assert ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0) == 0
    os.environ |= {
        "TORCHELASTIC_RUN_ID": "hosts",
        "GLOO_SOCKET_IFNAME": INTERFACE,
        "MASTER_ADDR": FIRST,
        "MASTER_PORT": "29400",
        "RANK": str(rank),
        "GROUP_RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
    }


def train(
    rank: int, namespaces: list[str], settings: Config, out: Path, resume: bool, pull: bool
) -> None:
    """Train as one process of two; with `pull`, without a cable after some time."""

    def on_probe(metrics: dict[str, float]) -> None:
        if pull and metrics["epoch"] == PULLED:
            words = f"-n {namespaces[1]} link set {INTERFACE} down"
            subprocess.run(["ip", *words.split()], check=True)

    enter(rank, namespaces[rank])
    try:
        pretrain(settings, out, resume=resume, on_probe=on_probe)
    except RunError as error:
        print(error, file=sys.stderr)
        sys.exit(1)


def run(folder: Path, name: str, namespaces: list[str], resume=False, pull=False) -> None:
    """Train on both hosts, and print how their processes ended."""
    settings = config(folder)
    processes = []
    for rank in range(2):
        args = (rank, namespaces, settings, folder / name, resume, pull)
        processes.append(fork.Process(target=train, args=args))
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=300)
        process.kill()
        process.join()
    print(name, *(process.exitcode for process in processes), flush=True)


def main(folder: Path, namespaces: list[str]) -> None:
    amcl.training.ranks._SILENCE = 2.0
    amcl.training.ranks._PATIENCE = 0.5
    picture_folder(folder / "pictures")
    alone = fork.Process(target=pretrain, args=(config(folder), folder / "alone"))
    alone.start()
    run(folder, "both", namespaces, pull=True)
    alone.join()
    words = f"-n {namespaces[1]} link set {INTERFACE} up"
    subprocess.run(["ip", *words.split()], check=True)
    run(folder, "both", namespaces, resume=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
