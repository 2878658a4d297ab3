"""Writers of the containers that the readers are tested on, from their descriptions."""

import struct
import zlib

import numpy as np


def idx(array: np.ndarray) -> bytes:
    """A bytes-only idx file."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def compressed(text: bytes, widest: int = 12) -> bytes:
    """A .Z file of Unix compress, with a clear code when the table is full."""
    table = {bytes([byte]): byte for byte in range(256)}
    width, used, out, group = 9, 257, bytearray(b"\x1f\x9d" + bytes([widest | 0x80])), []

    def close() -> None:
        bits = sum(code << (width * place) for place, code in enumerate(group))
        out.extend(bits.to_bytes(width, "little"))
        group.clear()

    def put(code: int) -> None:
        group.append(code)
        if len(group) == 8:
            close()

    at = 0
    while at < len(text):
        if used == 1 << widest:
            put(256)
            if group:
                close()
            table = {bytes([byte]): byte for byte in range(256)}
            width, used = 9, 257
        end = at + 1
        while end < len(text) and text[at : end + 1] in table:
            end += 1
        put(table[text[at:end]])
        if used >= 1 << width and width < widest:
            if group:
                close()
            width += 1
        if end < len(text):
            table[text[at : end + 1]] = used
            used += 1
        at = end
    bits = sum(code << (width * place) for place, code in enumerate(group))
    return bytes(out) + bits.to_bytes(-(-len(group) * width // 8), "little")


def png(picture: np.ndarray, filters: list[int]) -> bytes:
    """A grey PNG file whose row r is stored by filter filters[r]."""
    height, width = picture.shape
    padded = np.zeros((height + 1, width + 1), int)
    padded[1:, 1:] = picture
    lines = bytearray()
    for row, kind in enumerate(filters, 1):
        left, above, corner = padded[row, :-1], padded[row - 1, 1:], padded[row - 1, :-1]
        distances = [abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)]
        paeth = np.choose(np.argmin(distances, axis=0), [left, above, corner])
        predicted = [0 * left, left, above, (left + above) // 2, paeth][kind]
        lines += bytes([kind]) + ((padded[row, 1:] - predicted) % 256).astype(np.uint8).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(lines))), (b"IEND", b"")]
    body = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + body
