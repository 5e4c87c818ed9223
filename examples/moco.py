"""MoCo with AMCL in plain PyTorch: negatives come from a queue for each head.

Run it with `python examples/moco.py`, and on a folder of images with its path behind that.
"""

import sys

import torch
from torch import nn

import amcl
from amcl.backbones import Backbone, BackboneSettings
from amcl.data import load_dataset
from amcl.modules import MomentumCopy, Queue
from amcl.views import Views


class MoCo(nn.Module):
    """A backbone with three heads, its momentum copy, a queue and the loss."""

    def __init__(self):
        super().__init__()
        self.backbone = Backbone(BackboneSettings(name="resnet10t", width=0.25), image_size=32)
        heads = amcl.ProjectionHeads(self.backbone.dim, 256, 64, num_heads=3, norm=True)
        self.encoder = nn.Sequential(self.backbone, heads)
        self.momentum_encoder = MomentumCopy(self.encoder)
        self.queue = Queue(num_heads=3, length=512, dim=64)
        self.criterion = amcl.AMCLLoss(num_heads=3, dim=64)

    def forward(self, view0, view1):
        """Return the loss of two views of the same images."""
        self.keys = self.momentum_encoder(view1)
        return self.criterion(self.encoder(view0), self.keys, self.queue.z)

    def update(self):
        """Update the momentum encoder and the queue after a step of the optimizer."""
        self.momentum_encoder.update(self.encoder, momentum=0.9)
        self.queue.push(self.keys)


def train(images, mean, std, epochs=10, batch_size=128):
    """Train on images, and return the model."""
    views = Views(32, mean=mean, std=std)
    model = MoCo()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for epoch in range(1, epochs + 1):
        losses = []
        for indices in torch.randperm(len(images)).split(batch_size)[:-1]:
            loss = model(*views(images[indices]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.update()
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}")
    return model


if __name__ == "__main__":
    source = sys.argv[1] if len(sys.argv) > 1 else "builtin"
    data = load_dataset(source, image_size=32)
    model = train(data.train, data.mean, data.std)
    torch.save(model.backbone.state_dict(), "moco.pt")
