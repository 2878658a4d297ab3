"""What may be asked of `curvature`: names, combinations, and the message for every one that does not exist."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from paraboloid.curvature.columns import ESTIMATES

STRUCTURES = ("dense", "block", "kronecker", "eigenkronecker", "diagonal", "lowrank", "products")
KINDS = ("ggn", "hessian")
SHARINGS = ("expand", "reduce")
BIASES = ("joint", "separate")
# what papers and other libraries call them; said in the error, not accepted
ALSO_CALLED = {
    "full": "dense",
    "kfac": "kronecker",
    "kron": "kronecker",
    "ekfac": "eigenkronecker",
    "diag": "diagonal",
    "matrix-free": "products",
    "mc": "sampled",
    "montecarlo": "sampled",
    "type-2": "exact",
    "fisher": "ggn",
    "gauss-newton": "ggn",
}
HESSIAN_STRUCTURES = ("products", "dense", "block", "diagonal")


@dataclass(frozen=True)
class Options:
    """A checked combination; ``estimate`` None means exact, with random signs where a term is one of many."""

    structure: str = "kronecker"
    estimate: str | None = None
    kind: str = "ggn"
    sharing: str = "expand"
    bias: str = "joint"
    samples: int = 1
    rank: int | None = None
    max_block: int = 1024
    memory: int | None = None

    def __post_init__(self) -> None:
        _known("structure", self.structure, STRUCTURES)
        if self.estimate is not None:
            _known("estimate", self.estimate, ESTIMATES)
        _known("kind", self.kind, KINDS)
        _known("sharing", self.sharing, SHARINGS)
        _known("bias", self.bias, BIASES)
        for name in ("samples", "rank", "memory"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ValueError(f"{name}= should be a whole number of at least 1, found {value!r}.")
        if not isinstance(self.max_block, int) or self.max_block < 0:
            raise ValueError(f"max_block= should be a whole number of at least 0, found {self.max_block!r}.")
        self._combine()

    def _combine(self) -> None:
        if self.kind == "hessian" and self.structure not in HESSIAN_STRUCTURES:
            raise ValueError(
                f"kind='hessian' has no {self.structure!r} structure: the Hessian is not a sum of squares. Use one of "
                f"{', '.join(HESSIAN_STRUCTURES)}, or kind='ggn'."
            )
        if self.kind == "hessian" and self.estimate not in (None, "exact"):
            raise ValueError(
                f"kind='hessian' is exact; estimate={self.estimate!r} belongs to kind='ggn'. Leave estimate out, or "
                "use kind='ggn'."
            )
        if self.sharing == "reduce" and self.structure not in ("kronecker", "eigenkronecker"):
            raise ValueError(
                f"sharing='reduce' is a choice of Kronecker factors; structure={self.structure!r} is exact without it. "
                "Leave sharing out, or use structure='kronecker' or 'eigenkronecker'."
            )
        if self.rank is not None and self.structure != "lowrank":
            raise ValueError(
                f"rank= belongs to structure='lowrank', found structure={self.structure!r}. Leave rank out, or use "
                "structure='lowrank'."
            )
        if self.samples != 1 and self.estimate not in ("sampled", "projected", "projected_gaussian"):
            raise ValueError(
                f"samples={self.samples} needs a random estimate ('sampled', 'projected', 'projected_gaussian'), found "
                f"estimate={self.estimate!r}. Leave samples out, or use one of these."
            )

    def columns(self, many_terms: bool) -> str:
        """The estimate that is run: signs replace single terms where factors are wanted of outputs with many."""
        if self.estimate == "signed" and not many_terms:
            return "exact"  # a sign in front of the only term leaves its square as it is
        if self.estimate is not None:
            return self.estimate
        factored = self.structure in ("kronecker", "eigenkronecker")
        return "signed" if many_terms and factored else "exact"


def _known(what: str, name: object, names: tuple[str, ...]) -> None:
    if name in names:
        return
    called = str(name).lower()
    known = [ALSO_CALLED[called]] if ALSO_CALLED.get(called) in names else []
    near = known or difflib.get_close_matches(called, names, 1, 0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{what}={name!r} is unknown; it should be one of {', '.join(map(repr, names))}.{hint}")
