"""One process of the distributed test: python distributed_worker.py RANK WORLD_SIZE FOLDER."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from distributed_cases import CASES, run

if __name__ == "__main__":
    rank, world_size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=world_size
    )
    results = {case: run(case, rank, world_size, DistributedDataParallel) for case in CASES}
    torch.save(results, folder / f"{rank}.pt")
    dist.destroy_process_group()
