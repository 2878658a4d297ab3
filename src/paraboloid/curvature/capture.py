"""One batch, seen through its autograd graph: terms, blocks bound to nodes, and gradients for any column.

Nothing is attached to the model, and no node is kept beyond the batch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from paraboloid.curvature.graph import (
    LEAF,
    Graph,
    Node,
    UncoveredError,
    is_silent,
    kind,
    output_shape,
    pull,
    topological,
)
from paraboloid.curvature.layout import Block, Layout, build_layout
from paraboloid.curvature.ownership import Owners, find_owners
from paraboloid.curvature.problem import Problem
from paraboloid.curvature.refusals import not_finite, require_finite, require_finite_rows, require_graph
from paraboloid.curvature.rules.part import Part, Stacks
from paraboloid.spaces.batches import Batch
from paraboloid.spaces.functional import call, kernels
from paraboloid.spaces.randomness import default_generator, without_draws
from paraboloid.spaces.terms import Terms, terms

T = TypeVar("T")

REMEMBERED = 16
# By signature, that is by shapes and wiring; neither holds data or weights.
_LAYOUTS: OrderedDict[tuple, Layout] = OrderedDict()
_SILENT: OrderedDict[tuple, list[bool]] = OrderedDict()


class BoundBlock:
    """A block with its parts in one batch."""

    def __init__(self, block: Block, parts: Sequence[tuple[Part, bool]], uses: Sequence[int], examples: int):
        self.block, self.parts, self.uses, self.examples = block, tuple(parts), tuple(uses), examples

    def gradients(self, stacks: Sequence[Stacks], low: int, high: int) -> Tensor:
        """(K, high - low, *index.shape): gradients of the block, summed over its uses."""
        total: Tensor | None = None
        for (part, swapped), use in zip(self.parts, self.uses, strict=True):
            found = part.gradients(stacks[use], low, high)
            found = found.mT if swapped else found
            total = found if total is None else total + found
        assert total is not None
        return total

    def chunks(self, columns: int) -> list[tuple[int, int]]:
        """Ranges of examples that every part can hold."""
        return max((part.chunks(columns) for part, _ in self.parts), key=len)


class Capture:
    """A batch's terms and graph, and the layout of the network's blocks over it."""

    def __init__(self, problem: Problem, batch: Batch):
        self.problem, self.batch = problem, batch
        self.tensors = problem.leaves()
        marked: list[Tensor] = []
        args, kwargs = mark(batch.args, marked), mark(batch.kwargs, marked)
        require_finite(marked, "the inputs hold NaN or inf; clean the data first")
        # gradients are needed here whatever mode the caller is in
        with torch.inference_mode(False), torch.enable_grad(), kernels(problem.model):
            with without_draws(problem.device):
                output = problem.batches.output(call(problem.model, problem.replaced(self.tensors), args, kwargs))
            require_graph(output)
            self.terms: Terms = terms(output, batch.targets, problem.likelihood, batch.weights)
            require_finite_rows(self.rows, problem, batch)
            if not len(self.rows):
                return  # nothing to sum: no term is left of this batch
            self.graph = Graph(output, self.tensors, marked, self._owned)
        self._require_no_stray()
        self.layout = self._layout()
        self.nodes = [use.node for use in self.graph.uses]

    @property
    def rows(self) -> Tensor:
        return self.terms.outputs

    @property
    def examples(self) -> int:
        return self.terms.examples

    def bound(self) -> list[BoundBlock]:
        """Every block of the layout, bound to this batch."""
        found = []
        for block in self.layout.blocks:
            try:
                parts = self.layout.bind(block, self.graph, self.examples, self.tensors)
            except RuntimeError as error:
                if "modified by an inplace operation" not in str(error):
                    raise
                raise UncoveredError(
                    f"What {', '.join(map(repr, block.names))} met in the forward was changed in place afterwards. Do "
                    "not write into inputs or activations that a layer has seen; use the out-of-place operation."
                ) from error
            uses = [source.template.use for source in block.sources]
            found.append(BoundBlock(block, parts, uses, self.examples))
        return found

    def gradients(self, columns: Sequence[Tensor]) -> list[Stacks]:
        """For each use the stacked gradients of its node's outputs; one backward for each column."""
        pulled = [pull(self.rows, self.nodes, column.to(self.rows.dtype)) for column in columns]
        stacks: list[Stacks] = []
        for number, node in enumerate(self.nodes):
            ports = range(len(node._input_metadata))
            stacks.append([self._stack([found[number][port] for found in pulled], node, port) for port in ports])
            for found in pulled:
                found[number] = ()  # what is stacked is not held twice
        return stacks

    def _stack(self, gradients: list[Tensor | None], node: Node, port: int) -> Tensor:
        if len(gradients) == 1 and gradients[0] is not None:
            return gradients[0].unsqueeze(0)
        zero = None
        if any(g is None for g in gradients):
            zero = self.rows.new_zeros(output_shape(node, port), dtype=node._input_metadata[port].dtype)
        return torch.stack([zero if g is None else g for g in gradients])  # type: ignore[misc]

    def _owners(self, nodes: Sequence[Node]) -> list[Sequence[Owners | None] | None]:
        generator = default_generator(self.rows.device)
        found = find_owners(self.rows, self.terms.example, self.examples, nodes, generator) if nodes else []
        for node, owners in zip(nodes, found, strict=True):
            if owners is None:
                self._require_finite_gradient(node)
        return found

    def _require_finite_gradient(self, node: Node) -> None:
        """Raise if examples seem mixed at a node because its gradient is no number."""
        pulled = [g for gs in pull(self.rows, [node], torch.ones_like(self.rows)) for g in gs if g is not None]
        if all(bool(torch.isfinite(g).all()) for g in pulled):
            return
        names = {id(tensor): name for name, tensor in self.tensors.items()}
        behind = [names.get(id(leaf.variable)) for leaf in topological(node) if leaf.name() == LEAF]
        raise not_finite(", ".join(name for name in behind if name is not None))

    def _key(self, signature: tuple | None) -> tuple | None:
        """All that a layout depends on; None where it may depend on the batch's numbers."""
        if signature is None:
            return None
        params, rows = self.problem.params, self.rows
        owners = None if self.terms.complete else tuple(self.terms.example.tolist())
        dtypes = tuple(tensor.dtype for tensor in self.tensors.values())
        return (signature, self.examples, rows.shape, owners, params.names, params.shapes, dtypes, rows.device)

    @property
    def key(self) -> tuple | None:
        """What the layout and its certificate are remembered by; None if they are not."""
        return self._layout_key() if self.layout.remember else None

    def _layout_key(self) -> tuple | None:
        key = self._key(self.graph.signature)
        return None if key is None or self.graph.steered else (key, self.graph.lookups, self.problem.joint)

    def _owned(self, nodes: list[Node], signature: tuple | None) -> list[bool]:
        """Whether the rows of these nodes' gradients belong to examples."""

        def ask() -> tuple[list[bool], bool]:
            if self.examples == 1 and (answer := self._asked_of_two(nodes)) is not None:
                return answer, True
            found = self._owners(nodes)
            remember = all(o is None or o.complete for owners in found if owners is not None for o in owners)
            return [owners is not None and any(o is not None for o in owners) for owners in found], remember

        return remembered(_SILENT, self._key(signature), ask)

    def _asked_of_two(self, nodes: list[Node]) -> list[bool] | None:
        """A single example owns everything there is; the same question to a batch that holds it twice."""
        try:
            two = Capture(self.problem, _doubled(self.batch)).graph
        except (RuntimeError, ValueError, TypeError, IndexError):  # the example is not on axis 0 of the inputs
            return None
        silent = [node for node in two.nodes if is_silent(node)]
        if [kind(node) for node in silent] != [kind(node) for node in nodes]:
            return None
        return [node in two.data for node in silent]

    def _layout(self) -> Layout:
        problem = self.problem

        def build() -> tuple[Layout, bool]:
            owners = self._owners([use.node for use in self.graph.uses])
            layout = build_layout(self.graph, owners, problem.params, self.tensors, self.examples, problem.joint)
            return layout, layout.remember

        return remembered(_LAYOUTS, self._layout_key(), build)

    def _require_no_stray(self) -> None:
        """Parameters that reach the output past every data node have no use a rule could read."""
        root = self.graph.output.grad_fn
        if root not in self.graph.data and self.graph.behind[root]:
            behind = list(self.graph.behind[root])
            names = ", ".join(map(repr, behind[:3])) + (f" and {len(behind) - 3} more" if len(behind) > 3 else "")
            raise UncoveredError(
                f"The output depends on {names}, but no axis of it was found that belongs to the examples. If the "
                "forward flattens tokens into axis 0, return (N, T, C) with targets (N, T). If the parameters do not "
                "meet the input at all, exclude them with params=. structure='products' needs no examples."
            )


def remembered(store: OrderedDict[tuple, T], key: tuple | None, make: Callable[[], tuple[T, bool]]) -> T:
    """The stored value, or a new one, which is stored if it says so; the oldest are forgotten."""
    if key is not None and key in store:
        store.move_to_end(key)
        return store[key]
    value, keep = make()
    if key is not None and keep:
        store[key] = value
        while len(store) > REMEMBERED:
            store.popitem(last=False)
    return value


def _doubled(batch: Batch) -> Batch:
    """A batch of one example, twice."""

    def twice(value: Any) -> Any:
        one = isinstance(value, Tensor) and value.ndim > 0 and value.shape[0] == 1
        return torch.cat([value, value]) if one else value

    def changed(value: Any) -> Any:
        return {key: twice(one) for key, one in value.items()} if isinstance(value, Mapping) else twice(value)

    args = tuple(changed(value) for value in batch.args)
    kwargs = {key: changed(value) for key, value in batch.kwargs.items()}
    return Batch(args, kwargs, changed(batch.targets), None)


def mark(value: Any, found: list[Tensor]) -> Any:
    """Floating tensors anywhere in the arguments replaced by marked copies that share their memory."""
    if isinstance(value, Tensor):
        if not value.is_floating_point():
            return value
        leaf = value.detach().requires_grad_()
        found.append(leaf)
        with torch.inference_mode(False), torch.enable_grad():
            return leaf.view_as(leaf)  # a view: an in-place operation on a leaf that needs gradients would raise
    if isinstance(value, Mapping):
        return {key: mark(one, found) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mark(one, found) for one in value))
    if isinstance(value, (tuple, list)):
        return type(value)(mark(one, found) for one in value)
    return value
