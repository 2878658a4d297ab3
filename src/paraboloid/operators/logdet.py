"""Rules: log-determinants, exact or refused."""

from __future__ import annotations

from torch import Tensor

from paraboloid.operators import verbs
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.factorise import require_factorised
from paraboloid.operators.inverse import Inverse


@verbs.logdet.register
def logdet_any(A: LinearOperator) -> Tensor:
    return require_factorised(A, "logdet", "`estimate_logdet`").logdet()


@verbs.logdet.register
def logdet_inverse(A: Inverse) -> Tensor:
    return -A.operator.logdet()
