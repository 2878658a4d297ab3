"""Terms: which axis holds the classes, whose row is whose, and what does not fit."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from paraboloid.spaces.likelihoods import (
    Bernoulli,
    Categorical,
    GaussianLikelihood,
    HeteroscedasticGaussian,
    LogDensity,
    Poisson,
    likelihood,
)
from paraboloid.spaces.terms import terms


def test_classes_on_axis_1_as_in_cross_entropy(device):
    out, y = torch.randn(2, 3, 4, 5, device=device), torch.randint(3, (2, 4, 5), device=device)
    rows = terms(out, y, Categorical())
    assert rows.outputs.shape == (40, 3)
    assert_close(Categorical().nll(rows.outputs, rows.targets).mean(), F.cross_entropy(out, y))
    assert torch.equal(rows.example, torch.arange(2, device=device).repeat_interleave(20))
    assert torch.equal(rows.position, torch.arange(20, device=device).repeat(2))


def test_classes_on_the_last_axis_as_in_language_models(device):
    out, y = torch.randn(2, 4, 7, device=device), torch.randint(7, (2, 4), device=device)
    rows = terms(out, y, Categorical())
    assert torch.equal(rows.outputs, out.reshape(8, 7))
    assert torch.equal(rows.targets, y.reshape(8))
    assert (rows.examples, rows.count) == (2, 8.0)


def test_where_two_axes_fit_the_user_says_which():
    out, y = torch.randn(2, 3, 3), torch.randint(3, (2, 3))
    with pytest.raises(ValueError, match=r"fit with the classes on axis 1 and on axis 2.*class_axis="):
        terms(out, y, Categorical())
    assert torch.equal(terms(out, y, Categorical(class_axis=-1)).outputs, out.reshape(6, 3))
    assert torch.equal(terms(out, y, Categorical(class_axis=1)).outputs, out.mT.reshape(6, 3))
    with pytest.raises(ValueError, match="class_axis should name an axis 1 to 2 .* found 3"):
        terms(out, y, Categorical(class_axis=3))


def test_ignored_rows_are_dropped_and_the_others_keep_their_example():
    y = torch.tensor([[-100, 1, 2], [-100, -100, -100], [0, -100, 1]])
    out = torch.randn(3, 3, 4)
    weights = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    rows = terms(out, y, Categorical(), weights)
    assert rows.targets.tolist() == [1, 2, 0, 1]
    assert rows.example.tolist() == [0, 0, 2, 2]
    assert rows.position.tolist() == [0, 1, 0, 1]
    assert rows.weights.tolist() == [2, 3, 7, 9]
    assert (rows.examples, rows.count) == (3, 21.0)
    assert torch.equal(rows.outputs, torch.stack([out[0, 1], out[0, 2], out[2, 0], out[2, 2]]))
    other = terms(out, y.clamp(min=-1), Categorical(ignore_index=-1))
    assert other.targets.tolist() == [1, 2, 0, 1]


def test_all_rows_may_be_ignored():
    rows = terms(torch.randn(2, 3), torch.full((2,), -100), Categorical())
    assert rows.outputs.shape == (0, 3)
    assert (rows.count, rows.examples) == (0.0, 2)


def test_rows_are_differentiable():
    out = torch.randn(2, 3, 4, requires_grad=True)
    y = torch.tensor([[0, 1, -100, 2], [1, 1, 1, 1]])
    rows = terms(out, y, Categorical())
    (g,) = torch.autograd.grad(Categorical().nll(rows.outputs, rows.targets).sum(), out)
    (expected,) = torch.autograd.grad(F.cross_entropy(out, y, reduction="sum"), out)
    assert_close(g, expected)


def test_soft_targets_carry_the_class_axis():
    out = torch.randn(4, 3)
    q = torch.rand(4, 3).softmax(1)
    assert torch.equal(terms(out, q, Categorical()).targets, q)
    images, maps = torch.randn(2, 3, 5), torch.rand(2, 3, 5).softmax(1)
    rows = terms(images, maps, Categorical(class_axis=1))
    assert_close(Categorical().nll(rows.outputs, rows.targets).mean(), F.cross_entropy(images, maps))
    with pytest.raises(ValueError, match="class_axis="):
        terms(images, maps, Categorical())


@pytest.mark.parametrize(
    ("out", "y"), [((4, 1), (4,)), ((4,), (4,)), ((4,), (4, 1)), ((4, 1), (4, 1)), ((2, 2, 1), (2, 2))]
)
@pytest.mark.parametrize("name", ["gaussian", "mse", "bernoulli", "poisson"])
def test_one_output_is_never_broadcast(name, out, y):
    """(N, 1) - (N,) is (N, N) in PyTorch: the commonest silent error of regression."""
    rows = terms(torch.arange(4.0).reshape(out), torch.tensor([0, 1, 1, 0]).reshape(y), likelihood(name))
    assert rows.outputs.shape == rows.targets.shape == (4, 1)
    assert rows.targets.flatten().tolist() == [0, 1, 1, 0]


def test_dense_outputs_have_their_numbers_last():
    out, y = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    rows = terms(out, y, GaussianLikelihood())
    assert torch.equal(rows.outputs, out.reshape(6, 4))
    assert rows.example.tolist() == [0, 0, 0, 1, 1, 1]
    assert_close(
        GaussianLikelihood("mse").gradient(rows.outputs, rows.targets).reshape(2, 3, 4) / 6,
        torch.func.grad(lambda out: F.mse_loss(out, y))(out),
    )


def test_predicted_noise_has_two_outputs_per_number():
    out = torch.cat([torch.randn(4, 3), -torch.rand(4, 3) - 0.1], 1)
    assert terms(out, torch.randn(4, 3), HeteroscedasticGaussian()).targets.shape == (4, 3)
    assert terms(out[:, 2:4], torch.randn(4), HeteroscedasticGaussian()).targets.shape == (4, 1)
    with pytest.raises(ValueError, match=r"\(..., 2D\) for targets \(..., D\).* \(4, 6\) and targets \(4, 6\)"):
        terms(out, torch.randn(4, 6), HeteroscedasticGaussian())
    with pytest.raises(ValueError, match=r"η2 = -1/\(2σ²\), should be negative; found .*softplus"):
        terms(-out, torch.randn(4, 3), HeteroscedasticGaussian())


def test_weights_per_term_and_per_example():
    out, y = torch.randn(2, 3, 5), torch.randint(5, (2, 3))
    assert terms(out, y, Categorical(), torch.tensor([1, 2])).weights.tolist() == [1, 1, 1, 2, 2, 2]
    assert terms(out, y, Categorical(), torch.arange(6).reshape(2, 3)).weights.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match=r"one per example \(2,\) or one per term \(2, 3\), found \(3,\)"):
        terms(out, y, Categorical(), torch.ones(3))
    with pytest.raises(ValueError, match=r"not negative, found -1 \(1 of 6\)|not negative, found -1 \(3 of 6\)"):
        terms(out, y, Categorical(), torch.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match="finite and not negative, found nan"):
        terms(out, y, Categorical(), torch.tensor([1.0, float("nan")]))


def test_half_precision_outputs_become_float32_rows():
    assert (
        terms(torch.zeros(2, 3, dtype=torch.bfloat16), torch.zeros(2).long(), Categorical()).outputs.dtype
        == torch.float32
    )
    assert terms(torch.zeros(2, 3), torch.zeros(2).long(), Categorical()).outputs.dtype == torch.float64


def test_log_densities_take_the_rest_of_the_target():
    rows = terms(torch.randn(2, 3, 4), torch.randn(2, 3, 5), LogDensity(lambda h, y: -((h.sum() - y.sum()) ** 2)))
    assert rows.targets.shape == (6, 5)


REFUSED = [
    (
        Categorical(),
        (4, 3),
        torch.tensor([0, 1, 3, 7]),
        r"0 to 2, for the outputs have 3 classes; found 3 \(2 of 4",
    ),
    (Categorical(), (4, 3), torch.tensor([0, 1, -1, 2]), "found -1"),
    (Categorical(), (4, 3), torch.randn(4), '"gaussian" or "mse" for real numbers'),
    (Categorical(), (4, 3), torch.ones(4, 1).long(), r"Use targets.squeeze\(-1\)"),
    (
        Categorical(),
        (4, 3),
        torch.ones(4).bool(),
        r'found torch.bool. Use targets.long\(\), or likelihood="bernoulli"',
    ),
    (Categorical(), (4, 3), torch.eye(4, 3).long(), "one-hot integers as targets.argmax"),
    (Categorical(), (4, 3), torch.randn(4, 3), "non-negative and sum to 1; found a row with smallest entry"),
    (Categorical(), (4, 3), torch.full((4, 3), float("nan")), "categorical targets should be finite"),
    (Categorical(), (4, 1), torch.zeros(4).long(), 'C = 1: its softmax is always 1.*"bernoulli"'),
    (Categorical(), (4,), torch.zeros(4).long(), 'should have a class axis.*likelihood="bernoulli"'),
    (Categorical(), (4, 3, 5), torch.zeros(4, 2).long(), "say where the classes are by class_axis="),
    (
        Bernoulli(),
        (4, 3),
        torch.tensor([0, 1, 2, 0]),
        'Integer class labels go with likelihood="categorical"',
    ),
    (Bernoulli(), (4, 1), torch.tensor([0, 1, 2, 0]), r'found 2 \(1 of 4.*likelihood="categorical"'),
    (Bernoulli(), (4, 1), torch.tensor([1, -1, 1, 1]), r"found -1 .*signs ±1 as \(targets \+ 1\) / 2"),
    (GaussianLikelihood(), (4, 3), torch.tensor([0, 1, 2, 0]), 'likelihood="categorical"'),
    (
        GaussianLikelihood(),
        (4, 3),
        torch.randn(4),
        r"shaped like the outputs, \(4, 3\); found \(4,\).*nothing is broadcast",
    ),
    (
        GaussianLikelihood(),
        (4, 1),
        torch.tensor([0.0, float("inf"), 1.0, 1.0]),
        "finite; found 1 NaN or infinite among 4",
    ),
    (Poisson(), (4, 1), torch.tensor([0.0, 1.5, 2.0, 3.0]), r"counts 0, 1, 2, …; found 1.5 \(1 of 4"),
    (Poisson(), (4, 1), torch.tensor([0, -1, 2, 3]), "found -1"),
    (
        Categorical(),
        (4, 3),
        torch.zeros(5).long(),
        r"same number of examples on axis 0; found outputs \(4, 3\)",
    ),
    (Categorical(), (), torch.zeros(4).long(), "one number without axes"),
]


@pytest.mark.parametrize(("lik", "shape", "y", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_does_not_fit_is_named_with_the_way_out(lik, shape, y, message):
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        terms(torch.randn(shape), y, lik)


def test_things_that_are_no_tensors_are_refused():
    with pytest.raises(TypeError, match="outputs and targets should be tensors, found Tensor and list"):
        terms(torch.zeros(2, 3), [0, 1], Categorical())
    with pytest.raises(TypeError, match="outputs should be real and floating, found torch.int64"):
        terms(torch.zeros(2, 3).long(), torch.zeros(2).long(), Categorical())


def test_values_are_looked_at_only_when_asked():
    bad = torch.tensor([0, 9])
    assert terms(torch.zeros(2, 3), bad, Categorical(), check=False).targets.tolist() == [0, 9]
