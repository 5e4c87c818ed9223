"""Processes that train a detector together: python detection_worker.py WORLD_SIZE DATA FOLDER.

Each writes what it saw to `RANK.pt`: the results of a training that nothing stops, and of one that
is stopped and resumed. Importing takes most of the time, so it is done before processes are forked.
"""

import multiprocessing
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from amcl.checkpoints.evaluations import Result
from amcl.config import HardwareSettings
from amcl.errors import Interrupted
from amcl.evaluation import Evaluation
from amcl.evaluation.detection import detect
from amcl.metrics.features import Transform, fingerprint
from amcl.training.hardware import make_fabric
from amcl.training.trainer import Trainer
from toy_detection import MEAN, STD, resnet, settings_for, signal_at

TRAINING = {"epochs": 2, "batch_size": 4, "evaluate_every": 1}


def train(fabric: Any, data: Path, folder: Path) -> dict[str, Any]:
    """Train and measure a detector, and return the result, the weights and what was done."""
    weights: list[str] = []
    steps: list[int] = []
    files: list[str] = []
    measure, step, write = detect_module.detections_of, Trainer.train_step, Result.write

    def detections_of(model: torch.nn.Module, *args: Any, **options: Any) -> Any:
        weights.append(fingerprint(model))
        return measure(model, *args, **options)

    def train_step(self: Trainer, *args: Any, **options: Any) -> Any:
        steps.append(self.step)
        return step(self, *args, **options)

    def write_result(self: Result, run: Path) -> Path:
        files.append(self.path(run).name)
        time.sleep(1)  # the other process does not wait for the file, and looks for it first
        return write(self, run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detect_module, "detections_of", detections_of)
        patch.setattr(Trainer, "train_step", train_step)
        patch.setattr(Result, "write", write_result)
        evaluation = Evaluation(
            resnet(),
            None,
            Transform(image_size=64, mean=MEAN, std=STD),
            settings={"detect": settings_for(data, **TRAINING)},
            folder=folder,
            fabric=fabric,
        )
        result = evaluation.run("detect")
    return {
        "metrics": result.metrics,
        "details": result.details,
        "weights": weights,
        "steps": steps,
        "files": files,
    }


def work(rank: int, world_size: int, port: int, data: Path, folder: Path) -> None:
    """Train without and with a stop, which the second process alone is asked for."""
    os.environ |= {  # as torchrun has them
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "test",
        **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"), str(world_size)),
        **dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)),
        "GROUP_RANK": "0",
    }
    fabric = make_fabric(HardwareSettings(accelerator="cpu", threads=1))
    fabric.launch()
    assert (fabric.global_rank, fabric.world_size) == (rank, world_size)
    results = {"straight": train(fabric, data, folder / "straight")}
    results["again"] = train(fabric, data, folder / "straight")
    with pytest.MonkeyPatch.context() as patch:
        if rank == 1:
            signal_at(patch, 0, signal.SIGTERM)
        try:
            train(fabric, data, folder / "stopped")
        except Interrupted as stopped:
            results["stopped"] = {"message": str(stopped), "code": stopped.exit_code}
    results["resumed"] = train(fabric, data, folder / "stopped")
    torch.save(results, folder / f"{rank}.pt")


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        port: int = any_port.getsockname()[1]
        return port


detect_module = sys.modules[detect.__module__]

if __name__ == "__main__":
    size, data, folder = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    fork = multiprocessing.get_context("fork")
    port = free_port()
    processes = [
        fork.Process(target=work, args=(rank, size, port, data, folder)) for rank in range(size)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=200)
        process.kill()  # one that waits for another which has failed
        process.join()
    sys.exit(any(process.exitcode for process in processes))
