"""Second moments of all patches of images without making the patches, for stride 1 and dilation 1.

A product of two entries of a patch depends on where the two pixels are only through their distance, so the sum
over all windows that meet the image, also those that reach over its edge, is an autocorrelation (C.9): one
convolution instead of k⁴ products. Windows over the edge that are no output positions are subtracted.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_weight


def patch_moment(data: Tensor, kernel: tuple[int, int], padding: tuple[int, int]) -> Tensor:
    """Σ u uᵀ over all patches u of data (n, C, H, W), in the order (kernel, channels); stride and dilation are 1.

    >>> x = torch.randn(2, 3, 6, 5, dtype=torch.float64)
    >>> u = F.unfold(x, 3, padding=1).unflatten(1, (3, 9)).transpose(1, 2).flatten(1, 2).movedim(1, -1).reshape(-1, 27)
    >>> bool(torch.allclose(patch_moment(x, (3, 3), (1, 1)), u.T @ u))
    True
    """
    (a, b), (p, q), (C, H, W) = kernel, padding, data.shape[1:]
    total = _all_windows(data, kernel)
    wide = F.pad(data, (b - 1, b - 1, a - 1, a - 1)).movedim(1, -1).contiguous()
    down, right = H + a - 1, W + b - 1  # windows that meet the image
    rows, columns = range(a - 1 - p, H + p), range(b - 1 - q, W + q)  # those at output positions
    for i in range(down):
        if i not in rows:
            inside = range(max(0, a - 1 - i), min(a, down - i))  # only these rows of the kernel lie on the image
            _subtract(total, wide, range(i, i + 1), range(right), inside, range(b))
    for j in range(right):
        if j not in columns:
            inside = range(max(0, b - 1 - j), min(b, right - j))
            _subtract(total, wide, rows, range(j, j + 1), range(a), inside)
    total = total.view(a * b * C, a * b * C)
    return (total + total.T) / 2


def worthwhile(shape: torch.Size, kernel: tuple[int, ...], padding: tuple[int, ...]) -> bool:
    """Whether the correlation and the windows to subtract are clearly fewer than the windows."""
    if (
        len(kernel) != 2
        or max(kernel) > 5
        or min(kernel) < 2
        or any(p >= k for p, k in zip(padding, kernel, strict=True))
    ):
        return False
    if shape[1] < 8:
        return False
    every = (shape[2] + kernel[0] - 1) * (shape[3] + kernel[1] - 1)
    wanted = (shape[2] + 2 * padding[0] - kernel[0] + 1) * (shape[3] + 2 * padding[1] - kernel[1] + 1)
    return wanted > 0 and every - wanted < 2 * wanted


def _all_windows(data: Tensor, kernel: tuple[int, int]) -> Tensor:
    """Σ u uᵀ (a, b, C, a, b, C) over every window that meets the image, pixels beyond the edge being 0."""
    C, (a, b) = data.shape[1], kernel
    # c, c', distance down 0 … a-1, distance right -(b-1) … b-1
    half = conv2d_weight(F.pad(data, (b - 1, b - 1, 0, a - 1)), [C, C, a, 2 * b - 1], data)
    total = data.new_empty(a, b, C, a, b, C)
    for i in range(a):
        for j in range(b):
            for k in range(i, a):
                for m in range(b):
                    block = half[:, :, k - i, m - j + b - 1]
                    total[i, j, :, k, m] = block
                    total[k, m, :, i, j] = block.T
    return total


def _subtract(total: Tensor, wide: Tensor, rows: range, columns: range, down: range, right: range) -> None:
    """Take away the windows at these rows and columns, of whose kernels only the part down × right is not zero."""
    s, C = wide.stride(), wide.shape[-1]
    sizes = (len(wide), len(rows), len(columns), len(down), len(right), C)
    offset = wide.storage_offset() + (rows.start + down.start) * s[1] + (columns.start + right.start) * s[2]
    patches = wide.as_strided(sizes, (s[0], s[1], s[2], s[1], s[2], s[3]), offset)
    patches = patches.reshape(-1, len(down) * len(right) * C)
    part = slice(down.start, down.stop), slice(right.start, right.stop)
    place = total[part[0], part[1], :, part[0], part[1]]
    place -= (patches.T @ patches).view(place.shape)
