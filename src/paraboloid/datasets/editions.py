"""Whether arrays are the ones that were meant: every array of a file is known by its shape, dtype and sha256.

One data set may be around in several *editions*: the whole and a subset, or the same images in another order.
Three things vouch for an array, and an array for which none of them speaks is refused:

- the sha256 of its bytes in row-major order;
- the *set digest* of images and labels, which does not depend on their order: sha256 over the sorted sha256 of
  each (label byte, image bytes);
- a receipt, for pixels that nobody could list beforehand: it is written when they are downloaded in a container
  whose own digest is known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Array:
    """What an array has to be. Without a sha256, a set digest or a receipt has to vouch for it.

    >>> Array((3,), "|u1", None).shape
    (3,)
    """

    shape: tuple[int, ...]
    dtype: str
    sha256: str | None = None


@dataclass(frozen=True)
class Edition:
    """One form in which a data set is around; `sets` maps "train" to the set digest of x_train and y_train.

    >>> Edition("the whole", {"x": Array((3,), "|u1")}).name
    'the whole'
    """

    name: str
    arrays: Mapping[str, Array]
    sets: Mapping[str, str] = field(default_factory=dict)


def sha256(array: np.ndarray) -> str:
    """The sha256 of an array's bytes in row-major order.

    >>> sha256(np.zeros((2, 2), np.uint8))[:12]
    'df3f619804a9'
    """
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def set_digest(x: np.ndarray, y: np.ndarray) -> str:
    """A digest of labelled images that does not depend on their order; labels are bytes.

    >>> x, y = np.arange(6, dtype=np.uint8).reshape(3, 2), np.array([0, 1, 1], np.uint8)
    >>> set_digest(x, y) == set_digest(x[::-1], y[::-1])
    True
    >>> set_digest(x, y) == set_digest(x, y[::-1])
    False
    """
    pairs = zip(y.astype(np.uint8).tolist(), x, strict=True)
    each = sorted(hashlib.sha256(bytes([label]) + image.tobytes()).digest() for label, image in pairs)
    return hashlib.sha256(b"".join(each)).hexdigest()


def recognise(arrays: Arrays, editions: Sequence[Edition], receipt: Mapping[str, str] | None = None) -> Edition | str:
    """The edition that `arrays` are, or a sentence that says what is wrong with them.

    >>> whole = Edition("the whole", {"x": Array((2,), "|u1", sha256(np.zeros(2, np.uint8)))})
    >>> recognise({"x": np.zeros(2, np.uint8)}, [whole]).name
    'the whole'
    >>> recognise({"x": np.zeros(3, np.uint8)}, [whole])
    'array x should be (2,) |u1, found (3,) |u1'
    """
    fitting = [edition for edition in editions if _misshapen(arrays, edition) is None]
    if not fitting:
        return _nearest_misshapen(arrays, editions)
    found: dict[str, str] = {}
    wrong = [_doubtful(arrays, edition, receipt or {}, found) for edition in fitting]
    for edition, reason in zip(fitting, wrong, strict=True):
        if reason is None:
            return edition
    return str(wrong[0])


def _misshapen(arrays: Arrays, edition: Edition) -> str | None:
    if set(arrays) != set(edition.arrays):
        return f"it should hold the arrays {sorted(edition.arrays)}, found {sorted(arrays)}"
    for name, expected in edition.arrays.items():
        array = arrays[name]
        if (array.shape, array.dtype.str) != (expected.shape, expected.dtype):
            return f"array {name} should be {expected.shape} {expected.dtype}, found {array.shape} {array.dtype.str}"
    return None


def _nearest_misshapen(arrays: Arrays, editions: Sequence[Edition]) -> str:
    """What is wrong with respect to the edition that has most of the arrays."""
    nearest = min(editions, key=lambda edition: len(set(edition.arrays) ^ set(arrays)))
    return str(_misshapen(arrays, nearest))


def _doubtful(arrays: Arrays, edition: Edition, receipt: Mapping[str, str], found: dict[str, str]) -> str | None:
    """The first array that nothing vouches for. `found` keeps digests, so that editions share the work."""
    vouched = {f"{letter}_{part}" for part in edition.sets for letter in "xy"}
    for name, array in arrays.items():
        if name in vouched:
            continue
        expected = edition.arrays[name].sha256 or receipt.get(name)
        if expected is None:
            return f"array {name} cannot be checked: no digest is known for {edition.name}"
        found.setdefault(name, sha256(array))
        if found[name] != expected:
            return f"array {name} should have sha256 {expected}, found {found[name]}"
    for part, expected in edition.sets.items():
        digest = set_digest(arrays[f"x_{part}"], arrays[f"y_{part}"])
        if digest != expected:
            return f"x_{part} and y_{part} should have set digest {expected}, found {digest}"
    return None
