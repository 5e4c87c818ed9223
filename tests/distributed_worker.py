"""The processes of the distributed tests: python distributed_worker.py WORLD_SIZE FOLDER.

Importing torch takes most of the time. It is imported once, before the processes are forked.
"""

import multiprocessing
import sys
import types
from collections.abc import Callable
from pathlib import Path

import torch
import torch._dynamo  # DistributedDataParallel would import it in each process
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import distributed_cases
import shuffle_cases
from amcl.distributed import gather
from amcl.losses import AMCLLoss


def refusal(work: Callable[[], object]) -> str:
    """Return the error of work on items of which the processes do not have as many."""
    try:
        work()
    except ValueError as error:
        return str(error)
    return ""


def work(rank: int, world_size: int, folder: Path) -> None:
    """Write what one process computes to a file."""
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=world_size
    )
    losses = {
        case: distributed_cases.run(case, rank, world_size, DistributedDataParallel)
        for case in (*distributed_cases.CASES, *distributed_cases.METHOD_CASES)
    }
    results = {
        "losses": losses,
        "shuffle": shuffle_cases.run(rank),
        "unequal": [
            refusal(lambda: gather(torch.zeros(1, 4 + rank, 2))),
            refusal(lambda: AMCLLoss(num_heads=1, dim=2)(*torch.randn(2, 1, 4 + rank, 2))),
        ],
    }
    torch.save(results, folder / f"{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    # timm takes seconds to import, and a stand-in serves as the backbone here.
    sys.modules["amcl.backbones"] = types.ModuleType("amcl.backbones")
    sys.modules["amcl.backbones"].Backbone = shuffle_cases.Flat
    size, folder = int(sys.argv[1]), Path(sys.argv[2])
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=work, args=(rank, size, folder)) for rank in range(size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=100)
        process.kill()  # one that waits for another which has failed
        process.join()
    sys.exit(any(process.exitcode for process in processes))
