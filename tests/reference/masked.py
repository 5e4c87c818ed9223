"""MAE and CAN: patches, their losses and fixed embeddings. An image is image[channel][row][col]."""

import math


def patches(image, patch):
    """Row by row; in a patch over rows, columns, channels."""
    size = len(image[0])
    cut = []
    for top in range(0, size, patch):
        for left in range(0, size, patch):
            values = []
            for row in range(top, top + patch):
                for col in range(left, left + patch):
                    for channel in image:
                        values.append(channel[row][col])
            cut.append(values)
    return cut


def normalized(values, eps=1e-6):
    mean = sum(values) / len(values)
    variance = sum((x - mean) ** 2 for x in values) / (len(values) - 1)
    return [(x - mean) / math.sqrt(variance + eps) for x in values]


def patch_error(prediction, target):
    total = 0.0
    for p, t in zip(prediction, target, strict=True):
        total += (p - t) ** 2
    return total / len(target)


def mean_error(predictions, targets, masked, on_masked):
    """Over the patches of all images that are masked (MAE), or that are not (CAN's noise)."""
    total, count = 0.0, 0
    for n in range(len(masked)):
        for l in range(len(masked[n])):
            if masked[n][l] == on_masked:
                total += patch_error(predictions[n][l], targets[n][l])
                count += 1
    return total / count


def place(position, width):
    """One coordinate: width/2 sines, then width/2 cosines."""
    angles = [position / 10000 ** (i / (width / 2)) for i in range(width // 2)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]


def positions(dim, rows, cols, cls_token):
    out = [[0.0] * dim] if cls_token else []
    for row in range(rows):
        for col in range(cols):
            out.append(place(col, dim // 2) + place(row, dim // 2))
    return out


def noise_level(sigma, dim):
    half = dim // 2
    angles = [sigma * math.exp(-math.log(10000) * i / (half - 1)) for i in range(half)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
