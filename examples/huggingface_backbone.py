"""AMCL with a backbone of Hugging Face's transformers.

Run it with `python examples/huggingface_backbone.py` (`pip install transformers`). Replace
`AutoModel.from_config` by `AutoModel.from_pretrained("facebook/dinov2-small")` to continue from
published weights.
"""

import torch
from transformers import AutoModel, ViTConfig

import amcl
from amcl.data import load_dataset
from amcl.views import Views


class Features(torch.nn.Module):
    """The class token of a vision transformer of transformers."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        """Return features (N, D)."""
        return self.model(pixel_values=images).last_hidden_state[:, 0]


def train(images, mean, std, epochs=10, batch_size=128):
    """Train a small vision transformer on images, and return it."""
    views = Views(32, mean=mean, std=std)
    config = ViTConfig(
        image_size=32,
        patch_size=4,
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=256,
    )
    backbone = Features(AutoModel.from_config(config, add_pooling_layer=False))
    heads = amcl.ProjectionHeads(config.hidden_size, 256, 64, num_heads=3, norm=True)
    criterion = amcl.AMCLLoss(num_heads=3, dim=64)
    modules = torch.nn.ModuleList([backbone, heads, criterion])  # the loss has parameters too
    optimizer = torch.optim.AdamW(modules.parameters(), lr=1e-3)
    for epoch in range(1, epochs + 1):
        for indices in torch.randperm(len(images)).split(batch_size)[:-1]:
            view0, view1 = views(images[indices])
            loss = criterion(heads(backbone(view0)), heads(backbone(view1)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    return backbone.model


if __name__ == "__main__":
    data = load_dataset("builtin", image_size=32)
    model = train(data.train, data.mean, data.std)
    model.save_pretrained("model")
