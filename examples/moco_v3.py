"""MoCo v3 with AMCL in plain PyTorch: a vision transformer and its momentum copy.

Run it with `python examples/moco_v3.py`, and on a folder of images with its path behind that.
"""

import sys

import torch
from torch import nn

import amcl
from amcl.backbones import Backbone, BackboneSettings
from amcl.data import load_dataset
from amcl.modules import MomentumCopy
from amcl.views import Views


class MoCoV3(nn.Module):
    """A vision transformer with three heads and predictors, its momentum copy and the loss."""

    def __init__(self):
        super().__init__()
        self.backbone = Backbone(BackboneSettings(name="test_vit"), image_size=32)
        self.backbone.network.patch_embed.requires_grad_(False)  # for stable training
        options = {"num_heads": 3, "norm": True, "bias": False, "last_norm": "plain"}
        heads = amcl.ProjectionHeads(self.backbone.dim, 256, 64, **options)
        self.encoder = nn.Sequential(self.backbone, heads)
        self.momentum_encoder = MomentumCopy(self.encoder)
        self.predictors = amcl.ProjectionHeads(64, 256, 64, **options)
        self.criterion = amcl.AMCLLoss(3, 64, negatives="other_view", prior_tau=0.2)

    def forward(self, view0, view1):
        """Return the loss of two views of the same images."""
        q0, q1 = (self.predictors(self.encoder(view)) for view in (view0, view1))
        k0, k1 = self.momentum_encoder(view0), self.momentum_encoder(view1)
        return self.criterion(q0, k1) + self.criterion(q1, k0)

    def update(self):
        """Update the momentum encoder after a step of the optimizer."""
        self.momentum_encoder.update(self.encoder, momentum=0.9)


def train(images, mean, std, epochs=10, batch_size=128):
    """Train on images, and return the model."""
    views = Views(32, mean=mean, std=std)
    model = MoCoV3()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
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
    torch.save(model.backbone.state_dict(), "moco_v3.pt")
