"""DINO with AMCL in plain PyTorch: the student's temperature depends on the pair of views.

Run it with `python examples/dino.py`, and on a folder of images with its path behind that.
"""

import sys

import torch
from torch import nn

import amcl
from amcl.backbones import Backbone, BackboneSettings
from amcl.data import load_dataset
from amcl.modules import MomentumCopy, Prototypes
from amcl.temperature import AdaptiveTemperature
from amcl.views import Views


class DINO(nn.Module):
    """A student (backbone, heads, prototypes), its teacher and the loss."""

    def __init__(self):
        super().__init__()
        self.backbone = Backbone(BackboneSettings(name="resnet10t", width=0.25), image_size=32)
        heads = amcl.ProjectionHeads(self.backbone.dim, 256, 64, num_heads=3, norm=True)
        self.student = nn.Sequential(self.backbone, heads)
        self.prototypes = Prototypes(dim=64, count=256, num_heads=3)
        self.teacher = MomentumCopy(self.student)
        self.teacher_prototypes = MomentumCopy(self.prototypes)
        temperature = AdaptiveTemperature(64, lower=0.075, upper=0.125, phi_gradient=False)
        self.criterion = amcl.DINOLoss(
            3, temperature, num_prototypes=256, teacher_tau=0.04, teacher_tau_warmup=0, beta=1.0
        )

    def forward(self, *views):
        """Return the loss of two views of the same images."""
        return self.criterion(
            [self.student(view) for view in views],
            [self.teacher(view) for view in views],
            self.prototypes(),
            self.teacher_prototypes(),
        )

    def update(self):
        """Update the teacher after a step of the optimizer."""
        self.teacher.update(self.student, momentum=0.98)
        self.teacher_prototypes.update(self.prototypes, momentum=0.98)
        self.criterion.update_center()


def train(images, mean, std, epochs=10, batch_size=128):
    """Train on images, and return the model."""
    views = Views(32, mean=mean, std=std)
    model = DINO()
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
    torch.save(model.backbone.state_dict(), "dino.pt")
