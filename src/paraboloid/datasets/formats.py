"""Readers of the containers that data come in. Nothing is ever unpickled.

Every reader takes bytes or a file and gives numpy arrays, or raises ValueError at bytes that are not of its kind.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def idx(data: bytes) -> np.ndarray:
    """The array of an idx file of bytes, gzipped or not: two zeros, 8, the number of axes, their lengths, the bytes.

    >>> idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9])).tolist()
    [7, 8, 9]
    """
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"an idx file of bytes should begin with 0, 0, 8; found {list(data[:3])}.")
    shape = struct.unpack_from(f">{data[3]}I", data, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def labelled_pictures(data: bytes, labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures (N, 32, 32, 3) and labels (N, labels) of rows that hold the labels, then three planes of 32 × 32 bytes.

    >>> x, y = labelled_pictures(bytes(2 * 3074), labels=2)
    >>> x.shape, y.shape
    ((2, 32, 32, 3), (2, 2))
    """
    rows = np.frombuffer(data, np.uint8).reshape(-1, labels + 3072)
    x = rows[:, labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(x), np.ascontiguousarray(rows[:, :labels])


def matlab(path: Path) -> dict[str, Any]:
    """The arrays of a MATLAB file of version 5; needs scipy.

    For instance:

        matlab(Path("train_32x32.mat"))["X"].shape
    """
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise ImportError(
            f"{path.name} is a MATLAB file, and reading it needs scipy, which is not installed. "
            "Install it by `pip install scipy`."
        ) from error
    return loadmat(path)


def texts(data: bytes, separator: str | None = ",") -> np.ndarray:
    """The fields of a table as texts (rows, columns), without the blanks around them; empty lines are left out.

    >>> texts(b"a, 1\\nb, 2\\n").tolist()
    [['a', '1'], ['b', '2']]
    """
    rows = [[field.strip() for field in line.split(separator)] for line in data.decode().splitlines() if line.strip()]
    if len({len(row) for row in rows}) != 1:
        raise ValueError(f"a table should have rows of one length; found {sorted({len(row) for row in rows})}.")
    return np.array(rows)


def png_lines(data: bytes) -> np.ndarray:
    """The lines (H, 1 + W) of a grey PNG file of bytes as they are stored: the kind of a filter, then differences.

    For instance:

        pictures = unfiltered(np.stack([png_lines(path.read_bytes()) for path in paths]))
    """
    if data[:8] != PNG_SIGNATURE:
        raise ValueError("a PNG file should begin with its signature.")
    chunks, at = [], 8
    while at + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        chunks.append((kind, data[at + 8 : at + 8 + length]))
        at += 12 + length
    header = dict(chunks).get(b"IHDR", b"")
    if len(header) != 13:
        raise ValueError(f"a PNG file should have a header of 13 bytes, found {len(header)}.")
    width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", header)
    if (depth, colour, interlace) != (8, 0, 0):
        raise ValueError(f"a PNG file should be grey, of 8 bits, not interlaced; found {(depth, colour, interlace)}.")
    lines = zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"))
    return np.frombuffer(lines, np.uint8).reshape(height, 1 + width)


def unfiltered(lines: np.ndarray) -> np.ndarray:
    """Pictures (N, H, W) from the stored lines (N, H, 1 + W) of PNG files; the loops are over pixels, not pictures.

    A pixel is stored as its difference to what the line's filter predicts: nothing, left, above, their mean, or
    whichever of left, above and corner is nearest to left + above − corner (Paeth).

    >>> unfiltered(np.array([[[1, 5, 1, 1]]], np.uint8)).tolist()
    [[[5, 6, 7]]]
    """
    num, height, width = lines.shape[0], lines.shape[1], lines.shape[2] - 1
    if (lines[..., 0] > 4).any():
        raise ValueError(f"the filters of a PNG file should be 0 to 4, found {lines[..., 0].max()}.")
    pictures = np.zeros((num, height + 1, width + 1), np.int16)
    for i in range(1, height + 1):
        for j in range(1, width + 1):
            left, above, corner = pictures[:, i, j - 1], pictures[:, i - 1, j], pictures[:, i - 1, j - 1]
            distances = np.abs(np.stack([above - corner, left - corner, left + above - 2 * corner]))
            paeth = np.choose(distances.argmin(0), [left, above, corner])
            predicted = np.choose(lines[:, i - 1, 0], [np.zeros_like(left), left, above, (left + above) // 2, paeth])
            pictures[:, i, j] = (predicted + lines[:, i - 1, j]) & 255
    return pictures[:, 1:, 1:].astype(np.uint8)


def lzw(data: bytes) -> bytes:
    """What a .Z file (Unix compress) holds: codes of 9 to 16 bits, lowest bit first, that grow a table of texts.

    For instance:

        lzw(Path("shuttle.trn.Z").read_bytes())
    """
    if len(data) < 3 or data[:2] != b"\x1f\x9d" or not data[2] & 0x80:
        raise ValueError(f"a .Z file should begin with 1f 9d and use block mode; found {data[:3].hex(' ')}.")
    widest, at, end = data[2] & 31, 24, 8 * len(data)
    table = [bytes([byte]) for byte in range(256)] + [b""]
    width, start, previous, out = 9, at, b"", []
    while at + width <= end:
        code = int.from_bytes(data[at >> 3 : (at >> 3) + 4], "little") >> (at & 7) & ((1 << width) - 1)
        at += width
        if code == 256:
            del table[257:]
            previous = b""
        else:
            text = _named_text(table, code, previous)
            if previous and len(table) < 1 << widest:
                table.append(previous + text[:1])
            out.append(text)
            previous = text
        if code == 256 or (len(table) >= 1 << width and width < widest):
            # codes are written in groups of eight, and a group that is left early is padded
            start = at = start + -(-(at - start) // (8 * width)) * 8 * width
            width = 9 if code == 256 else width + 1
    return b"".join(out)


def _named_text(table: list[bytes], code: int, previous: bytes) -> bytes:
    """The text of a code; the one code that is not in the table yet is the previous text and its first byte."""
    if code > len(table) or (code == len(table) and not previous):
        raise ValueError(f"a .Z file should name texts that it has shown; found code {code} of {len(table)}.")
    return table[code] if code < len(table) else previous + previous[:1]
