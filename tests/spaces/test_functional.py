"""A model as a function of its weights; settings of PyTorch that come back; modes that are refused."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from paraboloid.spaces.functional import call, kernels, model_output, predict_many, require_eval
from paraboloid.spaces.params import Params


def settings() -> tuple:
    return (
        torch.backends.mha.get_fastpath_enabled(),
        torch.backends.cudnn.enabled,
        torch.backends.mkldnn.enabled,
        torch.backends.cudnn.allow_tf32,
        torch.backends.mkldnn.deterministic,
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(),
    )


def test_recurrent_models_leave_the_fused_kernels_and_others_do_not():
    before = settings()
    with kernels(nn.Sequential(nn.Linear(2, 2), nn.GRU(2, 2))):
        assert (torch.backends.cudnn.enabled, torch.backends.mkldnn.enabled) == (False, False)
    with kernels(nn.Linear(2, 2)):
        assert (torch.backends.cudnn.enabled, torch.backends.mkldnn.enabled) == before[1:3]
        assert not torch.backends.mha.get_fastpath_enabled()
    assert settings() == before


def test_forward_mode_takes_the_plain_attention():
    before = settings()
    with kernels(nn.Linear(2, 2), forward_mode=True):
        assert not torch.backends.cuda.flash_sdp_enabled()
        assert torch.backends.cuda.math_sdp_enabled()
    with kernels(nn.Linear(2, 2)):
        assert torch.backends.cuda.flash_sdp_enabled() == before[5]
    assert settings() == before


def test_settings_come_back_after_an_exception_and_when_nested():
    before = settings()
    model = nn.LSTM(2, 2)
    with pytest.raises(RuntimeError, match="inside"), kernels(model, forward_mode=True), kernels(model):
        raise RuntimeError("inside")
    assert settings() == before


def test_settings_of_the_user_are_kept():
    before = settings()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        torch.backends.mkldnn.enabled = False
        with kernels(nn.LSTM(2, 2)):
            pass
        assert not torch.backends.mha.get_fastpath_enabled()
        assert not torch.backends.mkldnn.enabled
    finally:
        torch.backends.mha.set_fastpath_enabled(before[0])
        torch.backends.mkldnn.enabled = before[2]


def test_the_graph_of_a_recurrent_net_is_whole_inside():
    """Oracle: the name of the fused node, which is there without the context in float32."""
    model = nn.LSTM(2, 3).float()
    x = torch.randn(4, 1, 2, dtype=torch.float32)

    def names(node, seen):
        if node is None or node in seen:
            return set()
        seen.add(node)
        return {type(node).__name__}.union(*(names(nxt, seen) for nxt, _ in node.next_functions))

    with kernels(model):
        inside = names(model(x)[0].grad_fn, set())
    assert not any("Mkldnn" in name or "Cudnn" in name for name in inside)


def test_call_replaces_tied_weights_together(device):
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)).to(device)
    model[1].weight = model[0].weight
    x, W = torch.randn(2, 3, device=device), torch.randn(3, 3, device=device)
    assert_close(call(model, {"0.weight": W}, (x,), {}), x @ W.mT @ W.mT)


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_predictions_of_many_weights_equal_one_model_each(device, chunk_size):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(device)
    params = Params.of(model, "2.*")
    flat, x = torch.randn(5, params.numel, device=device), torch.randn(7, 3, device=device)
    expected = []
    for vector in flat:
        other = copy.deepcopy(model)
        other.load_state_dict(params.unflatten(vector), strict=False)
        expected.append(other(x))
    assert_close(predict_many(model, params, flat, (x,), {}, chunk_size=chunk_size), torch.stack(expected))


class Branching(nn.Module):
    """A forward that looks at values, which vmap cannot do."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return x * self.w if self.w.item() > 0 else -x * self.w


@pytest.mark.parametrize("single", [Branching, lambda: nn.GRU(3, 3).eval()], ids=["branching", "recurrent"])
def test_models_without_a_batched_form_are_looped_over(single):
    model = single()
    params = Params.of(model)
    flat, x = torch.randn(4, params.numel), torch.randn(2, 5, 3)
    output = (lambda out: out[0]) if isinstance(model, nn.GRU) else model_output
    many = predict_many(model, params, flat, (x,), {}, output=output)
    expected = torch.stack([output(call(model, params.unflatten(v), (x,), {})) for v in flat])
    assert_close(many, expected)


def test_predictions_leave_buffers_weights_and_random_state_alone():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)).train()
    before = copy.deepcopy(model.state_dict())
    params = Params.of(model)
    state = torch.get_rng_state()
    predict_many(model, params, torch.ones(2, params.numel), (torch.arange(12.0).reshape(4, 3),), {})
    assert torch.equal(torch.get_rng_state(), state)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_predictions_can_be_differentiated_and_keep_the_models_dtype():
    model = nn.Linear(2, 1).float()
    params = Params.of(model)
    flat = torch.randn(3, params.numel, dtype=torch.float64).requires_grad_()
    out = predict_many(model, params, flat, (torch.ones(1, 2, dtype=torch.float32),), {})
    assert out.dtype == torch.float32
    out.sum().backward()
    assert_close(flat.grad, torch.ones_like(flat))


def test_an_error_of_the_model_itself_is_shown():
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        predict_many(nn.Linear(2, 1), Params.of(nn.Linear(2, 1)), torch.zeros(2, 3), (torch.zeros(1, 4),), {})
    with pytest.raises(ValueError, match=r"\(K, P\) = \(K, 3\), found shape \(3,\)"):
        predict_many(nn.Linear(2, 1), Params.of(nn.Linear(2, 1)), torch.zeros(3), (torch.zeros(1, 2),), {})


def test_forms_of_output():
    t = torch.zeros(2, 3)
    for out in (t, SimpleNamespace(logits=t), {"logits": t, "loss": None}, (t,)):
        assert model_output(out) is t
    for out, found in ((t, t), "a tuple of 2"), ({"a": t}, "dict with the keys a"), (3, "int"):
        with pytest.raises(TypeError, match=f"found {found}.*outputs="):
            model_output(out)


COUPLED = [
    (nn.BatchNorm1d(2), "BatchNorm1d"),
    (nn.SyncBatchNorm(2), "SyncBatchNorm"),
    (nn.Dropout(0.1), "Dropout, p = 0.1"),
    (nn.Dropout2d(0.1), "Dropout2d"),
    (nn.AlphaDropout(0.1), "AlphaDropout"),
    (nn.FeatureAlphaDropout(0.1), "FeatureAlphaDropout"),
    (nn.MultiheadAttention(2, 1, dropout=0.1), "MultiheadAttention, p = 0.1"),
    (nn.LSTM(2, 2, num_layers=2, dropout=0.1), "LSTM, p = 0.1"),
]


@pytest.mark.parametrize(("module", "named"), COUPLED, ids=[named for _, named in COUPLED])
def test_training_mode_is_refused_by_the_modules_name(module, named):
    model = nn.Sequential(nn.Linear(2, 2), module)
    with pytest.raises(RuntimeError, match=rf"1 \({named}.*\s*Call model.eval\(\) first"):
        require_eval(model.train())
    require_eval(model.eval())
    assert not model.training


def test_training_mode_of_harmless_modules_is_fine():
    harmless = [nn.Linear(2, 2), nn.Dropout(0.0), nn.InstanceNorm1d(2), nn.LSTM(2, 2), nn.GroupNorm(1, 2)]
    require_eval(nn.ModuleList(harmless).train())
    frozen = nn.Sequential(nn.BatchNorm1d(2)).train()
    frozen[0].eval()
    require_eval(frozen)


def test_a_batch_norm_without_running_statistics_couples_examples_even_in_eval_mode():
    model = nn.Sequential(nn.BatchNorm1d(2, track_running_stats=False)).eval()
    with pytest.raises(RuntimeError, match="even in eval mode: 0 .BatchNorm1d.*track_running_stats=True"):
        require_eval(model)
