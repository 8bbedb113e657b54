"""However an attention is written, it is captured whole or refused by its module's name."""

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn, softmax

from vitbook.analysis import attention_rollout, capture_attention

TOKENS, WIDTH, HEADS, DEPTH = 10, 12, 2, 12


def scores(q, k):
    return q @ k.mT / q.shape[-1] ** 0.5


def fused(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def exp_and_sum(q, k, v):
    raised = scores(q, k).exp()
    return raised / raised.sum(-1, keepdim=True) @ v


def less_the_largest(q, k, v):
    raised = scores(q, k)
    raised = (raised - raised.amax(-1, keepdim=True)).exp()
    return torch.matmul(raised.div(raised.sum(dim=-1, keepdim=True)), v)


def log_sum(q, k, v):
    s = scores(q, k)
    return torch.matmul((s - s.logsumexp(-1, keepdim=True)).exp(), v)


def einsums(q, k, v):
    s = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
    s = s.exp()
    return torch.einsum("bhqk,bhkd->bhqd", s / s.sum(-1, keepdim=True), v)


def in_place(q, k, v):
    s = scores(q, k)
    s.exp_()
    s /= s.sum(-1, keepdim=True)
    return s @ v


def of_aten(q, k, v):
    return torch.ops.aten._softmax(scores(q, k), -1, False) @ v


def by_numpy(q, k, v):
    raised = np.exp(scores(q, k).numpy())
    return torch.from_numpy(raised / raised.sum(-1, keepdims=True)) @ v


def plain(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


with warnings.catch_warnings(action="ignore"):  # on its way out of torch
    scripted = torch.jit.script(plain)


def by_script(q, k, v):
    return scripted(scores(q, k)) @ v


def log_softmax(q, k, v):
    return F.log_softmax(scores(q, k), dim=-1).exp() @ v


def bound_before(q, k, v):
    return softmax(scores(q, k), -1) @ v


def mixed_heads(q, k, v):
    weights = scores(q, k).softmax(-1)
    return (0.75 * weights + 0.25 * weights.roll(1, 1)) @ v


WHOLE = [
    exp_and_sum, less_the_largest, log_sum, einsums, in_place, of_aten, by_numpy, by_script,
    log_softmax, bound_before, mixed_heads,
]  # fmt: skip


def sigmoid(q, k, v):
    return scores(q, k).sigmoid() @ v / TOKENS


def rectified(q, k, v):
    return scores(q, k).relu().square() @ v


def divided_after(q, k, v):
    raised = scores(q, k).exp()
    return raised @ v / raised.sum(-1, keepdim=True)


def added(q, k, v):
    raised = scores(q, k).exp().flatten(0, 1)
    return torch.baddbmm(torch.zeros_like(v.flatten(0, 1)), raised, v.flatten(0, 1)).view_as(v)


def broadcast(q, k, v):
    raised = scores(q, k).exp()
    raised = raised / raised.sum(-1, keepdim=True)
    return (raised[..., None] * v[..., None, :, :]).sum(-2)


def folded(q, k, v):
    q, k, v = (part.flatten(0, 1) for part in (q, k, v))
    return exp_and_sum(q, k, v).unflatten(0, (-1, HEADS))


def head_by_head(q, k, v):
    """In two axes: one image and one head at a time."""

    def one(q, k, v):
        raised = scores(q, k).exp()
        return raised / raised.sum(-1, keepdim=True) @ v

    rows = [one(*each) for each in zip(*(part.flatten(0, 1) for part in (q, k, v)), strict=True)]
    return torch.stack(rows).view_as(v)


REFUSED = [sigmoid, rectified, divided_after, added, broadcast, folded, head_by_head]


class Mix(nn.Module):
    """A layer whose name says nothing."""

    def __init__(self, way):
        super().__init__()
        self.way, self.qkv, self.out = way, nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def parts(self, x):
        return rearrange(self.qkv(x), "b n (s h d) -> s b h n d", s=3, h=HEADS)

    def forward(self, x):
        return x + self.out(rearrange(self.way(*self.parts(x)), "b h n d -> b n (h d)"))


class Model(nn.Module):
    grid_size, num_prefix_tokens = (3, 3), 1

    def __init__(self, odd, way):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(*(Mix(way if odd == i else fused) for i in range(DEPTH)))

    def forward(self, x):
        return self.layers(x)


@torch.no_grad()
def true_maps(model, x):
    found = []
    for layer in model.layers:
        q, k, _ = layer.parts(x)
        weights = scores(q, k).softmax(-1)
        found.append(
            0.75 * weights + 0.25 * weights.roll(1, 1) if layer.way is mixed_heads else weights
        )
        x = layer(x)
    return found


@pytest.mark.parametrize("odd", [0, 5, DEPTH - 1])
@pytest.mark.parametrize("way", WHOLE)
def test_one_odd_layer_of_twelve_is_captured_whole(way, odd):
    model, x = Model(odd, way).eval(), torch.randn(2, TOKENS, WIDTH)
    with torch.no_grad():
        right = model(x)
        with capture_attention(model) as maps:
            assert torch.equal(model(x), right)
    assert list(maps) == [f"layers.{i}" for i in range(DEPTH)]
    for found, true in zip(maps.values(), true_maps(model, x), strict=True):
        torch.testing.assert_close(found, true, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("odd", [0, 5, DEPTH - 1])
@pytest.mark.parametrize("way", REFUSED)
def test_one_odd_layer_of_twelve_is_refused_by_its_name(way, odd):
    model, x = Model(odd, way).eval(), torch.randn(2, TOKENS, WIDTH)
    with (
        pytest.raises(RuntimeError, match=rf"11 attentions of Model.*layers\.{odd} \(Mix\) \w+"),
        torch.no_grad(),
        capture_attention(model),
    ):
        model(x)


class Other(nn.Module):
    """Products in a layer that are no attention between tokens."""

    def __init__(self, forward):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(TOKENS, TOKENS) / TOKENS)
        self.wide = nn.Parameter(torch.randn(WIDTH, TOKENS) / 10)
        self.way = forward

    def forward(self, x):
        return x + self.way(self, x)


OTHERS = {
    "a mixer of tokens": lambda own, x: own.weight @ x,
    "a view of its weights": lambda own, x: own.weight.T.softmax(-1) @ x,
    "as many channels as tokens": lambda own, x: (x @ own.wide).relu() @ own.wide.T,
    "linear attention": lambda own, x: F.elu(x) @ (F.elu(x).mT @ x) / 100,
    "between channels": lambda own, x: x @ (x.mT @ x) / 100,
    "a sorting of tokens": lambda own, x: torch.eye(TOKENS).flip(0).expand(2, -1, -1) @ x,
    "a mean": lambda own, x: x.mean(1, keepdim=True).expand_as(x),
}


@pytest.mark.parametrize("way", OTHERS.values(), ids=OTHERS)
def test_what_is_no_attention_is_none(way):
    model = nn.Sequential(Mix(fused), Other(way), Mix(exp_and_sum))
    with torch.no_grad(), capture_attention(model) as maps:
        model(torch.randn(2, TOKENS, WIDTH))
    assert list(maps) == ["0", "2"]


def test_rollout_goes_through_the_layer_that_was_left_out():
    model, x = Model(5, exp_and_sum).eval(), torch.randn(2, TOKENS, WIDTH)
    plain = Model(None, fused).eval()
    plain.load_state_dict(model.state_dict())
    tokens = dict(grid_size=(3, 3), num_prefix_tokens=1)
    with torch.no_grad():
        found, right = [], []
        for each, into in ((model, found), (plain, right)):
            with capture_attention(each) as maps:
                each(x)
            into.append(attention_rollout(maps, query=0, **tokens))
    torch.testing.assert_close(found, right, atol=1e-5, rtol=1e-4)
