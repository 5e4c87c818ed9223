"""The κ hardest negatives against all of them."""

from collections.abc import Sequence

from amcl.config import Config
from amcl.config.fields import with_values
from amcl.experiments.analyses.registry import analysis
from amcl.experiments.specs import BASELINE, Metric, TableSpec, along, dashed, positive
from amcl.methods.contrastive import ContrastiveSettings
from amcl.recipes import as_published, with_amcl


@analysis(
    "negatives",
    "all negatives, or the κ hardest?",
    values=("5%", "10%", "15%", "25%", "50%"),
    few=("10%",),
)
def negatives(base: Config, values: Sequence[str], metric: Metric) -> list[TableSpec]:
    """Return both forms of the loss over the top κ, beside all negatives."""
    if not isinstance(base.method, ContrastiveSettings):
        raise ValueError(
            f"{base.method.name} chooses no negatives: choose simclr, moco, mocov3, nnclr, can "
            "or lgp."
        )
    amcl = with_amcl(base)
    kappas = dict.fromkeys(str(_kappa(value, base.negatives)) for value in values)
    every = {BASELINE: as_published(base), "softmax of all": with_values(amcl, {"form": "softmax"})}
    hardest = {
        "mean of the top κ": with_values(amcl, {"form": "top_k", "top_k": 1}),
        "softmax of the top κ": with_values(amcl, {"form": "top_k_softmax", "top_k": 1}),
    }
    return [
        TableSpec(
            name="negatives",
            title=f"The κ most similar of {base.negatives} negatives",
            how_to_read="The paper averages over the top κ of each head, with nothing to weigh "
            "them; a softmax over the same κ does. Dashed: all negatives, and the method as "
            "published.",
            cells=dashed("κ", every, metric) + along("κ", kappas, hardest, metric, "top_k"),
            x="κ",
        )
    ]


def _kappa(text: str, count: int) -> int:
    """Return κ as a number, or as a share of the negatives."""
    if text.endswith("%"):
        return max(1, round(positive("κ", text[:-1]) / 100 * count))
    if not text.isdecimal():
        raise ValueError(f"κ is a whole number, or a share such as 10%; got {text!r}.")
    return int(text)
