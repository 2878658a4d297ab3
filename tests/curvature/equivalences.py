"""Pairs of networks that must have the same Kronecker factors, and settings where the factors are exact.

`EQUIVALENCES` and `exactness()` hold them all.

>>> left, right = by_name("reused_linear").build()
>>> [name for name, _ in right.named_parameters()][:2]
['steps.0.weight', 'steps.0.bias']
>>> exactness()[0].name
'one_example_softmax'
"""

from __future__ import annotations

from curvature import convolution_pairs, function_pairs, sequence_pairs
from curvature.exact_settings import SETTINGS, Exact
from curvature.pairs import Equivalence

EQUIVALENCES: list[Equivalence] = [
    *function_pairs.PAIRS,
    *convolution_pairs.PAIRS,
    *sequence_pairs.PAIRS,
]


def by_name(name: str) -> Equivalence:
    """The equivalence of that name."""
    return {each.name: each for each in EQUIVALENCES}[name]


def exactness() -> list[Exact]:
    """Networks, data and blocks for which a Kronecker block is the exact Gauss-Newton block."""
    return list(SETTINGS)
