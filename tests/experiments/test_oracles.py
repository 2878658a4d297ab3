"""What the recipes measure, against dense algebra on networks that are small enough to write everything down."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.func import functional_call, hessian, jacrev, vmap

from paraboloid.experiments import empirical_rank, kronecker_quality, linear_lemma, relu_hessian
from paraboloid.recipes.log import MemoryLog


def flat(model):
    """Its parameters as one vector, and the outputs as a function of it."""
    names, shapes = zip(*((name, p.shape) for name, p in model.named_parameters()), strict=True)
    theta = torch.cat([p.detach().flatten() for p in model.parameters()])

    def outputs(vector, x):
        parts = vector.split([shape.numel() for shape in shapes])
        values = {name: part.view(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
        return functional_call(model, values, (x,))

    return theta, outputs


def output_curvature(kind, logits):
    """(N, C, C): the second derivative of one example's mean loss in the outputs, by closed form."""
    n, c = logits.shape
    if kind == "mse":
        return torch.eye(c, dtype=logits.dtype).expand(n, c, c)
    if kind == "bernoulli":
        p = torch.sigmoid(logits)
        return torch.diag_embed(p * (1 - p))
    p = torch.softmax(logits, 1)
    return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]


def gauss_newton(model, x, kind):
    theta, outputs = flat(model)
    jacobians = vmap(jacrev(lambda vector, one: outputs(vector, one[None])[0]), (None, 0))(theta, x)
    return torch.einsum("nci,ncd,ndj->ij", jacobians, output_curvature(kind, model(x).detach()), jacobians)


# ---------------------------------------------------------------------- linear_lemma
@pytest.mark.parametrize("kind", ["mse", "categorical"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_lemma_s_residual_and_rank_are_those_of_dense_algebra(generator, kind, depth):
    width, count = 3, 12
    config = linear_lemma.SCALES["smoke"]
    layers = [nn.Linear(width, width, bias=False) for _ in range(depth)]
    model = nn.Sequential(*layers)
    with torch.no_grad():
        for layer in layers:
            layer.weight.copy_(torch.eye(width) + 0.3 * torch.randn(width, width, generator=generator))
    x = torch.randn(count, width, generator=generator)
    y = torch.randn(count, width, generator=generator)
    y = y.argmax(1) if kind == "categorical" else y
    found, table = linear_lemma._measure(model, (x, y), kind, config)

    G = gauss_newton(model, x, kind) / count
    if kind == "mse":
        gradient_of_outputs = (model(x) - y) * 2 / (count * width)
        scale = 2 / width  # the loss is the mean over the outputs too
    else:
        gradient_of_outputs = (torch.softmax(model(x), 1) - nn.functional.one_hot(y, width)) / count
        scale = 1.0
    theta, outputs = flat(model)
    J = jacrev(lambda vector: outputs(vector, x))(theta)
    V = torch.einsum("nci,nc->i", J, gradient_of_outputs).detach()
    size = width * width
    blocks = torch.block_diag(*(G[k * size : (k + 1) * size, k * size : (k + 1) * size] for k in range(depth)))
    printed = torch.linalg.pinv(blocks, rtol=1e-10, hermitian=True) @ V / depth
    shortest = torch.linalg.pinv(G, rtol=1e-10, hermitian=True) @ V
    rank = int((torch.linalg.svdvals(G) > 1e-10 * torch.linalg.svdvals(G)[0]).sum())
    assert found["rank / rows"] == rank / len(G)
    assert found["distance to the pseudo-inverse"] == pytest.approx(
        float((printed - shortest).norm() / shortest.norm()), abs=1e-8
    )
    # the statement itself: the printed step solves the system, in whatever unit the loss is
    assert float((G @ printed - V).norm() / V.norm()) < 1e-10
    assert found["residual"] < 1e-10
    # damped steps, in the likelihood's own unit
    unit = found_unit(model, (x, y), kind, G)
    assert unit in (pytest.approx(1.0), pytest.approx(scale))
    for damping, near in zip(config.dampings, table["to the pseudo-inverse"], strict=True):
        step = torch.linalg.solve(unit * G + damping * torch.eye(len(G)), V)
        assert near == pytest.approx(
            float((step - shortest / unit).norm() / (shortest / unit).norm()), rel=1e-6, abs=1e-8
        )


def found_unit(model, data, kind, G) -> float:
    import paraboloid

    dense = paraboloid.curvature(model, data, likelihood=kind, structure="dense").dense()
    unit = float(dense.trace() / G.trace())
    assert torch.allclose(dense, unit * G, atol=1e-12)
    return unit


def test_the_rank_of_the_lemma_s_matrix_is_that_of_one_layer(generator):
    results = linear_lemma.run(replace(linear_lemma.SCALES["smoke"], seeds=(0, 1)), MemoryLog())
    for depth in (1, 2, 3):
        assert results.values[f"{depth} layers: rank / rows"] == [pytest.approx(1 / depth)] * 2


# ---------------------------------------------------------------------- empirical_rank
def test_ranks_are_those_of_stacked_jacobians():
    config = empirical_rank.Config(inputs=3, hidden=3, outputs=3, points=(1, 2, 4, 30), seeds=(5,))
    found = empirical_rank.one_seed(config, MemoryLog())
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(30, 3, generator=generator)
    for kind, (likelihood, estimate, _) in empirical_rank.KINDS.items():
        outputs = 1 if likelihood == "bernoulli" else 3
        model = empirical_rank.mlp((3, 3, 3, outputs), activation="tanh", generator=generator).double()
        y = empirical_rank._targets(likelihood, 30, outputs, generator)
        theta, function = flat(model)
        J = vmap(jacrev(lambda vector, one, f=function: f(vector, one[None])[0]), (None, 0))(theta, x)
        for n, rank, bound in zip(config.points, found[kind]["rank"], found[kind]["bound"], strict=True):
            if estimate == "empirical":
                residual = torch.softmax(model(x[:n]), 1) - nn.functional.one_hot(y[:n], 3)
                rows = torch.einsum("nc,nci->ni", residual, J[:n])
            else:
                H = output_curvature(likelihood, model(x[:n]).detach())
                values, vectors = torch.linalg.eigh(H)
                root = vectors * values.clamp(min=0).sqrt()[:, None, :]
                rows = torch.einsum("ncd,nci->ndi", root, J[:n]).flatten(0, 1)
            expected = int(torch.linalg.matrix_rank(rows.detach(), rtol=1e-7))
            assert rank == expected, (kind, n)
            per_point = {"mse": outputs, "categorical": outputs - 1, "bernoulli": 1}[likelihood]
            assert bound == n * (1 if estimate == "empirical" else per_point)
            assert rank <= min(bound, len(theta))
        assert found[kind]["size"] == len(theta)


# ---------------------------------------------------------------------- relu_hessian
@pytest.mark.parametrize("loss", ["mse", "categorical"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_blocks_are_those_of_the_hessian_and_of_stacked_jacobians(activation, loss):
    config = relu_hessian.Config(inputs=2, hidden=3, outputs=2, points=6, seeds=(0,))
    generator = torch.Generator().manual_seed(3)
    model = relu_hessian._network(config, activation, generator, torch.device("cpu"))
    state = generator.get_state()
    found = relu_hessian._blocks(model, config, loss, generator)
    generator.set_state(state)
    x, y = relu_hessian._data(config, loss, generator, torch.device("cpu"))
    theta, outputs = flat(model)

    def mean_loss(vector):
        z = outputs(vector, x)
        if loss == "categorical":
            return nn.functional.cross_entropy(z, y)
        return 0.5 * (z - y).square().sum() / len(x)

    H, G = hessian(mean_loss)(theta), gauss_newton(model, x, loss).detach() / len(x)
    sizes = [2 * 3 + 3, 3 * 3 + 3, 3 * 2 + 2]
    assert sum(sizes) == len(theta)
    mask = torch.block_diag(*(torch.ones(size, size) for size in sizes)).bool()
    difference = H - G
    expected = {
        "difference inside layers": float((difference * mask).norm() / (G * mask).norm()),
        "difference between layers": float((difference * ~mask).norm() / (G * ~mask).norm()),
        "lowest eigenvalue of a block / largest": min(
            float(torch.linalg.eigvalsh(block)[0]) for block in (H[: sizes[0], : sizes[0]], H[9:21, 9:21], H[21:, 21:])
        )
        / float(torch.linalg.eigvalsh(H)[-1]),
        "trace of the Hessian / trace of the Gauss-Newton matrix": float(H.trace() / G.trace()),
    }
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert (found["difference inside layers"] < 1e-10) == (activation == "relu")


def test_surfaces_are_losses_over_planes_and_their_second_derivatives_are_the_hessian_s():
    config = relu_hessian.Config(inputs=2, hidden=3, outputs=2, points=4, grid=5, reach=1.5)
    generator = torch.Generator().manual_seed(0)
    model = relu_hessian._network(config, "relu", generator, torch.device("cpu"))
    state = generator.get_state()
    tables, lowest = relu_hessian._surfaces(model, config, generator)
    generator.set_state(state)
    x, y = relu_hessian._data(config, "mse", generator, torch.device("cpu"))
    weights = {name: p.detach() for name, p in model.named_parameters()}
    matrices = [name for name in weights if name.endswith("weight")]
    axis = torch.linspace(-1.5, 1.5, 5)
    assert set(tables) == set(lowest) == set(relu_hessian.PLANES)
    for plane, layers in relu_hessian.PLANES.items():
        shapes = [weights[matrices[layer]].shape for layer in layers]
        U, V = (math.sqrt(2 / shape[1]) * torch.randn(shape, generator=generator) for shape in shapes)

        def loss(point, U=U, V=V, layers=layers):
            changed = dict.fromkeys((matrices[layer] for layer in layers), 0.0)
            changed[matrices[layers[0]]] = changed[matrices[layers[0]]] + point[0] * U
            changed[matrices[layers[1]]] = changed[matrices[layers[1]]] + point[1] * V
            return (functional_call(model, weights | changed, (x,)) - y).square().mean()

        points = [[torch.stack([a, b]) for a in axis] for b in axis]
        heights = torch.stack([torch.stack([loss(point) for point in row]) for row in points])
        assert tables[plane]["axis"] == pytest.approx(axis.tolist(), abs=1e-6)
        assert torch.allclose(torch.tensor(tables[plane]["height"]), heights, rtol=1e-4, atol=1e-12)
        second = torch.stack([hessian(loss)(point).diagonal() for row in points for point in row])
        expected = float(second.min() / second.max())
        assert lowest[f"{plane}"] == pytest.approx(expected, rel=1e-8, abs=1e-12)


# ---------------------------------------------------------------------- kronecker_quality
def test_cosine_and_error_of_a_layer_are_those_of_dense_matrices(generator):
    widths, count, damping = (4, 3, 2, 3, 4), 10, 1e-3
    config = kronecker_quality.Config("digits", (3, 2), count, count, damping=damping, seeds=(0,))
    model = kronecker_quality.mlp(widths, activation="tanh", generator=generator).double()
    x = (torch.rand(count, 4, generator=generator) > 0.5).double()
    rows = {(row["layer"], row["method"]): row for row in kronecker_quality._measure(model, x, config, 0)}

    G = gauss_newton(model, x, "bernoulli").detach() / count
    theta, outputs = flat(model)
    J = vmap(jacrev(lambda vector, one: outputs(vector, one[None])[0]), (None, 0))(theta, x)
    p = torch.sigmoid(model(x)).detach()
    g_all = torch.einsum("nc,nci->i", p - x, J).detach() / count
    start, hidden = 0, x
    linear = [module for module in model if isinstance(module, nn.Linear)]
    for number, layer in enumerate(linear, 1):
        out, into = layer.weight.shape
        size = out * into + out
        F, g = G[start : start + size, start : start + size], g_all[start : start + size]
        # the layer's outputs' Jacobian, read off its bias; rows [w₁ … w_out, b] -> the homogeneous order by hand
        B = J[:, :, start + out * into : start + size].detach()
        grads = torch.einsum("nco,nc,ncp->op", B, p * (1 - p), B) / count
        a = torch.cat([hidden, torch.ones(count, 1)], 1).detach()
        A = a.mT @ a / count
        order = [o * (into + 1) + i for o in range(out) for i in range(into)] + [
            o * (into + 1) + into for o in range(out)
        ]
        K = torch.kron(grads, A)[order][:, order]
        eye = torch.eye(size)
        step = torch.linalg.solve(F + damping * eye, g)

        def cosine(matrix, g=g, step=step):
            return float(nn.functional.cosine_similarity(torch.linalg.solve(matrix, g), step, dim=0))

        exact = rows[number, kronecker_quality.EXACT]
        assert exact["error"] == pytest.approx(float((F - K).norm() / F.norm()), rel=1e-8)
        assert exact["cosine"] == pytest.approx(cosine(K + damping * eye), rel=1e-8)
        diagonal = rows[number, "diagonal"]
        D = torch.diag(F.diagonal())
        assert diagonal["error"] == pytest.approx(float((F - D).norm() / F.norm()), rel=1e-8)
        assert diagonal["cosine"] == pytest.approx(cosine(D + damping * eye), rel=1e-8)
        corrected = rows[number, "eigenkronecker"]
        U = torch.kron(torch.linalg.eigh(grads)[1], torch.linalg.eigh(A)[1])[order]
        E = U @ torch.diag((U.mT @ F @ U).diagonal()) @ U.mT
        assert corrected["error"] == pytest.approx(float((F - E).norm() / F.norm()), rel=1e-8)
        assert corrected["cosine"] == pytest.approx(cosine(E + damping * eye), rel=1e-8)
        # factored damping: (A + π √γ I) ⊗ (G + √γ / π I), π² = mean eigenvalue of A over that of G
        pi = math.sqrt(float(A.trace() / len(A)) / float(grads.trace() / len(grads)))
        damped = torch.kron(
            grads + math.sqrt(damping) / pi * torch.eye(out), A + pi * math.sqrt(damping) * torch.eye(into + 1)
        )[order][:, order]
        assert rows[number, kronecker_quality.FACTORED]["cosine"] == pytest.approx(cosine(damped), rel=1e-8)
        assert corrected["error"] <= exact["error"]
        hidden = torch.tanh(layer(hidden))
        start += size
    assert start == len(theta)
