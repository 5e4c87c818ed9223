"""DINO (arXiv 2104.14294), Algorithm 1 with C heads, a τ for each pair, and Ω beside it."""

import math

from reference.temperature import dot, omega, unit


def softmax(values):
    largest = max(values)
    powers = [math.exp(value - largest) for value in values]
    return [power / sum(powers) for power in powers]


def similarities(z, prototypes):
    return [dot(unit(z), prototype) for prototype in prototypes]


def centered(rows, center, tau):
    """softmax((s − c)/τ) of each image."""
    return [softmax([(s - c) / tau for s, c in zip(row, center, strict=True)]) for row in rows]


def sinkhorn(rows, tau, iterations):
    """As SwAV prints it: Q = exp(s/τ), then rows and columns are scaled in turns."""
    q = [[math.exp(s / tau) for s in row] for row in rows]
    images, prototypes = len(q), len(q[0])
    total = sum(sum(row) for row in q)
    q = [[value / total for value in row] for row in q]
    for _ in range(iterations):
        for k in range(prototypes):
            of_prototype = sum(row[k] for row in q)
            for row in q:
                row[k] = row[k] / of_prototype / prototypes
        for row in q:
            of_image = sum(row)
            for k in range(prototypes):
                row[k] = row[k] / of_image / images
    return [[value * images for value in row] for row in q]


def dino(
    num_heads,
    student,
    teacher,
    relative_student,
    relative_teacher,
    prototypes,
    teacher_prototypes,
    targets,
    tau,
    head_reduction,
    *,
    beta=0.0,
    prior_tau=1.0,
):
    """Views are lists of items; relative ones, less their mean, are what τ depends on.

    `targets(c, rows)` gives the distributions of all that the teacher sees.
    """
    total, images = 0.0, len(student[0])
    for c in range(num_heads):
        rows = [similarities(item.z[c], teacher_prototypes[c]) for view in teacher for item in view]
        q = targets(c, rows)
        of_head, pairs = 0.0, 0
        for t in range(len(teacher)):
            for v in range(len(student)):
                if v == t:
                    continue
                pairs += 1
                for i in range(images):
                    tau_i = tau("positive", c, relative_student[v][i], relative_teacher[t][i])
                    s = similarities(student[v][i].z[c], prototypes[c])
                    p = softmax([value / tau_i for value in s])
                    for q_k, p_k in zip(q[t * images + i], p, strict=True):
                        of_head -= q_k * math.log(p_k)
                    of_head += beta * omega(tau_i, prior_tau)
        total += of_head / pairs / images
    return total / (num_heads if head_reduction == "mean" else 1)
