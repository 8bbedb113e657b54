import copy
import gc
import pickle
import threading
import weakref

import pytest
import timm
import torch
import torchvision
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import ViTConfig, ViTModel

import vitbook
from vitbook.analysis import capture_attention
from vitbook.layers import (
    Attention,
    LocalitySelfAttention,
    RelativePosition,
    RelativePosition2D,
    RotatedPatches,
    ShiftedPatches,
)
from vitbook.measure import peak_memory
from vitbook.models.papers.vit import Body, vit
from vitbook.models.papers.vit_positions import (
    one_for_all_layers,
    one_for_each_layer,
    relative_vit,
)

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


BODY = dict(image_size=32, patch_size=8, num_classes=5, body=Body(24, 3, num_heads=3, mlp_width=48))


def own(**parts):
    return vit(**BODY, **parts)


def from_timm(**settings):
    body = dict(img_size=32, patch_size=8, embed_dim=24, depth=3, num_heads=3, num_classes=5)
    return timm.models.VisionTransformer(**(body | settings))


def from_torchvision():
    return torchvision.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=3, num_heads=2, hidden_dim=24, mlp_dim=48
    )


class HuggingFace(nn.Module):
    def __init__(self):
        super().__init__()
        config = ViTConfig(
            image_size=32,
            patch_size=8,
            hidden_size=24,
            num_hidden_layers=3,
            num_attention_heads=3,
            intermediate_size=48,
        )
        self.vit = ViTModel(config)

    def forward(self, images):
        return self.vit(images).last_hidden_state


MODELS = {
    "own": own,
    "SL-ViT": lambda: own(make_tokenizer=ShiftedPatches, make_attention=LocalitySelfAttention),
    "Rot-ViT": lambda: own(make_tokenizer=RotatedPatches),
    "relative": lambda: relative_vit(**BODY, make_positions=one_for_each_layer(RelativePosition)),
    "relative, on a grid, shared": lambda: relative_vit(
        **BODY, make_positions=one_for_all_layers(RelativePosition2D)
    ),
    "timm": from_timm,
    "timm with normed q and k": lambda: from_timm(qk_norm=True),
    "torchvision": from_torchvision,
    "Hugging Face": HuggingFace,
}


def random_model(name: str) -> nn.Module:
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # far from uniform attention
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def hooks(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("grad", [False, True])
def test_looking_changes_nothing(name, grad):
    model = random_model(name)
    with torch.set_grad_enabled(grad):
        outside = model(IMAGES)
        with capture_attention(model) as maps:
            inside = model(IMAGES)
        assert torch.equal(inside, outside)
        assert torch.equal(model(IMAGES), outside)
    assert hooks(model) == 0
    assert len(maps) == 3
    for weights in maps.values():
        assert weights.shape[0] == 2 and weights.shape[2:] == (17, 17)
        assert torch.allclose(weights.sum(-1), torch.ones(weights.shape[:3]), atol=1e-5)
        assert weights.max() > 0.3  # no uniform map, which any error could give
        assert not weights.requires_grad


def leaf_inputs(model: nn.Module) -> list[tuple]:
    seen = []
    leaves = [m for m in model.modules() if isinstance(m, Attention)]
    handles = [
        leaf.register_forward_hook(lambda m, args, out: seen.append((*args[:3], out)))
        for leaf in leaves
    ]
    model(IMAGES.to(next(model.parameters()).dtype))
    for handle in handles:
        handle.remove()
    return seen


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@torch.no_grad()
def test_weights_times_values_is_the_output(dtype, bound):
    model = random_model("own").to(dtype)
    with capture_attention(model) as maps:
        model(IMAGES.to(dtype))
    for weights, (_, _, v, out) in zip(maps.values(), leaf_inputs(model), strict=True):
        assert (weights @ v.float() - out.float()).abs().max() <= bound * out.abs().max()


def test_the_maps_of_timm_are_those_of_its_own_q_and_k():
    model = random_model("timm")
    assert all(block.attn.fused_attn for block in model.blocks)
    inputs = []
    for block in model.blocks:
        block.attn.register_forward_pre_hook(lambda m, args: inputs.append(args[0]))
    with torch.no_grad(), capture_attention(model) as maps:
        model(IMAGES)
    assert list(maps) == ["blocks.0.attn", "blocks.1.attn", "blocks.2.attn"]
    for block, tokens, weights in zip(model.blocks, inputs, maps.values(), strict=True):
        by_hand = torch.zeros(2, 3, 17, 17)
        q, k, _ = block.attn.qkv(tokens).detach().chunk(3, dim=-1)
        for h in range(3):
            part = slice(8 * h, 8 * h + 8)
            by_hand[:, h] = (q[..., part] @ k[..., part].mT / 8**0.5).softmax(-1)
        assert (weights - by_hand).abs().max() < 1e-6


def test_the_maps_of_torchvision_are_those_torch_gives_when_asked():
    model, expected = random_model("torchvision"), []
    for block in model.encoder.layers:
        block.self_attention.register_forward_pre_hook(
            lambda m, args: expected.append(m.forward(*args, average_attn_weights=False)[1])
        )
    with torch.no_grad(), capture_attention(model) as maps:
        model(IMAGES)
    for weights, theirs in zip(maps.values(), expected, strict=True):
        assert (weights - theirs).abs().max() < 1e-6


def test_the_maps_of_hugging_face_are_those_it_gives_when_asked():
    model = random_model("Hugging Face")
    with torch.no_grad(), capture_attention(model) as maps:
        model(IMAGES)
    model.vit.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model.vit(IMAGES, output_attentions=True).attentions
    for weights, theirs in zip(maps.values(), expected, strict=True):
        assert (weights - theirs).abs().max() < 1e-5


@pytest.mark.parametrize("kind", ["key_padding_mask", "attn_mask", "both"])
def test_masks_of_torch(kind):
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    padding, causal = torch.zeros(3, 5, dtype=torch.bool), torch.ones(5, 5).triu(1).bool()
    padding[:, 4] = True
    masks = {"key_padding_mask": padding, "attn_mask": causal}
    masks = masks if kind == "both" else {kind: masks[kind]}
    tokens = torch.randn(3, 5, 8)
    with torch.no_grad(), capture_attention(attention) as maps:
        attention(tokens, tokens, tokens, need_weights=False, **masks)
        expected = attention(tokens, tokens, tokens, average_attn_weights=False, **masks)[1]
    assert (maps[""] - expected).abs().max() < 1e-6


def test_a_compiled_model(plain_vitbook):
    plain_vitbook(
        """
        import torch
        from vitbook.analysis import capture_attention
        from vitbook.models.papers.vit import Body, vit
        model = vit(image_size=8, patch_size=4, channels=1, num_classes=3,
                    body=Body(16, 2, num_heads=2, mlp_width=16)).eval()
        images = torch.rand(3, 1, 8, 8)
        compiled = torch.compile(model, backend="eager")  # traced as by any other backend
        with torch.no_grad():
            outside = compiled(images)  # warm: this is what used to run the hooks on nothing
            with capture_attention(compiled) as maps:
                inside = compiled(images)
            with capture_attention(model) as eager:
                model(images)
            after = compiled(images)
        assert list(maps) == list(eager) and len(maps) == 2
        assert all(torch.equal(maps[name], eager[name]) for name in maps)
        assert (inside - outside).abs().max() < 1e-5
        assert torch.equal(outside, after)
        """
    )


def test_no_hook_outlives_an_error():
    model = random_model("timm")
    with pytest.raises(ZeroDivisionError), capture_attention(model):
        raise ZeroDivisionError
    assert hooks(model) == 0
    with pytest.raises(ZeroDivisionError), capture_attention(model, reduce=lambda w: 1 / 0):
        model(IMAGES)
    assert hooks(model) == 0


def test_an_empty_block_is_an_error():
    words = "no attention ran in the block for VisionTransformer"
    with pytest.raises(RuntimeError, match=words), capture_attention(random_model("own")):
        pass
    words = "for Linear: .*known are scaled_dot_product_attention"
    with pytest.raises(RuntimeError, match=words), capture_attention(nn.Linear(2, 2)) as maps:
        assert maps == {}


def test_a_module_that_runs_twice_keeps_both_maps():
    model = random_model("own")
    with torch.no_grad(), capture_attention(model) as maps:
        model(IMAGES)
        model(IMAGES.flip(-1))
    names = [f"encoder.blocks.{i}.attention.core" for i in range(3)]
    assert list(maps) == names + [f"{name}#2" for name in names]
    assert not torch.equal(maps[names[0]], maps[f"{names[0]}#2"])


def test_reduce_sees_each_map_once_and_keeps_none():
    model, alive = random_model("own"), []

    def reduce(weights):
        gc.collect()
        assert not any(reference() is not None for reference in alive)
        alive.append(weakref.ref(weights))
        return weights.mean().item()

    with torch.no_grad(), capture_attention(model, reduce) as maps:
        model(IMAGES)
    assert list(maps.values()) == pytest.approx([1 / 17] * 3)


def test_memory_with_reduce_does_not_grow_with_depth():
    images = torch.randn(1, 3, 128, 128)

    def peak(depth, reduce):
        body = Body(16, depth, num_heads=2, mlp_width=16)
        model = vit(image_size=128, patch_size=4, num_classes=2, body=body).eval()

        @torch.no_grad()
        def look():
            with capture_attention(model, reduce):
                model(images)

        return peak_memory(look)

    def mean_over_heads_and_queries(weights):
        return weights.mean(dim=(1, 2))

    one_map = 2 * 1025 * 1025 * 4
    kept = peak(6, None) - peak(2, None)
    folded = peak(6, mean_over_heads_and_queries) - peak(2, mean_over_heads_and_queries)
    assert kept > 3.9 * one_map
    assert folded < 0.05 * one_map


def ends_in(order: str) -> list[int]:
    """Three captures that begin as a, b, c, and run the model before each end."""
    model, images = vitbook.create_model("vit_micro_patch2_8").eval(), torch.rand(2, 1, 8, 8)
    captures = {name: capture_attention(model) for name in "abc"}
    maps = {name: capture.__enter__() for name, capture in captures.items()}
    for name in order:
        model(images)
        captures[name].__exit__(None, None, None)
    assert not torch.overrides._get_current_function_mode_stack()
    assert not any(module._forward_hooks for module in model.modules())
    return [len(maps[name]) for name in order]


@pytest.mark.parametrize("order", ["abc", "bca", "cba"])
def test_captures_end_in_any_order(order):
    assert ends_in(order) == [4, 8, 12]


@pytest.mark.parametrize("runs", [0, 2])
def test_a_capture_that_ends_in_another_thread_says_so(runs):
    model, images = vitbook.create_model("vit_micro_patch2_8").eval(), torch.rand(2, 1, 8, 8)
    capture, errors = capture_attention(model), []
    capture.__enter__()
    for _ in range(runs):
        model(images)

    def end():
        try:
            capture.__exit__(None, None, None)
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    assert "began in another thread" in errors[0]
    with capture_attention(model) as maps:  # nothing is left behind that would disturb
        model(images)
    assert len(maps) == 4 and not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("keep", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_model_is_kept_inside_a_capture(keep):
    model, images = vitbook.create_model("vit_micro_patch2_8").eval(), torch.rand(2, 1, 8, 8)
    with capture_attention(model) as maps:
        kept = keep(model)
        logits = kept(images)
        assert not maps
        assert torch.equal(model(images), logits)
    assert len(maps) == 4
    with capture_attention(kept) as maps:
        kept(images)
    assert len(maps) == 4


class Checkpointed(nn.Module):
    def __init__(self, blocks, reentrant):
        super().__init__()
        self.blocks, self.reentrant = blocks, reentrant

    def forward(self, tokens):
        for block in self.blocks:
            tokens = checkpoint(block, tokens, use_reentrant=self.reentrant)
        return tokens


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("backward", [1, 2])
def test_what_checkpointing_runs_again_is_no_second_attention(reentrant, backward):
    blocks = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=3).blocks
    tokens = torch.randn(2, 17, 192, requires_grad=True)
    with capture_attention(blocks) as right:
        nn.Sequential(*blocks)(tokens)
    model = Checkpointed(blocks, reentrant)
    with capture_attention(model) as maps:
        out = model(tokens).sum()
        for _ in range(backward):
            out.backward()
            if backward == 2:
                out = model(tokens).sum()
    assert list(maps)[:3] == [f"blocks.{path}" for path in right]
    assert len(maps) == (9 if backward == 2 else 3)
    for found, expected in zip(maps.values(), right.values(), strict=False):
        assert torch.equal(found, expected)


def test_a_library_s_checkpointing_is_captured():
    model = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=3).train()
    model.set_grad_checkpointing(True)
    with capture_attention(model) as maps:
        model(torch.randn(2, 3, 64, 64)).sum().backward()
    assert len(maps) == 3
