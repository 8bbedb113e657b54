"""Laws that a Vision Transformer keeps, whatever its weights: `pytest test_vit.py`.

Copy this file, and change what stands above `case` to your model. It needs torch and pytest.
"""

import torch
from torch.overrides import TorchFunctionMode

PATCH, SIZE, CHANNELS = 16, 64, 3


def make_model():
    import timm

    return timm.create_model("vit_tiny_patch16_224", img_size=SIZE)


def blocks_of(model):
    return model.blocks


def case():
    """The model with weights of no use, three images, and the tokens before the first block."""
    torch.manual_seed(0)
    model = make_model().eval()
    for parameter in model.parameters():  # nothing is zero, or one, as it may be at the start
        parameter.data += 0.1 * torch.randn_like(parameter)
    images = torch.rand(3, CHANNELS, SIZE, SIZE) * 2 - 1
    return model, images, tokens_of(model, images)


@torch.no_grad()
def tokens_of(model, images):
    seen = []
    hook = blocks_of(model)[0].register_forward_pre_hook(lambda block, args: seen.append(args[0]))
    model(images)
    hook.remove()
    return seen[0]


def alike(one, other):
    return torch.allclose(one, other, atol=1e-4, rtol=1e-3)


class RowSums(TorchFunctionMode):
    """What the weights of each attention sum to."""

    def __init__(self):
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function.__name__ == "scaled_dot_product_attention":  # fused: it shows no weights
            q, k, v, *others = args
            self.seen.append(function(q, k, torch.ones_like(v), *others, **kwargs or {}))
        elif function.__name__ in ("matmul", "__matmul__", "bmm"):
            left = args[0]  # weights are square, and nowhere below zero
            if left.shape[-1] == left.shape[-2] and (left >= 0).all():
                self.seen.append(left.sum(dim=-1))
        return function(*args, **kwargs or {})


@torch.no_grad()
def test_company():
    model, images, tokens = case()
    assert alike(model(images)[:1], model(images[:1])), "an image depends on its batch"
    for block in blocks_of(model):
        assert alike(block(tokens)[:1], block(tokens[:1])), "tokens depend on their batch"


@torch.no_grad()
def test_rows():
    model, images, _ = case()
    with RowSums() as sums:
        model(images)
    blocks = len(blocks_of(model))
    assert len(sums.seen) >= blocks, (
        f"saw the weights of {len(sums.seen)} attentions in {blocks} blocks: "
        "tell RowSums how yours multiplies weights and values"
    )
    for rows in sums.seen:
        assert alike(rows, torch.ones(())), "weights of an average do not sum to 1"


@torch.no_grad()
def test_order():
    model, _, tokens = case()
    order = torch.randperm(tokens.shape[1])
    for block in blocks_of(model):
        assert alike(block(tokens[:, order]), block(tokens)[:, order]), "a block knows the order"


@torch.no_grad()
def test_one_patch_is_one_token():  # leave it out if your patches overlap
    model, images, tokens = case()
    images[..., :PATCH, :PATCH] += 1
    changed = (tokens_of(model, images) != tokens).any(dim=-1).sum(dim=1)
    assert (changed == 1).all(), f"a patch changes {changed[0]} tokens"


@torch.no_grad()
def test_positions_count():
    model, images, _ = case()
    moved = images.roll(SIZE // 2, dims=-1)
    assert not alike(model(images), model(moved)), "patches that move change nothing"


@torch.no_grad()
def test_twice_the_same():
    model, images, _ = case()
    assert torch.equal(model(images), model(images)), "something is drawn in eval mode"


@torch.no_grad()
def test_logits_are_no_shares():
    model, images, _ = case()
    assert not alike(model(images).sum(dim=1), torch.ones(())), "there is a softmax in the head"


@torch.enable_grad()
def test_every_pixel_is_seen_and_every_row_learns():
    model, images, _ = case()
    answers = model(images.requires_grad_())
    (answers * torch.randn_like(answers)).sum().backward()
    assert (images.grad != 0).all(), "the answer does not see some pixels"
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1 and parameter.requires_grad:
            rows = parameter.grad.flatten(0, -2)
            assert rows.any(dim=-1).all(), f"a row of {name} does not learn"
