"""Network parts that methods are composed of."""

from amcl.modules.anchor import Anchor
from amcl.modules.heads import Activation, LastNorm, ProjectionHeads
from amcl.modules.masked_decoder import MaskedDecoder, NoiseEmbedding
from amcl.modules.masked_vit import (
    encode_visible,
    fix_positions,
    init_xavier,
    is_vit,
    plain_vit,
    random_mask,
    visible_indices,
)
from amcl.modules.momentum import MomentumCopy, Queue, cosine_momentum
from amcl.modules.prototypes import Prototypes

__all__ = [
    "Activation",
    "Anchor",
    "LastNorm",
    "MaskedDecoder",
    "MomentumCopy",
    "NoiseEmbedding",
    "ProjectionHeads",
    "Prototypes",
    "Queue",
    "cosine_momentum",
    "encode_visible",
    "fix_positions",
    "init_xavier",
    "is_vit",
    "plain_vit",
    "random_mask",
    "visible_indices",
]
