"""Attention in every way that a model may write it, each held against weights by hand."""

import threading
import warnings

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vitbook.analysis import capture_attention
from vitbook.analysis.capture.record import record_attention

HEADS, TOKENS, WIDTH = 3, 5, 24


class Layer(nn.Module):
    """A layer whose ``mix`` is the function under test."""

    def __init__(self, mix, **settings):
        super().__init__()
        self.qkv, self.mix, self.settings = nn.Linear(WIDTH, 3 * WIDTH), mix, settings

    def project(self, tokens):
        return rearrange(self.qkv(tokens), "b n (three h d) -> three b h n d", three=3, h=HEADS)

    def forward(self, tokens):
        return self.mix(*self.project(tokens), **self.settings)


class NamedAttention(Layer):
    pass


def scores(q, k):
    return q @ k.mT * q.shape[-1] ** -0.5


def fused(q, k, v, **settings):
    return F.scaled_dot_product_attention(q, k, v, **settings)


def plain(q, k, v):
    return scores(q, k).softmax(-1) @ v


def with_dropout(q, k, v):
    return torch.matmul(F.dropout(F.softmax(scores(q, k), dim=-1), 0.5, training=True), v)


def cast(q, k, v):
    return torch.softmax(scores(q, k), dim=-1, dtype=torch.float64).to(q.dtype).contiguous() @ v


def transposed(q, k, v):
    return (v.mT @ scores(q, k).softmax(-1).transpose(-2, -1)).mT


def other_order(q, k, v):
    weights = torch.softmax(scores(q, k), 3)
    return torch.einsum("b h q k, b h k d -> b q h d", weights, v).transpose(1, 2)


def values_first(q, k, v):
    weights = scores(q, k).softmax(dim=-1)
    return torch.einsum("bkhd,bhqk->bhqd", v.transpose(1, 2), weights)


def folded(q, k, v):
    q, k, v = (rearrange(part, "b h n d -> (b h) n d") for part in (q, k, v))
    mixed = torch.bmm(F.softmax(torch.bmm(q, k.mT) * q.shape[-1] ** -0.5, dim=-1), v)
    return rearrange(mixed, "(b h) n d -> b h n d", h=HEADS)


def folded_and_fused(q, k, v):
    q, k, v = (rearrange(part, "b h n d -> (b h) n d") for part in (q, k, v))
    return rearrange(F.scaled_dot_product_attention(q, k, v), "(b h) n d -> b h n d", h=HEADS)


def reshaped(q, k, v):
    weights = scores(q, k).softmax(-1).view(-1, TOKENS, TOKENS)
    return torch.bmm(weights, v.reshape(-1, TOKENS, v.shape[-1])).view_as(q)


def keywords(q, k, v):
    weights = torch.softmax(input=scores(q, k), dim=-1)
    torch.zeros(size=(1, 2, 3))
    return torch.matmul(input=weights, other=v)


def permuted(q, k, v):
    return torch.matmul(v.permute(0, 1, 3, 2), scores(q, k).softmax(-1).permute(0, 1, 3, 2)).mT


def looked_up(q, k, v):
    weights = scores(q, k).clamp(-50, 50).masked_fill(torch.zeros(5, 5).bool(), -1e9).softmax(-1)
    return torch.unsqueeze(weights, 0).squeeze(0).double().to(v.dtype) @ v


WAYS = [
    plain, with_dropout, cast, transposed, other_order, values_first, keywords, permuted,
    looked_up, fused,
]  # fmt: skip


@pytest.mark.parametrize("mix", WAYS)
@pytest.mark.parametrize("grad", [False, True])
def test_however_it_is_written(mix, grad):
    torch.manual_seed(0)
    layer, tokens = NamedAttention(mix), torch.randn(2, TOKENS, WIDTH)
    calls = []
    with torch.set_grad_enabled(grad), record_attention(layer, calls.append):
        mixed = layer(tokens)
    (call,) = calls
    q, k, v = layer.project(tokens)
    weights = scores(q, k).softmax(-1)
    assert call.shape == (2, HEADS, TOKENS, TOKENS) and call.path == ""
    assert (call.weights() - weights).abs().max() < 1e-6 and not call.weights().requires_grad
    part = call.weights(slice(1, 2), slice(2, 4))
    assert torch.equal(part, call.weights()[1:2, :, 2:4])
    assert torch.allclose(call.v, v, atol=1e-6)
    if grad and mix is not with_dropout:
        (gradient,) = torch.autograd.grad(mixed.square().sum(), call.output)
        assert torch.allclose(call.gradient_of_mixed(gradient), 2 * mixed, atol=1e-5)


def talking_heads(q, k, v):
    weights = scores(q, k).softmax(-1)
    return (weights - 0.5 * weights.roll(1, dims=1)) @ v


def between_channels(q, k, v):
    return ((q.mT @ k).softmax(-1) @ v.mT).mT


def in_place(q, k, v):
    weights = scores(q, k).softmax(-1)
    weights *= 2
    return weights @ v


def efficient(q, k, v):
    """Shen et al. 2021: the softmaxes are over channels and over tokens, never over both."""
    return q.softmax(-1) @ (k.softmax(-2).mT @ v)


def heads_first(q, k, v):
    q, k, v = (part.transpose(0, 1) for part in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(0, 1)


def other_fold(q, k, v):
    q, k, v = (rearrange(part, "b h n d -> (h b) n d") for part in (q, k, v))
    return rearrange(scores(q, k).softmax(-1) @ v, "(h b) n d -> b h n d", h=HEADS)


def of_torch(q, k, v):
    q, k, v = (rearrange(part, "b h n d -> n b (h d)") for part in (q, k, v))
    eye = torch.eye(WIDTH)
    mixed = F.multi_head_attention_forward(
        q, k, v, WIDTH, HEADS, eye.repeat(3, 1), None, None, None, False, 0.0, eye, None
    )[0]
    return rearrange(mixed, "n b (h d) -> b h n d", h=HEADS)


def linear(q, k, v):
    return F.elu(q) @ (F.elu(k).mT @ v)


@pytest.mark.parametrize(
    ("mix", "kind", "why"),
    [
        (talking_heads, NamedAttention, "changes its weights after the softmax"),
        (talking_heads, Layer, "changes its weights after the softmax"),
        (between_channels, NamedAttention, "mixes channels and not tokens"),
        (linear, NamedAttention, "is called an attention, but none was seen in it"),
        (efficient, NamedAttention, "is called an attention, but none was seen in it"),
        (in_place, Layer, "changes its weights in place after the softmax"),
        (folded, Layer, "folds its heads into the batch"),
        (folded_and_fused, Layer, "folds its heads into the batch"),
        (reshaped, Layer, "folds its heads into the batch"),
        (other_fold, Layer, "folds its heads into the batch"),
        (heads_first, NamedAttention, "has its axes in an order that is not known"),
        (of_torch, Layer, "calls multi_head_attention_forward by itself"),
    ],
)
def test_what_has_no_map_is_named(mix, kind, why):
    model = nn.Sequential()
    model.add_module("seen", NamedAttention(fused))
    model.add_module("joined", nn.Flatten(1, 2))
    model.add_module("split", nn.Unflatten(1, (TOKENS, HEADS)))
    model.add_module("back", nn.Flatten(2, 3))
    model.add_module("unseen", kind(mix))
    tokens = torch.randn(2, TOKENS, WIDTH)
    seen = model.seen(tokens)
    assert seen.shape == (2, HEADS, TOKENS, WIDTH // HEADS)

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen, self.unseen = model.seen, model.unseen

        def forward(self, tokens):
            return self.unseen(rearrange(self.seen(tokens), "b h n d -> b n (h d)"))

    both = Both()
    words = rf"1 attention.* of Both .* unseen \({kind.__name__}\) {why}"
    with pytest.raises(RuntimeError, match=words), capture_attention(both):
        both(tokens)
    with capture_attention(both.seen) as maps:
        both(tokens)
    assert list(maps) == [""]


def test_settings_of_the_fused_call():
    torch.manual_seed(0)
    tokens = torch.randn(2, TOKENS, WIDTH)
    for settings in (
        {"is_causal": True},
        {"scale": 0.3},
        {"attn_mask": torch.randn(2, 1, TOKENS, TOKENS)},
        {"attn_mask": (torch.rand(TOKENS, TOKENS) > 0.3) | torch.eye(TOKENS).bool()},
        {"attn_mask": torch.randn(1, HEADS, 1, TOKENS)},
        {"attn_mask": torch.tensor([[True]]).expand(TOKENS, TOKENS).tril()},
        {"attn_mask": torch.arange(TOKENS)[:, None].ne(2).expand(TOKENS, TOKENS)},  # 2 sees none
    ):
        layer, calls = Layer(fused, **settings), []
        with record_attention(layer, calls.append):
            mixed = layer(tokens)
        (call,) = calls
        assert torch.allclose(call.weights() @ call.v, mixed, atol=1e-5)
        rows = call.weights(slice(1, 2), slice(1, 3)) @ call.v[1:2]
        assert torch.allclose(rows, mixed[1:2, :, 1:3], atol=1e-5)


def test_fewer_keys_than_queries_have_heads():
    layer, calls = Layer(lambda q, k, v: fused(q, k[:, :1], v[:, :1], enable_gqa=True)), []
    with record_attention(layer, calls.append):
        mixed = layer(torch.randn(2, TOKENS, WIDTH))
    assert torch.allclose(calls[0].weights() @ calls[0].v, mixed, atol=1e-5)


def test_autocast_does_not_reach_the_weights():
    torch.manual_seed(0)
    layer, calls = Layer(fused), []
    with torch.autocast("cpu", torch.bfloat16), record_attention(layer, calls.append):
        layer(torch.randn(2, TOKENS, WIDTH) * 9)
        (call,) = calls
        weights = call.weights()
    assert call.q.dtype == torch.bfloat16 and weights.dtype == torch.float32
    by_hand = scores(call.q.double(), call.k.double()).softmax(-1)
    assert (weights - by_hand).abs().max() < 1e-5


def test_a_call_outside_the_model_is_none_of_it():
    layer, q = Layer(fused), torch.randn(1, 1, TOKENS, 4)
    with capture_attention(layer) as maps:
        fused(q, q, q)
        layer(torch.randn(2, TOKENS, WIDTH))
        plain(q, q, q)
    assert list(maps) == [""]


def test_inside_another_capture():
    layer, tokens = Layer(fused), torch.randn(2, TOKENS, WIDTH)
    with capture_attention(layer) as outer:
        with capture_attention(layer) as inner:
            layer(tokens)
        layer(tokens)
    assert list(outer) == ["", "#2"] and torch.equal(inner[""], outer[""])


def test_an_error_inside_leaves_the_next_call_whole():
    layer, tokens = NamedAttention(plain), torch.randn(2, TOKENS, WIDTH)
    with capture_attention(layer) as maps:
        with pytest.raises(RuntimeError, match="shapes"):
            layer(torch.randn(2, TOKENS, WIDTH + 1))
        layer(tokens)
    assert list(maps) == [""]


def test_threads_do_not_mix():
    torch.manual_seed(0)
    layers = [Layer(fused) for _ in range(4)]
    tokens = torch.randn(2, TOKENS, WIDTH)
    alone, together = [], [None] * 4
    for layer in layers:
        with capture_attention(layer) as maps:
            layer(tokens)
        alone.append(maps[""])
    ready = threading.Barrier(4)

    def look(number):
        ready.wait()
        for _ in range(20):
            with capture_attention(layers[number]) as maps:
                layers[number](tokens)
            assert list(maps) == [""]
        together[number] = maps[""]

    threads = [threading.Thread(target=look, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))
    assert torch._dynamo.eval_frame._stance.stance == "default"


def test_another_thread_may_not_look_into_the_same_model_or_a_part_of_it():
    model, refused = nn.Sequential(Layer(fused)), []

    def look():
        try:
            with capture_attention(model[0]):
                pass
        except RuntimeError as error:
            refused.append(str(error))

    with capture_attention(model) as maps:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        other = threading.Thread(target=model, args=(torch.randn(2, TOKENS, WIDTH),))
        other.start()  # it may run it: that is not recorded
        other.join()
        model(torch.randn(2, TOKENS, WIDTH))
    assert "another thread looks into this Layer: wait for it, or give each thread" in refused[0]
    assert list(maps) == ["0"]


def test_a_padded_encoder_of_torch():
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 48, batch_first=True)
    padding = torch.zeros(2, TOKENS, dtype=torch.bool)
    padding[0, 3:] = True
    tokens = torch.randn(2, TOKENS, WIDTH)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    with torch.no_grad(), capture_attention(encoder) as maps:
        encoder(tokens, src_key_padding_mask=padding)
    assert list(maps) == ["layers.0.self_attn", "layers.1.self_attn"]
    assert all((weights[0, :, :, 3:] == 0).all() for weights in maps.values())
    nested = nn.TransformerEncoder(layer, 2).eval()
    try:
        with torch.no_grad(), capture_attention(nested) as maps:
            nested(tokens, src_key_padding_mask=padding)
    except ValueError as error:
        assert "needs enable_nested_tensor=False" in str(error)
    else:
        assert all((weights[0, :, :, 3:] == 0).all() for weights in maps.values())


@pytest.mark.parametrize("batch", [1, 2])
def test_one_head_without_an_axis_of_its_own(batch):
    def one(q, k, v):
        return fused(*(rearrange(part, "b h n d -> b n (h d)") for part in (q, k, v)))

    layer, calls = Layer(one), []
    with record_attention(layer, calls.append):
        mixed = layer(torch.randn(batch, TOKENS, WIDTH))
    (call,) = calls
    assert call.shape == (batch, 1, TOKENS, TOKENS)
    assert torch.allclose((call.weights() @ call.v)[:, 0], mixed, atol=1e-5)


def test_one_map_for_all_images():
    class Static(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = nn.Parameter(torch.randn(2, 1, HEADS, TOKENS, 8))

        def forward(self, v):
            return (self.q @ self.k.mT).softmax(-1) @ v

    layer, calls = Static(), []
    with record_attention(layer, calls.append):
        layer(torch.randn(4, HEADS, TOKENS, 8))
    assert calls[0].shape == (4, HEADS, TOKENS, TOKENS)
    assert calls[0].weights(slice(2, 4)).shape == (2, HEADS, TOKENS, TOKENS)


def test_ctrl_c_leaves_torch_as_it_was(monkeypatch):
    layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    tokens = torch.randn(2, TOKENS, WIDTH)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(F, "multi_head_attention_forward", interrupted)
        with pytest.raises(KeyboardInterrupt), capture_attention(layer):
            layer(tokens, tokens, tokens)
    assert torch._C._is_torch_function_enabled()
    with capture_attention(layer) as maps:
        layer(tokens, tokens, tokens)
    assert list(maps) == [""]


def test_a_kin_of_torchs_attention_is_asked_itself():
    class Kin(nn.MultiheadAttention):
        def forward(self, query, key, value, **options):
            return super().forward(query.roll(1, 1) * 3, key * 2, value, **options)

    class Wrapped(nn.MultiheadAttention):
        pass

    tokens = torch.randn(2, TOKENS, WIDTH)
    kin, wrapped = Kin(WIDTH, HEADS, batch_first=True), Wrapped(WIDTH, HEADS, batch_first=True)
    plain_forward = wrapped.forward
    wrapped.forward = lambda *given: plain_forward(*(3 * each for each in given))
    for layer in (kin, wrapped):
        words = r"calls multi_head_attention_forward by itself"
        with pytest.raises(RuntimeError, match=words), capture_attention(layer):
            layer(tokens, tokens, tokens)


def test_a_module_between_softmax_and_product_that_returns_nothing():
    class Silent(nn.Module):
        def forward(self, weights):
            self.highest = weights.amax()

    class Watched(Layer):
        def __init__(self):
            super().__init__(None)
            self.look = Silent()

        def forward(self, tokens):
            q, k, v = self.project(tokens)
            weights = scores(q, k).softmax(-1)
            self.look(weights)
            return weights @ v

    model = Watched()
    with capture_attention(model) as maps:
        model(torch.randn(2, TOKENS, WIDTH))
    assert list(maps) == [""]


def test_a_layer_that_attends_in_another_way_the_second_time():
    class ChangingAttention(Layer):
        times = 0

        def forward(self, tokens):
            self.times += 1
            q, k, v = self.project(tokens)
            return fused(q, k, v) if self.times == 1 else linear(q, k, v)

    layer, tokens = ChangingAttention(None), torch.randn(2, TOKENS, WIDTH)
    words = "1 attention.* but 1 that ran"
    with pytest.raises(RuntimeError, match=words), capture_attention(layer):
        layer(tokens)
        layer(tokens)


def test_an_error_of_reduce_that_the_model_swallows():
    class Careful(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Layer(fused)

        def forward(self, tokens):
            try:
                return self.inner(tokens)
            except ZeroDivisionError:
                return tokens

    model = Careful()
    words = "went on after an error in the capture: ZeroDivisionError"
    with pytest.raises(RuntimeError, match=words), capture_attention(model, lambda map: 1 / 0):
        model(torch.randn(2, TOKENS, WIDTH))


def test_a_traced_part_is_refused():
    layer, tokens = Layer(fused), torch.randn(2, TOKENS, WIDTH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(layer, tokens)
        norm = torch.jit.trace(nn.LayerNorm(WIDTH), tokens)
    words = "1 is scripted, traced or exported, and attends inside"
    with pytest.raises(RuntimeError, match=words), capture_attention(nn.Sequential(layer, traced)):
        pass
    model = nn.Sequential(norm, layer)
    with capture_attention(model) as maps:
        model(tokens)
    assert list(maps) == ["1"]


def test_a_branch_in_another_thread_is_refused():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = Layer(fused), Layer(fused)

        def forward(self, tokens):
            thread = threading.Thread(target=self.other, args=(tokens,))
            thread.start()
            thread.join()
            return self.one(tokens)

    model = Branches()
    words = "runs a part of itself in another thread"
    with pytest.raises(RuntimeError, match=words), capture_attention(model):
        model(torch.randn(2, TOKENS, WIDTH))
