"""The papers' networks: as many parameters as a count by hand gives, sane when new, and fit for every precision."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import paraboloid
from paraboloid.recipes import models

# Linear a → b: (a + 1) b. Convolution: k² · in · out (+ out). A norm: 2 per channel.
COUNTS = {
    "autoencoder": 785 * 1000 + 1001 * 500 + 501 * 250 + 251 * 30 + 31 * 250 + 251 * 500 + 501 * 1000 + 1001 * 784,
    "mixture": 785 * 1000 + 1001 * 500 + 501 * 250 + 251 * 30 + 31 * 3,
    "toy": 78,  # printed in the thesis
    "griewank": 3 * 100 + 101 * 100 + 101,
    "projected-40": 11 * 40 + 41 * 10,
    "mnist-100": 785 * 100 + 101 * 100 + 101 * 10,
    "mnist-1024": 785 * 1024 + 1025 * 1024 + 1025 * 10,
    "strided": 3490,  # printed in the paper
    "lenet": 26 * 6 + (25 * 6 + 1) * 16 + 401 * 120 + 121 * 84 + 85 * 10,
    "five-sets": (25 * 3 + 1) * 20 + (25 * 20 + 1) * 50 + 1251 * 500 + 501 * 10,
    "alexnet": 25 * (3 + 64) * 64 + 4 * 64 + (4096 + 2) * 384 + (384 + 2) * 192 + 193 * 10,
    # 3·64 + 64·64, then 2, 4, 8 and 8 times as wide in units of 64² · 9; 4,224 normalised channels
    "vgg16": 9 * (3 * 64 + 64**2 * (1 + 2 + 4 + 8 + 16 + 16 + 32 + 64 + 64 + 3 * 64)) + 2 * 4224 + 513 * 10,
    # one stage: (in + (2n − 1) out) · out · 9; 2n norms, and one more at the start
    "resnet20": 9 * (48 + 6 * 16 * 16 + (16 + 5 * 32) * 32 + (32 + 5 * 64) * 64) + 2 * (16 * 7 + 32 * 6 + 64 * 6) + 650,
    "resnet20-bias": 269_722 + 16 * 7 + 32 * 6 + 64 * 6 + 65 * 90,  # with biases and 90 more classes
    "resnet44": 658_586,  # 0.66 million in the paper that introduced it
    "resnet44x2": 9 * (96 + 14 * 32**2 + (32 + 13 * 64) * 64 + (64 + 13 * 128) * 128)
    + 2 * (32 * 15 + 64 * 14 + 128 * 14)
    + 12_900,
    # stem; branches; shortcuts 1×1, 2×2, 2×2; norms; head
    "wide-resnet22-8": 432
    + 9 * ((16 + 5 * 128) * 128 + (128 + 5 * 256) * 256 + (256 + 5 * 512) * 512)
    + 16 * 128 + 4 * 128 * 256 + 4 * 256 * 512
    + 2 * (16 + 5 * 128 + 128 + 5 * 256 + 256 + 5 * 512 + 512)
    + 51_300,
}  # fmt: skip
SMALL = {
    "alexnet": {"width": 4},
    "vgg16": {"width": 4},
    "resnet20": {"depth": 8},
    "resnet20-bias": {"depth": 8},
    "resnet44": {"depth": 14, "width": 4},
    "resnet44x2": {"depth": 14, "width": 8, "shortcut": "project"},
    "wide-resnet22-8": {"depth": 10, "width": 1},
    "mnist-1024": {"widths": (784, 64, 64, 10)},
}
TABLE = models.table()
CLASSIFIERS = [name for name in TABLE if name not in ("autoencoder", "mixture", "toy", "griewank")]
IMAGES = [name for name in CLASSIFIERS if len(TABLE[name].shape) == 3 and not name.startswith("mnist")]


def small(name: str, generator: torch.Generator, **options) -> nn.Module:
    """The architecture, narrow or shallow where it is large."""
    return TABLE[name].build(generator, **{**SMALL.get(name, {}), **options})


def inputs(name: str, count: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(count, *TABLE[name].shape, generator=generator, device=generator.device)


def size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_every_network_is_counted():
    assert set(COUNTS) == set(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_parameters_are_as_many_as_by_hand(name, generator):
    assert size(TABLE[name].build(generator)) == COUNTS[name]


def test_the_resnet_that_everybody_counts_has_269722_parameters(generator):
    assert COUNTS["resnet20"] == 269_722


@pytest.mark.parametrize("name", TABLE)
def test_new_networks_give_outputs_of_a_sane_scale(name, generator, single_precision):
    network = TABLE[name].build(generator)
    with torch.no_grad():
        out = network(inputs(name, 4, generator))
    assert out.shape == (4, TABLE[name].outputs)
    assert 0.1 < out.square().mean().sqrt() < 10


def test_residual_networks_without_norms_keep_the_scale_too(generator, single_precision):
    network = models.resnet(44, norm="none", bias=True, generator=generator)
    assert 0.1 < network(inputs("resnet44", 8, generator)).square().mean().sqrt() < 10


@pytest.mark.parametrize("name", TABLE)
def test_building_draws_from_the_generator_only(name, generator):
    before = torch.get_rng_state()
    first, second = (small(name, torch.Generator(generator.device).manual_seed(5)).state_dict() for _ in range(2))
    other = small(name, torch.Generator(generator.device).manual_seed(6)).state_dict()
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(first[key], second[key]) for key in first)
    weights = [key for key in first if key.endswith("weight") and first[key].ndim > 1]
    assert weights and not any(torch.equal(first[key], other[key]) for key in weights)


@pytest.mark.parametrize(("activation", "variance"), [("relu", 2 / 300), ("tanh", 2 / 500), ("sigmoid", 2 / 500)])
def test_weights_have_the_variance_that_the_activation_wants(activation, variance, generator):
    """He: 2 / fan_in; Glorot: 2 / (fan_in + fan_out). The relative error of a variance of n draws is under √(2/n)."""
    weight = models.mlp((300, 200, 1), activation=activation, generator=generator)[1].weight
    assert abs(weight.var().item() / variance - 1) < 5 * (2 / weight.numel()) ** 0.5


@pytest.mark.parametrize("name", IMAGES)
def test_channels_last_changes_nothing(name, generator):
    network, x = small(name, generator).eval(), inputs(name, 2, generator)
    plain = network(x)
    there = network.to(memory_format=torch.channels_last)(x.to(memory_format=torch.channels_last))
    assert torch.allclose(there, plain, atol=1e-10)


@pytest.mark.parametrize("name", TABLE)
def test_bfloat16_gives_the_outputs_of_float32_to_its_precision(name, generator, single_precision):
    network, x = small(name, generator), inputs(name, 4, generator)
    with torch.no_grad():
        plain = network(x)
        with torch.autocast(generator.device.type, torch.bfloat16):
            there = network(x)
    assert (there - plain).square().mean() < 0.05**2 * plain.square().mean()


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_curvature_of_every_classifier_has_kronecker_factors(name, generator):
    network, x = small(name, generator).eval(), inputs(name, 2, generator)
    y = torch.tensor([0, 1], device=x.device)
    found = paraboloid.curvature(
        network, (x, y), likelihood="categorical", structure="kronecker", estimate="sampled", generator=generator
    )
    assert found.shape[0] == size(network) and found.trace() > 0


def test_ghost_batches_are_normalised_like_small_batches_one_after_another(generator):
    x = torch.randn(14, 3, 4, 4, generator=generator, device=generator.device)
    ghost, plain = models.GhostBatchNorm(3, 4).to(x.device), nn.BatchNorm2d(3).to(x.device)
    for norm in (ghost, plain):
        with torch.no_grad():
            norm.weight.copy_(torch.tensor([1.0, 2.0, 3.0]))
            norm.bias.copy_(torch.tensor([0.5, 0.0, 1.0]))
    expected = torch.cat([plain(part) for part in x.split(4)])
    assert torch.allclose(ghost(x), expected, atol=1e-12)
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(ghost.buffers(), plain.buffers(), strict=True))
    assert torch.allclose(ghost.eval()(x), plain.eval()(x), atol=1e-12)


def test_ghost_statistics_stay_float32_under_autocast(generator, single_precision):
    x = torch.randn(256, 3, generator=generator, device=generator.device)
    ghost, plain = models.GhostBatchNorm(3, 8).to(x.device), nn.BatchNorm1d(3).to(x.device)
    with torch.autocast(generator.device.type, torch.bfloat16):
        ghost(x)
        for part in x.split(8):
            plain(part)
    assert torch.allclose(ghost.running_var, plain.running_var, atol=1e-5)


@pytest.mark.parametrize("name", ["alexnet", "vgg16", "resnet44", "wide-resnet22-8", "lenet"])
def test_ghost_batches_of_the_whole_batch_are_a_batch_norm(name, generator):
    seeds = [torch.Generator(generator.device).manual_seed(1) for _ in range(2)]
    norm = {"norm": "batch"} if name == "lenet" else {}
    plain, ghost = small(name, seeds[0], **norm), small(name, seeds[1], ghost=6, **norm)
    x = inputs(name, 6, generator)
    assert torch.allclose(plain(x), ghost(x), atol=1e-10)


def test_the_shortcut_that_pads_adds_the_input_to_the_middle_channels(generator):
    """A stage's first block whose branch gives zero is the ReLU of every second pixel, among zero channels."""
    network = models.resnet(8, width=2, generator=generator)
    block = network[4]
    nn.init.zeros_(block.branch[-1].weight)
    x = torch.randn(1, 2, 4, 4, generator=generator, device=generator.device)
    out = block(x)
    assert torch.equal(out[:, 1:3], x[:, :, ::2, ::2].relu()) and not out[:, [0, 3]].any()


def test_resnet20_has_nineteen_convolutions_and_the_biased_one_a_bias_in_each(generator):
    convolutions = [part for part in TABLE["resnet20-bias"].build(generator).modules() if isinstance(part, nn.Conv2d)]
    assert len(convolutions) == 19 and all(part.bias is not None for part in convolutions)


def test_the_wide_network_goes_down_by_two_by_two_shortcuts(generator):
    network = TABLE["wide-resnet22-8"].build(generator)
    shortcuts = [part.shortcut for part in network if getattr(part, "shortcut", None) is not None]
    assert [part.kernel_size for part in shortcuts] == [(1, 1), (2, 2), (2, 2)]
    assert [part.stride for part in shortcuts] == [(1, 1), (2, 2), (2, 2)]


def test_dropout_stands_on_hidden_layers_only(generator):
    assert sum(isinstance(part, nn.Dropout) for part in models.mlp((3, 4, 4, 2), dropout=0.5, generator=generator)) == 2
    wide = models.wide_resnet(10, 1, dropout=0.3, generator=generator)
    assert [part.p for part in wide.modules() if isinstance(part, nn.Dropout)] == [0.3] * 3


def test_tasks_share_their_body_and_have_their_own_heads(generator):
    network = models.five_sets_lenet(generator=generator)
    first, second = network.task(0), network.task(1)
    assert [name for name, _ in first.named_parameters()] == [name for name, _ in second.named_parameters()]
    x, y = inputs("five-sets", 2, generator), torch.tensor([0, 1], device=generator.device)
    F.cross_entropy(first(x), y).backward()
    assert network.heads[0].weight.grad is not None and network.heads[1].weight.grad is None
    assert second[0][0].weight.grad is first[0][0].weight.grad


def test_what_cannot_be_built_is_refused_by_name(generator):
    with pytest.raises(ValueError, match="`activation` should be one of relu, tanh, sigmoid; found 'gelu'"):
        models.mlp((2, 2, 2), activation="gelu", generator=generator)
    with pytest.raises(ValueError, match="`depth` should be 6n \\+ 2, as 20, 32 or 44; found 21"):
        models.resnet(21, generator=generator)
    with pytest.raises(ValueError, match="`depth` should be 6n \\+ 4, as 16, 22 or 28; found 20"):
        models.wide_resnet(20, generator=generator)
    with pytest.raises(ValueError, match='`shortcut` should be "pad" or "project"; found \'none\''):
        models.resnet(8, shortcut="none", generator=generator)
    with pytest.raises(ValueError, match='`norm` should be "batch" or "none" \\(without ghost batches\\)'):
        models.resnet(8, norm="none", ghost=4, generator=generator)
    with pytest.raises(ValueError, match="`ghost` should be the size of a ghost batch, at least 2; found 1"):
        models.GhostBatchNorm(3, 1)
    with pytest.raises(ValueError, match="`widths` should go from the inputs to the outputs"):
        models.mlp((2,), generator=generator)
    with pytest.raises(ValueError, match="`task` should be from 0 to 4, found 5"):
        models.five_sets_lenet(generator=generator).task(5)
    with pytest.raises(TypeError, match="`generator` should be a torch.Generator, found int"):
        models.mlp((2, 2), generator=0)
    with pytest.raises(TypeError, match="should be a Linear, a Conv2d or a batch norm; found Embedding"):
        models.initialised(lambda: nn.Sequential(nn.Embedding(2, 2)), generator)
