"""Weighted k-nearest-neighbour classification of features."""

import torch
import torch.nn.functional as F

from amcl.settings import positive_number, whole_number


def knn_predict(
    bank: torch.Tensor,
    labels: torch.Tensor,
    queries: torch.Tensor,
    *,
    k: int = 200,
    tau: float = 0.1,
    block: int = 1024,
) -> torch.Tensor:
    """Classes of queries (M, D) by a vote of the k nearest of bank (N, D), labels (N,).

    Neighbours vote with weight exp(cos/τ). k is at most N.

    >>> bank = torch.eye(3)
    >>> knn_predict(bank, torch.tensor([5, 6, 7]), bank.flip(0), k=1).tolist()
    [7, 6, 5]
    """
    whole_number("k", k)
    positive_number("tau", tau)
    if len(bank) != len(labels) or not len(bank):
        raise ValueError(
            f"{len(bank)} features and {len(labels)} labels: give as many, at least 1."
        )
    k = min(k, len(bank))
    classes, index = labels.unique(return_inverse=True)
    unit_bank = F.normalize(bank, dim=1)
    found = []
    for rows in F.normalize(queries, dim=1).split(block):
        cosine, nearest = (rows @ unit_bank.T).topk(k, dim=1)
        votes = rows.new_zeros(len(rows), len(classes))
        votes.scatter_add_(1, index[nearest], ((cosine - cosine[:, :1]) / tau).exp())
        found.append(classes[votes.argmax(1)])
    return torch.cat(found)


def knn_accuracy(
    bank: torch.Tensor,
    labels: torch.Tensor,
    queries: torch.Tensor,
    truth: torch.Tensor,
    *,
    k: int = 200,
    tau: float = 0.1,
) -> float:
    """Share of queries whose predicted class is the true one."""
    predicted = knn_predict(bank, labels, queries, k=k, tau=tau)
    return (predicted == truth).double().mean().item()
