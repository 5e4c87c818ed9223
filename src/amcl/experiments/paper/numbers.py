"""The paper's own numbers, in per cent, by the labels of its tables."""

from itertools import product

from amcl.experiments.specs import AMCL, BASELINE

Numbers = dict[tuple[str, ...], float]

_METHODS = ("SimCLR", "MoCo", "SimSiam", "Barlow Twins", "CAN", "LGP")


def _rows(rows: dict[tuple[str, str], tuple[float, ...]]) -> Numbers:
    return {
        (*row, method): value
        for row, values in rows.items()
        for method, value in zip(_METHODS, values, strict=False)
    }


# By set, side and method.
TABLE_3 = _rows(
    {
        ("cifar10", BASELINE): (89.9, 90.4, 90.7, 87.4),
        ("cifar10", AMCL): (92.2, 92.9, 93.0, 90.0),
        ("cifar100", BASELINE): (57.6, 64.4, 63.6, 58.2),
        ("cifar100", AMCL): (61.8, 69.3, 68.9, 62.1),
        ("tinyimagenet", BASELINE): (48.1, 46.4, 46.7, 46.8, 53.2, 56.7),
        ("tinyimagenet", AMCL): (50.0, 47.8, 49.0, 48.3, 54.9, 57.8),
        ("imagenet", BASELINE): (66.5, 67.4, 68.1, 70.0, 70.5, 73.8),
        ("imagenet", AMCL): (68.1, 69.3, 69.6, 72.7, 71.6, 75.0),
    }
)

# By backbone, method and side.
TABLE_4: Numbers = {
    ("ViT-B", "MAE", BASELINE): 83.6,
    ("ViT-B", "MoCo v3", BASELINE): 83.2,
    ("ViT-B", "MoCo v3", AMCL): 84.1,
    ("ViT-B", "LGP", BASELINE): 83.9,
    ("ViT-B", "LGP", AMCL): 84.7,
    ("ViT-L", "MAE", BASELINE): 85.9,
    ("ViT-L", "MoCo v3", BASELINE): 84.1,
    ("ViT-L", "MoCo v3", AMCL): 85.3,
    ("ViT-L", "LGP", BASELINE): 85.9,
    ("ViT-L", "LGP", AMCL): 87.4,
}

# By labels a class and side.
TABLE_5: Numbers = {
    (labels, side): value
    for labels, values in {
        "10": (61.0, 71.1, 64.3, 64.3),
        "20": (68.5, 76.4, 70.4, 71.3),
        "50": (73.5, 79.4, 74.6, 76.4),
        "100": (76.5, 81.4, 77.7, 78.4),
        "200": (78.6, 81.9, 79.4, 80.0),
        "500": (80.6, 83.7, 80.0, 81.7),
    }.items()
    for side, value in zip((BASELINE, AMCL, "TaU", "TS"), values, strict=True)
}

# By augmentations, side and method.
TABLE_6 = _rows(
    {
        ("a", BASELINE): (26.3, 39.9, 26.4, 33.7),
        ("a", AMCL): (27.0, 40.3, 27.0, 34.7),
        ("ab", BASELINE): (28.0, 40.2, 26.6, 34.2),
        ("ab", AMCL): (29.0, 40.9, 27.3, 35.1),
        ("abc", BASELINE): (44.4, 57.3, 51.5, 49.8),
        ("abc", AMCL): (46.2, 61.0, 55.4, 51.3),
        ("abcd", BASELINE): (55.4, 62.7, 60.7, 55.0),
        ("abcd", AMCL): (58.5, 66.3, 67.0, 58.4),
        ("abcde", BASELINE): (57.6, 64.4, 63.6, 58.2),
        ("abcde", AMCL): (61.8, 69.3, 68.9, 62.1),
    }
)

# By method, on ImageNet: millions of parameters and GFLOPs in the paper, and what AMCL adds.
TABLE_8: dict[str, tuple[float, float, float, float]] = {
    "simclr": (25.6, 1.1, 3.5, 0.3),
    "moco": (25.6, 1.1, 4.1, 0.4),
    "can": (87.0, 2.1, 68.5, 4.1),
    "lgp": (194.3, 2.1, 76.1, 4.4),
}

# By measure, backbone, method and side.
TABLE_7: Numbers = {
    (measure, backbone, method, side): value
    for (measure, method), row in {
        ("box AP", "MoCo v3"): (48.1, 50.3, 49.2, 53.3),
        ("box AP", "LGP"): (52.5, 54.1, 54.9, 57.0),
        ("mask AP", "MoCo v3"): (43.0, 45.1, 43.8, 47.0),
        ("mask AP", "LGP"): (46.1, 48.3, 48.1, 51.1),
    }.items()
    for (backbone, side), value in zip(
        product(("ViT-B", "ViT-L"), (BASELINE, AMCL)), row, strict=True
    )
}
