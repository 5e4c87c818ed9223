"""Two processes that train the same runs with DDP and FSDP: python sharded_worker.py FOLDER CASE …

Each case is trained with both strategies, into FOLDER/CASE-STRATEGY. The case `resume` stops runs
and resumes them, each with either strategy; for the others, see their functions.
"""

import multiprocessing
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning_fabric  # noqa: F401 (imported once, before the processes are forked)
import pytest
import timm  # noqa: F401
import torch._dynamo  # DistributedDataParallel would import it in each process
import torch.distributed.fsdp
import torch.distributed.tensor

from amcl.config import Config
from amcl.config.fields import with_values
from amcl.errors import Interrupted, NonFiniteError, RunError
from amcl.training import pretrain
from amcl.training.pretraining_task import PretrainingTask
from factories import few_builtin_images, small_run
from tiny_runs import interrupt_at, tiny_vit

CASES: dict[str, dict[str, Any]] = {
    # name: the method, and other options; those of the resnet's names are of `small_run`
    "simclr": {},
    "mocov3": {},
    "can": {},
    "resnet-simclr": {"channels_last": False},
    "mae": {},
    "lgp": {"pull": 0.0},
    "moco": {},
    "dino": {"local_crops": 2},
    "byol": {},
    "nnclr": {},
    "barlow": {},
    "vicreg": {},
    "simsiam": {},
    "lars": {"optimizer": "lars", "clip": 0.1},
    "scalars": {"form": "sigmoid", "sigmoid_bias": -2.0, "temperature": "learnable", "clip": 0.1},
    "parts": {"accumulate": 2, "layer_decay": 0.7, "optimizer": "sgd"},
    "decay": {"optimizer": "sgd", "final_weight_decay": 0.1, "decay_norm_and_bias": True},
    "checkpointing": {"activation_checkpointing": True},
    "checkpointing-can": {"activation_checkpointing": True},
    "resnet-checkpointing": {"activation_checkpointing": True, "channels_last": False},
    "compile": {"compile": True},
    "compile-can": {"compile": True, "activation_checkpointing": True},
}


def config_of(case: str, pictures: Path, strategy: str) -> Config:
    options = dict(CASES[case])
    if case.startswith("resnet"):
        options |= {"epochs": 1, "workers": 0, "probe_every": 1}
        base = small_run("simclr")
    else:
        words = [word for word in case.split("-") if word in ("mocov3", "can", *_METHODS)]
        base = tiny_vit(words[0] if words else "simclr", pictures, epochs=1)
    hardware = {"accelerator": "cpu", "devices": 2, "threads": 1, "strategy": strategy}
    return with_values(base, options | hardware)


_METHODS = ["mae", "lgp", "moco", "dino", "byol", "nnclr", "barlow", "vicreg", "simsiam"]


def train(cases: list[str], folder: Path) -> None:
    """Train all cases with both strategies."""
    for case in cases:
        if case in OTHERS:
            OTHERS[case](folder)
            continue
        for strategy in ("ddp", "fsdp"):
            pretrain(config_of(case, folder / "pictures", strategy), folder / f"{case}-{strategy}")


def diverge(folder: Path) -> None:
    """Train a run that diverges, which every process has to notice at once."""
    base = config_of("simclr", folder / "pictures", "fsdp")
    config = with_values(base, {"optimizer": "sgd", "lr": 1e9, "epochs": 4})
    with pytest.raises(NonFiniteError) as error:
        pretrain(config, folder / "diverged")
    rank = torch.distributed.get_rank()
    (folder / f"diverged-{rank}.txt").write_text(str(error.value), encoding="utf-8")


def stop_and_resume(folder: Path) -> None:
    """Train a run that is stopped with each strategy and resumed with each, and one that is not."""

    def config(strategy: str) -> Config:
        base = config_of("mocov3", folder / "pictures", strategy)
        return replace(base, run=replace(base.run, epochs=2))

    pretrain(config("fsdp"), folder / "whole")
    for stopped in ("ddp", "fsdp"):
        run = folder / f"stopped-{stopped}"
        with pytest.MonkeyPatch.context() as patch:
            interrupt_at(patch, step=3)
            with pytest.raises(Interrupted):
                pretrain(config(stopped), run)
        torch.distributed.barrier()
        for resumed in ("ddp", "fsdp"):
            copy = folder / f"{stopped}-then-{resumed}"
            if torch.distributed.get_rank() == 0:
                shutil.copytree(run, copy)
            torch.distributed.barrier()
            pretrain(config(resumed), copy, resume=True)


def without_images(folder: Path) -> None:
    """Train a run in which the second process gets no images after the first step."""
    batches = PretrainingTask.batches

    def dying(task: PretrainingTask, *args: Any) -> Iterator[Any]:
        for number, batch in enumerate(batches(task, *args)):
            if number == 1 and task.fabric.global_rank == 1:
                raise ChildProcessError("a worker has died.")
            yield batch

    PretrainingTask.batches = dying
    try:
        pretrain(config_of("simclr", folder / "pictures", "fsdp"), folder / "run")
    except (ChildProcessError, RunError) as error:
        rank = torch.distributed.get_rank()
        (folder / f"error-{rank}.txt").write_text(str(error), encoding="utf-8")
        os._exit(0)  # as the command would end


OTHERS = {"resume": stop_and_resume, "diverge": diverge, "without-images": without_images}


def work(rank: int, port: int, cases: list[str], folder: Path) -> None:
    os.environ |= {  # as torchrun has them
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "TORCHELASTIC_RUN_ID": "test",
    }
    with few_builtin_images():
        train(cases, folder)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    port, target, *names = sys.argv[1:]
    fork = multiprocessing.get_context("fork")
    processes = [
        fork.Process(target=work, args=(rank, int(port), names, Path(target))) for rank in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=500)
        process.kill()  # one that waits for another which has failed
        process.join()
    sys.exit(any(process.exitcode for process in processes))
