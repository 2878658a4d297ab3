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
    total = _all_windows(data, kernel)
    for rows in _outside(data, kernel, padding):
        total -= rows.T @ rows
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
    return wanted > 0 and every - wanted < 0.7 * wanted


def _all_windows(data: Tensor, kernel: tuple[int, int]) -> Tensor:
    """Σ u uᵀ over every window that meets the image, pixels beyond the edge being 0."""
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
    return total.view(a * b * C, a * b * C)


def _outside(data: Tensor, kernel: tuple[int, int], padding: tuple[int, int]):
    """Rows of patches of the windows that meet the image but are no output positions, in strips."""
    (a, b), (p, q) = kernel, padding
    wide = F.pad(data, (b - 1, b - 1, a - 1, a - 1)).movedim(1, -1).contiguous()
    H, W = data.shape[2] + a - 1, data.shape[3] + b - 1  # windows in all
    top, left = a - 1 - p, b - 1 - q  # windows before the first output position
    for rows, columns in (
        (range(top), range(W)),
        (range(H - top, H), range(W)),
        (range(top, H - top), range(left)),
        (range(top, H - top), range(W - left, W)),
    ):
        if len(rows) and len(columns):
            yield _patches(wide, rows, columns, kernel)


def _patches(wide: Tensor, rows: range, columns: range, kernel: tuple[int, int]) -> Tensor:
    s, (a, b) = wide.stride(), kernel
    sizes = (len(wide), len(rows), len(columns), a, b, wide.shape[-1])
    offset = wide.storage_offset() + rows.start * s[1] + columns.start * s[2]
    view = wide.as_strided(sizes, (s[0], s[1], s[2], s[1], s[2], s[3]), offset)
    return view.reshape(-1, a * b * wide.shape[-1])
