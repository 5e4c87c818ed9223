"""SimCLR with AMCL over several processes.

Run it with `torchrun --nproc-per-node 2 examples/several_processes.py`, on CPUs or GPUs. Each
process makes views of its part of the batch; the loss gathers candidates from all of them, so that
the result is that of one process on the whole batch.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import amcl
from amcl.backbones import Backbone, BackboneSettings
from amcl.data import load_dataset
from amcl.views import Views


class SimCLR(nn.Module):
    """A backbone, three heads and the loss: DDP averages the gradients of φ too."""

    def __init__(self):
        super().__init__()
        self.backbone = Backbone(BackboneSettings(name="resnet10t", width=0.25), image_size=32)
        self.heads = amcl.ProjectionHeads(self.backbone.dim, 256, 64, num_heads=3)
        self.criterion = amcl.AMCLLoss(num_heads=3, dim=64)

    def forward(self, view0, view1):
        """Return the loss of two views of this process's images."""
        return self.criterion(self.heads(self.backbone(view0)), self.heads(self.backbone(view1)))


def train(images, mean, std, epochs=10, batch_size=128):
    """Train on this process's share of each batch, and return the model."""
    rank, processes = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    views = Views(32, mean=mean, std=std)
    torch.manual_seed(0)  # the same weights everywhere
    model = DistributedDataParallel(SimCLR().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    order = torch.Generator().manual_seed(0)  # the same order everywhere
    torch.manual_seed(rank)  # other views on each process
    for epoch in range(1, epochs + 1):
        for indices in torch.randperm(len(images), generator=order).split(batch_size)[:-1]:
            loss = model(*views(images[indices.chunk(processes)[rank]].to(device)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}")
    return model.module


if __name__ == "__main__":
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    data = load_dataset("builtin", image_size=32)
    train(data.train, data.mean, data.std)
    dist.destroy_process_group()
