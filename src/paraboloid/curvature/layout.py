"""The blocks of a network: which positions of the flat vector share a matrix, and which uses feed each block.

Uses whose gradients are matrices over the same positions are one block, further uses being further positions.
A parameter that is used in any other way, or partly under two different matrices, becomes a flat block of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from paraboloid.curvature.graph import Graph, Node, UncoveredError, Use, kind, output_shape
from paraboloid.curvature.operands import is_view, selection
from paraboloid.curvature.ownership import Owners
from paraboloid.curvature.rules.part import Part
from paraboloid.curvature.rules.pulled import FlatPart, PulledPart
from paraboloid.curvature.rules.scaled import scaled
from paraboloid.curvature.rules.table import templates
from paraboloid.curvature.rules.template import Bound, Template
from paraboloid.spaces.params import Params

VIEWS = frozenset({"View", "UnsafeView", "ReshapeAlias"})
TURNS = frozenset({"T", "Transpose", "Permute"})


@dataclass(frozen=True)
class Source:
    """A template as one block reads it: transposed, or as the flat vector of a leaf behind the operand."""

    template: Template
    swapped: bool = False
    leaf: str | None = None  # set where the operand is not a selection: the leaf that its gradient is pulled back to


@dataclass(frozen=True)
class Block:
    """Positions of the flat vector that are treated together: (outputs, inputs) of a matrix, or a vector."""

    names: tuple[str, ...]
    index: Tensor
    matrix: bool
    bias: bool
    rule: str
    sources: tuple[Source, ...]

    @property
    def positions(self) -> Tensor:
        return self.index.reshape(-1)

    @cached_property
    def key(self) -> tuple:
        """What two blocks must agree in for their sums to be added."""
        orientations = frozenset(source.swapped for source in self.sources)
        return self.names, self.matrix, self.bias, orientations, _key(self.index)


@dataclass(frozen=True)
class Layout:
    """All that does not depend on a batch's numbers: blocks, and owners of every use's gradients."""

    blocks: tuple[Block, ...]
    owners: tuple[Sequence[Owners | None], ...]
    remember: bool

    def bind(self, block: Block, graph: Graph, examples: int, tensors: Mapping[str, Tensor]) -> list[tuple[Part, bool]]:
        """The block's parts for one batch, each with whether it is transposed."""
        return [(self._bind(source, block, graph, examples, tensors), source.swapped) for source in block.sources]

    def _bind(self, source: Source, block: Block, graph: Graph, examples: int, tensors: Mapping[str, Tensor]) -> Part:
        template = source.template
        use = graph.uses[template.use]
        bound = Bound(use.node, self.owners[template.use], examples)
        if block.matrix:
            return template.bind(bound, block.index.T if source.swapped else block.index)
        part = template.bind(bound)
        if source.leaf is not None:
            operand = next(o for o in use.operands if o.slot == template.slot)
            return PulledPart(part, operand, tensors, source.leaf, block.index)
        return part if torch.equal(part.index, block.index) else FlatPart(part, block.index)


def build_layout(
    graph: Graph,
    owners: Sequence[Sequence[Owners | None] | None],
    params: Params,
    tensors: Mapping[str, Tensor],
    examples: int,
    joint: bool,
) -> Layout:
    """Sort the uses of a graph into blocks."""
    known: list[Sequence[Owners | None]] = []
    for use, found in zip(graph.uses, owners, strict=True):
        if found is None:
            raise UncoveredError(
                f"Examples are mixed at the use of {use.describe()}, so no example has a gradient of its own there. "
                "Layers that couple the examples of a batch (batch statistics, x - x.mean(0)) have no per-example "
                "curvature: call model.eval(), exclude the parameter with params=, or use structure='products'."
            )
        known.append(found)
    offsets = {name: params.slices[name].start for name in params.names}
    selected, pulled, fixed = _all_templates(graph, known, params, tensors, offsets, examples)
    blocks = _partition(selected, pulled, params, joint)
    if bool((_claims([block.index for block in blocks], params) > 1).any()):
        raise UncoveredError(
            "A parameter would stand in two blocks, so no structure fits this network. Use structure='products', and "
            "please report the forward."
        )
    complete = all(o is None or o.complete for found in known for o in found)
    return Layout(tuple(blocks), tuple(known), complete and fixed)


def _all_templates(graph, owners, params: Params, tensors, offsets, examples: int):
    """Templates of operands that are selections, and (template, leaf) pairs of those that are not.

    The last answer is whether the selections are so whatever the parameters' values: |W| is one while W > 0.
    """
    fixed = True
    selected: list[tuple[Template, tuple[str, ...]]] = []
    pulled: list[tuple[Template, str]] = []
    biases = _later_biases(graph)
    for use, owned in zip(graph.uses, owners, strict=True):
        bound = Bound(use.node, owned, examples)
        for operand in use.operands:
            chosen = selection(operand, tensors, offsets)
            found = (
                [] if chosen is None else scaled(templates(use, operand.slot, chosen.positions, bound), chosen.scale)
            )
            if found:
                fixed &= is_view(operand)
                selected.extend((_with_partner(template, biases.get(use.number)), operand.leaves) for template in found)
                continue
            own = torch.arange(operand.shape.numel(), device=next(iter(tensors.values())).device).view(operand.shape)
            for template in templates(use, operand.slot, own, bound):
                pulled.extend((template, leaf) for leaf in operand.leaves)
    return selected, pulled, fixed


def _later_biases(graph: Graph) -> dict[int, int]:
    """Additions to nothing but the result of a matrix product: number of the Add -> number of the product."""
    numbers: dict[Node, Use] = {use.node: use for use in graph.uses}
    fed = graph.consumers()
    found: dict[int, int] = {}
    for use in graph.uses:
        if use.kind != "Add" or len(use.operands) != 1 or getattr(use.node, "_saved_alpha", 1) != 1:
            continue
        product = _product_below(use, numbers, fed)
        if product is not None:
            found[use.number] = product.number
    return found


def _product_below(use: Use, numbers: Mapping[Node, Use], fed: Mapping[Node, int]) -> Use | None:
    """The matrix product whose result, and nothing else, this Add shifts row by row."""
    node = use.node.next_functions[1 - use.operands[0].slot][0]
    width = output_shape(use.node)[-1:] or None
    while node is not None and kind(node) in VIEWS and fed[node] == 1 and output_shape(node)[-1:] == width:
        node = node.next_functions[0][0]
    if node is None:
        return None
    turned = kind(node) in TURNS and fed[node] == 1 and len(output_shape(node)) == 2
    node = node.next_functions[0][0] if turned else node
    product = numbers.get(node)
    if product is None or product.kind != "Mm" or fed[node] != 1 or len(product.operands) != 1:
        return None
    shape, rows = use.operands[0].shape, output_shape(node)[0]
    if product.operands[0].slot == 1:  # W on the right: the bias has one number for each column of the product
        fits = not turned and shape == width == output_shape(node)[-1:]
    else:  # W on the left: one for each row
        fits = shape == width == (rows,) if turned else shape == (rows, 1) and output_shape(use.node)[0] == rows
    return product if fits else None


def _with_partner(template: Template, product: int | None) -> Template:
    return template if product is None else replace(template, partner=(product, 0))


_INTERNED: WeakValueDictionary[tuple, Tensor] = WeakValueDictionary()


def _interned(index: Tensor) -> Tensor:
    """One tensor for equal indices, so that layouts of several batch sizes do not each hold one."""
    return _INTERNED.setdefault((str(index.device), *_key(index)), index)


def _key(index: Tensor) -> tuple:
    """Shape and digest of an index."""
    return (tuple(index.shape), hashlib.blake2b(index.contiguous().cpu().numpy().data, digest_size=16).digest())


def _partition(selected, pulled, params: Params, joint: bool) -> list[Block]:
    groups: dict[tuple, list[Source]] = {}
    for template, _ in selected:
        if template.matrix:
            key, turned_shape = _key(template.index), tuple(reversed(template.index.shape))
            maybe = key not in groups and any(shape == turned_shape for shape, _ in groups)
            turned = _key(template.index.T) if maybe else None
            groups.setdefault(turned if turned in groups else key, []).append(Source(template, turned in groups))
    biases = _joint_biases(groups, selected, params) if joint else {}
    flat = _flat_names(groups, biases, selected, pulled, params)
    leaves = {id(template): names for template, names in selected}
    blocks = []
    for key, sources in groups.items():
        names = leaves[id(sources[0].template)]
        if not flat.intersection(names):
            blocks.append(_matrix_block(names, sources, biases.get(key), leaves))
    taken = [sources for sources in groups.values() if not flat.intersection(leaves[id(sources[0].template)])]
    used = {id(source.template) for sources in taken for source in sources}
    used |= {id(t) for key, found in biases.items() for t in found if not flat.intersection(leaves[id(t)])}
    blocks += _flat_blocks([(t, n) for t, n in selected if id(t) not in used], pulled, params)
    return sorted(blocks, key=lambda block: int(block.positions.min()))


def _matrix_block(names: tuple[str, ...], sources: list[Source], bias, leaves) -> Block:
    template = sources[0].template
    index, rule = template.index, template.rule
    if bias:
        index = torch.cat([index, bias[0].index[:, None]], 1)
        names = (*names, *leaves[id(bias[0])])
    if len(sources) > 1:
        rule = f"{rule}, {len(sources)} uses"
    index = _interned(index)
    # the block's index serves all of its parts, so no template has to keep one
    bare = tuple(replace(source, template=replace(source.template, index=index[:0])) for source in sources)
    return Block(names, index, True, bool(bias), rule, bare)


def _joint_biases(groups: dict[tuple, list[Source]], selected, params: Params) -> dict[tuple, list[Template]]:
    """For each group the vectors that are its bias in every use, where they are used nowhere else."""
    vectors = {t.partner: t for t, _ in selected if not t.matrix and t.partner is not None}
    times: dict[str, int] = {}
    for template, names in selected:
        for name in names:
            times[name] = times.get(name, 0) + (not template.matrix)
    found: dict[tuple, list[Template]] = {}
    leaves = {id(template): names for template, names in selected}
    for key, sources in groups.items():
        biases = [vectors.get(source.template.partner) for source in sources if source.template.partner is not None]
        if any(source.swapped for source in sources) or len(biases) != len(sources) or None in biases:
            continue
        first = biases[0]
        assert first is not None
        width = sources[0].template.index.shape[0]
        if len(first.index) == width and all(b is not None and torch.equal(b.index, first.index) for b in biases):
            found[key] = [b for b in biases if b is not None]
    claims = _claims([ts[0].index for ts in found.values()], params)
    found = {key: ts for key, ts in found.items() if not bool((claims[ts[0].index] > 1).any())}
    joined: dict[str, int] = {}
    for templates_ in found.values():
        for template in templates_:
            for name in leaves[id(template)]:
                joined[name] = joined.get(name, 0) + 1
    whole = {name for name, count in joined.items() if count == times[name]}
    return {key: ts for key, ts in found.items() if all(whole.issuperset(leaves[id(t)]) for t in ts)}


def _claims(indices: Sequence[Tensor], params: Params) -> Tensor:
    """How often each position of the flat vector occurs in these indices (P,)."""
    if not indices:
        return torch.zeros(0, dtype=torch.uint8)
    total = torch.zeros(params.numel, dtype=torch.uint8, device=indices[0].device)
    for index in indices:
        places = index.reshape(-1)
        total.index_add_(0, places, torch.ones((), dtype=torch.uint8, device=places.device).expand(len(places)))
    return total


def _flat_names(groups, biases, selected, pulled, params: Params) -> set[str]:
    """Parameters that cannot be split into disjoint matrices, and all that share a matrix with one of them."""
    joined = {id(t) for found in biases.values() for t in found}
    flat = {leaf for _, leaf in pulled}
    flat.update(name for t, names in selected if not t.matrix and id(t) not in joined for name in names)
    leaves = {id(template): names for template, names in selected}
    seen: dict[str, list[Tensor]] = {}
    for sources in groups.values():
        for name in leaves[id(sources[0].template)]:
            seen.setdefault(name, []).append(sources[0].template.index.reshape(-1))
    for name, indices in seen.items():
        if bool((_claims(indices, params) > 1).any()):
            flat.add(name)
    while True:
        more = set(flat)
        for key, sources in groups.items():
            names = set(leaves[id(sources[0].template)])
            names.update(n for t in biases.get(key, ()) for n in leaves[id(t)])
            if names & more:
                more |= names
        if more == flat:
            return flat
        flat = more


def _flat_blocks(selected, pulled, params: Params) -> list[Block]:
    sources: dict[str, list[Source]] = {}
    for template, names in selected:
        for name in names:
            sources.setdefault(name, []).append(Source(template))
    for template, leaf in pulled:
        sources.setdefault(leaf, []).append(Source(template, leaf=leaf))
    blocks = []
    for name, found in sources.items():
        piece = params.slices[name]
        index = torch.arange(piece.start, piece.stop, device=found[0].template.index.device)
        rule = ", ".join(dict.fromkeys(source.template.rule for source in found))
        blocks.append(Block((name,), index, False, False, rule, tuple(found)))
    return blocks
