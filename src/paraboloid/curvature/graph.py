"""The walk over the autograd graph: which nodes carry data, and where parameters enter them.

A node is *data* if an input of the model lies behind it. A *use* of a parameter is a data node with an
input edge behind which there are parameters alone; that edge is the *operand*. Integer inputs leave no trace
in the graph, nor do constants (the first state of a recurrent net), so a lookup or a product with a constant is
data if the rows of its gradient have owners.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

Node = Any  # torch's node classes are created at run time, so there is no static type for them

LEAF = "torch::autograd::AccumulateGrad"
LOOKUPS = frozenset({"Embedding", "EmbeddingBag", "Index", "IndexSelect", "Gather"})
PRODUCTS = frozenset({"Addmm", "Mm", "Bmm"})
BESIDE = frozenset({"Convolution", "NativeLayerNorm", "NativeGroupNorm", "NativeBatchNorm", "CudnnBatchNorm", "Mul"})
# Nodes that select or weigh: what meets an activation there may decide whose a row is (a mask, an assignment).
SELECTS = frozenset({"Where", "MaskedFill"})
WEIGHS = frozenset({"Mul", "Mm", "Bmm", "Mv", "Addmm"})
# Nodes that may move examples about by numbers which the graph's shape does not show.
ROUTING = frozenset(
    "Index IndexSelect Gather Take MaskedSelect MaskedScatter Scatter ScatterAdd ScatterReduce IndexPut IndexPutImpl "
    "IndexAdd IndexCopy IndexFill IndexReduce SegmentReduce SparseAddmm SparseMm EmbeddingBag RepeatInterleave Sort "
    "Topk PackPaddedSequence".split()
)
OPAQUE = {
    "CompiledFunction": "a compiled module hides its steps: pass the eager module (model._orig_mod)",
    "CheckpointFunction": "a reentrant checkpoint hides its steps: use checkpoint(..., use_reentrant=False)",
}


class UncoveredError(RuntimeError):
    """A part of the model that cannot be treated exactly; the message names it and a road that works.

    >>> issubclass(UncoveredError, RuntimeError)
    True
    """


def kind(node: Node) -> str:
    """``AddmmBackward0`` -> ``Addmm``."""
    return node.name().rpartition("::")[2].split("Backward")[0]


def output_shape(node: Node, port: int = 0) -> torch.Size:
    """The shape of one output of a node, which is the shape of that output's gradient."""
    return torch.Size(node._input_metadata[port].shape)


def pull(rows: Tensor, nodes: Iterable[Node], cotangent: Tensor) -> list[tuple[Tensor | None, ...]]:
    """Output gradients of every node for a cotangent of ``rows``; computes no weight gradient."""
    nodes = list(nodes)
    edges = [GradientEdge(node, port) for node in nodes for port in range(len(node._input_metadata))]
    flat = iter(torch.autograd.grad(rows, edges, cotangent, retain_graph=True, allow_unused=True) if edges else ())
    return [tuple(next(flat) for _ in node._input_metadata) for node in nodes]


@dataclass(frozen=True)
class Operand:
    """An input edge of a use behind which there are parameters alone."""

    slot: int
    edge: tuple[Node, int]
    leaves: tuple[str, ...]

    @property
    def shape(self) -> torch.Size:
        return output_shape(*self.edge)

    @property
    def is_leaf(self) -> bool:
        return self.edge[0].name() == LEAF

    def pull(self, gradient: Tensor, tensors: Mapping[str, Tensor], **options: Any) -> tuple[Tensor, ...]:
        """The gradients of the leaves for a gradient of the operand."""
        leaves = [tensors[name] for name in self.leaves]
        found = torch.autograd.grad(
            [GradientEdge(*self.edge)], leaves, [gradient], retain_graph=True, allow_unused=True, **options
        )
        lead = gradient.shape[:1] if options.get("is_grads_batched") else ()
        return tuple(t.new_zeros(*lead, *t.shape) if g is None else g for g, t in zip(found, leaves, strict=True))


@dataclass(frozen=True)
class Use:
    """A data node with the operands that enter it; ``number`` counts the uses along the walk."""

    number: int
    node: Node
    operands: tuple[Operand, ...]

    @property
    def kind(self) -> str:
        return kind(self.node)

    def describe(self) -> str:
        names = sorted({name for operand in self.operands for name in operand.leaves})
        return f"{', '.join(repr(name) for name in names)} (at {self.node.name()})"


class Graph:
    """Everything behind one output: nodes inputs first, the data nodes, the uses, and a signature of the layout."""

    def __init__(
        self,
        output: Tensor,
        parameters: Mapping[str, Tensor],
        inputs: Iterable[Tensor],
        owned: Callable[[list[Node], tuple | None], list[bool]],
    ):
        self.output = output
        self.nodes = topological(output.grad_fn)
        refuse_opaque(self.nodes)
        names = {id(tensor): name for name, tensor in parameters.items()}
        entries = {id(tensor) for tensor in inputs}
        self.signature = self._signature(names)
        silent = [node for node in self.nodes if is_silent(node)]
        answers = owned(silent, self.signature) if silent else []
        has_owner = {node for node, yes in zip(silent, answers, strict=True) if yes}
        self.behind: dict[Node, dict[str, None]] = {}
        self.data: set[Node] = set()
        for node in self.nodes:
            self._colour(node, names, entries, has_owner)
        self.uses = tuple(self._uses())
        self.steered = any(self._is_steered(node) for node in self.nodes)

    def _colour(self, node: Node, names: dict[int, str], entries: set[int], has_owner: set[Node]) -> None:
        if node.name() == LEAF:
            if id(node.variable) in entries:
                self.data.add(node)
            name = names.get(id(node.variable))
            self.behind[node] = {} if name is None else {name: None}
            return
        sources = [source for source, _ in node.next_functions if source is not None]
        if node in has_owner or any(source in self.data for source in sources):
            self.data.add(node)
        self.behind[node] = {name: None for source in sources for name in self.behind[source]}

    def _uses(self) -> Iterable[Use]:
        number = 0
        for node in self.nodes:
            if node not in self.data or node.name() == LEAF:
                continue
            operands = tuple(
                Operand(slot, (source, port), tuple(self.behind[source]))
                for slot, (source, port) in enumerate(node.next_functions)
                if source is not None and source not in self.data and self.behind[source]
            )
            if operands:
                yield Use(number, node, operands)
                number += 1

    def _is_steered(self, node: Node) -> bool:
        """Whether numbers of this batch, not shapes, may decide which rows meet here; such layouts are not kept."""
        name = kind(node)
        if name in SELECTS:
            return node in self.data and bool(self.behind[node])
        if name not in WEIGHS:
            return False
        sides = [source for source, _ in node.next_functions][-2:]
        if not any(source in self.data and self.behind[source] for source in sides):
            return False
        return any(_weighs(node, slot) if s is None else not self.behind[s] for slot, s in enumerate(sides))

    @property
    def reached(self) -> set[str]:
        """Names of the parameters that have a use."""
        return {name for use in self.uses for operand in use.operands for name in operand.leaves}

    @cached_property
    def lookups(self) -> tuple[bytes, ...]:
        """The indices by which parameters alone are looked up (a table of positions): they decide an operand."""
        alone = [node for node in self.nodes if kind(node) == "Embedding" and node not in self.data]
        return tuple(node._saved_indices.cpu().numpy().tobytes() for node in alone)

    def consumers(self) -> dict[Node, int]:
        """How many input edges each node's outputs feed."""
        count: dict[Node, int] = {}
        for node in self.nodes:
            for source, _ in node.next_functions:
                if source is not None:
                    count[source] = count.get(source, 0) + 1
        return count

    def activations(self) -> int:
        """Numbers in the outputs of all data nodes: the unit of the memory budget."""
        return sum(math.prod(meta.shape) for node in self.data for meta in node._input_metadata)

    def _signature(self, names: Mapping[int, str]) -> tuple | None:
        """Names, shapes, scalars and wiring along the walk; None if a node may route examples by data."""
        place = {node: k for k, node in enumerate(self.nodes)}
        rows = []
        for node in self.nodes:
            if kind(node) in ROUTING or is_users(node):
                return None
            shapes = tuple(tuple(meta.shape) for meta in node._input_metadata)
            wiring = tuple((place.get(source, -1), port) for source, port in node.next_functions)
            leaf = names.get(id(node.variable)) if node.name() == LEAF else None
            rows.append((node.name(), shapes, wiring, _scalars(node), leaf))
        return tuple(rows)


def refuse_opaque(nodes: Iterable[Node]) -> None:
    """Raise by name if a node hides what it did."""
    for node in nodes:
        if kind(node) in OPAQUE:
            raise UncoveredError(f"{node.name()} in the graph: {OPAQUE[kind(node)]}.")


def padding_of(node: Node) -> int:
    """The row of an Embedding that is a constant whatever it holds; -1 if there is none."""
    padding = node._saved_padding_idx
    return padding if 0 <= padding < 2**31 else -1


def _weighs(node: Node, slot: int) -> bool:
    """Whether the constant in this slot has several numbers that are not all zero."""
    if kind(node) != "Mul":
        return True
    other = node._saved_other if slot == 1 else node._saved_self
    return other is not None and other.numel() > 1 and bool((other != 0).any())


def is_silent(node: Node) -> bool:
    """Whether data may enter here without leaving a trace: by integers, or as a constant beside a parameter."""
    name = kind(node)
    if name in LOOKUPS:
        return True
    sources = [source for source, _ in node.next_functions]
    if name in PRODUCTS:
        return None in sources[-2:]
    return name in BESIDE and sources[0] is None and any(source is not None for source in sources)


def topological(root: Node | None) -> list[Node]:
    """Every node behind this one, inputs before their consumers."""
    order: list[Node] = []
    seen: set[Node] = set()
    stack = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node is not None and node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((source, False) for source, _ in node.next_functions)
    return order


def is_users(node: Node) -> bool:
    """Whether this is a torch.autograd.Function of the user's."""
    return isinstance(node, torch.autograd.function.BackwardCFunction)


def _scalars(node: Node) -> tuple:
    """Saved numbers (strides, dimensions, shifts, modes): they decide the layout as much as shapes do."""
    if node.name() == LEAF or is_users(node):
        return ()
    names = _SAVED_NAMES.get(type(node))
    if names is None:
        found = {name for name in dir(type(node)) if name.startswith("_saved_")}
        names = _SAVED_NAMES[type(node)] = {name for name in found if not _is_tensor(node, name)}
    return tuple(_plain(node, name) for name in sorted(names))


# By class, without those that were seen to be tensors: reading these may compute a checkpointed block again.
_SAVED_NAMES: dict[type, set[str]] = {}


def _is_tensor(node: Node, name: str) -> bool:
    try:
        return isinstance(getattr(node, name), torch.Tensor)
    except RuntimeError:  # a saved tensor that was changed in place; it is reported where it is used
        return True


def _plain(node: Node, name: str) -> Any:
    """A saved value as something that can be compared and hashed; of what is no number, its type."""
    try:
        value = getattr(node, name)
    except RuntimeError:  # a tensor, left out when its class was first seen, that was changed in place
        return "Tensor"
    if isinstance(value, tuple | list):
        return tuple(one if isinstance(one, int | float | bool) else type(one).__name__ for one in value)
    return value if value is None or isinstance(value, int | float | bool | str) else type(value).__name__
