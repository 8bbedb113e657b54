"""The sums of the authors' codes, on state dicts with those codes' names, and such state dicts.

Written from the codes' definitions, one step after another. The weights are random, so that no two
tensors can be exchanged unseen.
"""

import torch
import torch.nn.functional as F


def drawn(shapes):
    """Random weights: gains near one, all else so small that no sum overflows."""
    generator = torch.Generator().manual_seed(0)
    state = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape, generator=generator)
        fan_in = shape[1] if len(shape) == 2 else 25
        state[name] = noise * fan_in**-0.5 + ("norm" in name and name.endswith("weight"))
    return state


def with_layers(shapes, layers):
    """``shapes`` and a weight (outputs, inputs) and a bias for each of ``layers``, or a norm's."""
    for name, sizes in layers.items():
        shapes |= {name + ".weight": sizes, name + ".bias": sizes[:1]}
    return shapes


def linear(state, name, x):
    return F.linear(x, state[name + ".weight"], state.get(name + ".bias"))


def norm(state, name, x):
    return F.layer_norm(x, x.shape[-1:], state[name + ".weight"], state[name + ".bias"])


def attend(qkv, heads, scale, mask=0.0):
    """Softmax attention in loops: ``qkv`` holds queries, keys, values, head beside head."""
    q, k, v = (part.chunk(heads, -1) for part in qkv.chunk(3, -1))
    scores = [scale[h] * q[h] @ k[h].mT + mask for h in range(heads)]
    return torch.cat([scores[h].softmax(-1) @ v[h] for h in range(heads)], -1)


# T2T-ViT: models/t2t_vit.py, token_performer.py, token_transformer.py, transformer_block.py.
def t2t_weights(performer, width, mlp_width, depth, classes=5, places=5):
    shapes, layers = {"cls_token": (1, 1, width), "pos_embed": (1, places, width)}, {}
    for number, inputs in ((1, 147), (2, 576)):
        block = f"tokens_to_token.attention{number}."
        layers |= {block + "norm1": (inputs,), block + "norm2": (64,)}
        if performer:
            shapes[block + "w"] = (32, 64)
            layers |= {block + "kqv": (192, inputs), block + "proj": (64, 64)}
            layers |= {block + "mlp.0": (64, 64), block + "mlp.2": (64, 64)}
        else:
            shapes[block + "attn.qkv.weight"] = (192, inputs)
            layers |= {block + "attn.proj": (64, 64)}
            layers |= {block + "mlp.fc1": (64, 64), block + "mlp.fc2": (64, 64)}
    layers |= {"tokens_to_token.project": (width, 576), "norm": (width,), "head": (classes, width)}
    for number in range(depth):
        block = f"blocks.{number}."
        shapes[block + "attn.qkv.weight"] = (3 * width, width)
        layers |= {block + "norm1": (width,), block + "norm2": (width,)}
        layers |= {block + "attn.proj": (width, width)}
        layers |= {block + "mlp.fc1": (mlp_width, width), block + "mlp.fc2": (width, mlp_width)}
    state = drawn(with_layers(shapes, layers))
    for number in (1, 2) if performer else ():
        # So short that the denominators lie on both sides of the 1e-8 that is added to them.
        state[f"tokens_to_token.attention{number}.kqv.weight"] *= 0.5
    return state


def token_performer(state, block, x):
    k, q, v = linear(state, block + "kqv", norm(state, block + "norm1", x)).chunk(3, -1)
    w = state[block + "w"]
    features = [(t @ w.T - (t * t).sum(-1, keepdim=True) / 2).exp() / 32**0.5 for t in (q, k)]
    weights = features[0] @ features[1].mT
    y = (weights @ v) / (weights.sum(-1, keepdim=True) + 1e-8)
    z = v + linear(state, block + "proj", y)
    hidden = F.gelu(linear(state, block + "mlp.0", norm(state, block + "norm2", z)))
    return z + linear(state, block + "mlp.2", hidden)


def token_transformer(state, block, x):
    qkv = linear(state, block + "attn.qkv", norm(state, block + "norm1", x))
    # One head, and the root of the incoming width.
    y = attend(qkv, 1, [x.shape[-1] ** -0.5])
    z = qkv.chunk(3, -1)[2] + linear(state, block + "attn.proj", y)
    return z + mlp(state, block, norm(state, block + "norm2", z))


def mlp(state, block, x):
    return linear(state, block + "mlp.fc2", F.gelu(linear(state, block + "mlp.fc1", x)))


def t2t_logits(state, images, heads, depth):
    x = F.unfold(images, 7, stride=4, padding=2).mT
    token_block = token_performer if "tokens_to_token.attention1.w" in state else token_transformer
    for number in (1, 2):
        x = token_block(state, f"tokens_to_token.attention{number}.", x)
        side = round(x.shape[1] ** 0.5)
        x = F.unfold(x.mT.unflatten(2, (side, side)), 3, stride=2, padding=1).mT
    x = linear(state, "tokens_to_token.project", x)
    x = torch.cat([state["cls_token"].expand(len(x), -1, -1), x], 1) + state["pos_embed"]
    scale = [(x.shape[-1] // heads) ** -0.5] * heads
    for block in (f"blocks.{number}." for number in range(depth)):
        qkv = linear(state, block + "attn.qkv", norm(state, block + "norm1", x))
        x = x + linear(state, block + "attn.proj", attend(qkv, heads, scale))
        x = x + mlp(state, block, norm(state, block + "norm2", x))
    return linear(state, "head", norm(state, "norm", x)[:, 0])


# SL-ViT: models/vit.py, SPT.py.
def sl_weights(shifted, lsa, width, heads, mlp_width, depth, patch, classes=10, places=17):
    inputs = 3 * patch**2 * (5 if shifted else 1)
    shapes = {"cls_token": (1, 1, width), "pos_embedding": (1, places, width)}
    merging = "to_patch_embedding." + ("merging.2" if shifted else "1")
    layers = {merging: (width, inputs)}
    if shifted:
        layers["to_patch_embedding.merging.1"] = (inputs,)
    for number in range(depth):
        layer = f"transformer.layers.{number}."
        shapes[layer + "0.fn.to_qkv.weight"] = (3 * width, width)
        if lsa:
            shapes[layer + "0.fn.scale"] = (heads,)
        layers |= {layer + "0.norm": (width,), layer + "1.norm": (width,)}
        layers |= {layer + "0.fn.to_out.0": (width, width)}
        layers |= {
            layer + "1.fn.net.0": (mlp_width, width),
            layer + "1.fn.net.3": (width, mlp_width),
        }
    layers |= {"mlp_head.0": (width,), "mlp_head.1": (classes, width)}
    return drawn(with_layers(shapes, layers))


def sl_logits(state, images, heads, patch, depth):
    shifted = "to_patch_embedding.merging.2.weight" in state
    size, s = images.shape[-1], patch // 2
    if shifted:
        views, wide = [images], F.pad(images, (s, s, s, s))
        for down in (-s, s):
            for across in (-s, s):
                top, left = s + down, s + across
                views.append(wide[:, :, top : top + size, left : left + size])
        images = torch.cat(views, 1)
    steps = range(0, size, patch)
    # Row by row, pixel by pixel; all channels of a pixel stand together.
    patches = [
        images[:, :, top : top + patch, left : left + patch].permute(0, 2, 3, 1).flatten(1)
        for top in steps
        for left in steps
    ]
    x = torch.stack(patches, 1)
    if shifted:
        x = linear(
            state, "to_patch_embedding.merging.2", norm(state, "to_patch_embedding.merging.1", x)
        )
    else:
        x = linear(state, "to_patch_embedding.1", x)
    x = torch.cat([state["cls_token"].expand(len(x), -1, -1), x], 1) + state["pos_embedding"]
    for layer in (f"transformer.layers.{number}." for number in range(depth)):
        scale, mask = [(x.shape[-1] // heads) ** -0.5] * heads, 0.0
        if layer + "0.fn.scale" in state:
            scale, mask = state[layer + "0.fn.scale"], -987654321 * torch.eye(x.shape[1])
        qkv = linear(state, layer + "0.fn.to_qkv", norm(state, layer + "0.norm", x))
        x = x + linear(state, layer + "0.fn.to_out.0", attend(qkv, heads, scale, mask))
        hidden = F.gelu(linear(state, layer + "1.fn.net.0", norm(state, layer + "1.norm", x)))
        x = x + linear(state, layer + "1.fn.net.3", hidden)
    return linear(state, "mlp_head.1", norm(state, "mlp_head.0", x[:, 0]))
