"""A step of the page's trainer against torch: logits, loss, gradients and AdamW."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import vitbook
from vitbook import datasets
from vitbook.layers import PostNormBlock
from vitbook.models.papers.vit import DIGITS, MICRO_BODY, Body, vit

BATCH, STEPS, RATE, DECAY = 8, 3, 1e-3, 0.05
SIZES = {"micro": MICRO_BODY, "small": Body(width=32, depth=2, num_heads=4, mlp_width=64)}
# What a page may change: of the model, of the order of the patches, of the loss.
VARIANTS = {
    "micro": {},
    "small": {"size": "small"},
    "without positions": {"positions": False},
    "patches of one pixel": {"size": "small", "patch": 1},
    "patches of 4": {"patch": 4},
    "one patch": {"patch": 8},
    "Post-LN": {"post": True},
    "shuffled": {"order": True},
    "smoothed": {"smoothing": 0.1},
    "softmax twice": {"twice": True},
    "softmax twice, smoothed": {"twice": True, "smoothing": 0.1},
    "small Post-LN without positions": {"size": "small", "post": True, "positions": False},
}


def model_of(size: str, patch: int, positions: bool, post: bool) -> nn.Module:
    torch.manual_seed(0)
    model = vit(**DIGITS | {"patch_size": patch}, body=SIZES[size])
    if post:
        for block in model.encoder.blocks:
            block.__class__ = PostNormBlock
        model.encoder.norm = nn.Identity()
    if not positions:
        model.position = nn.Identity()
    with torch.no_grad():
        for parameter in model.parameters():  # no zeros anywhere: gradients of everything
            parameter += 0.05 * torch.randn_like(parameter)
    return model


def flat(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([each.detach().flatten() for each in tensors.values()])


@pytest.mark.parametrize("name", VARIANTS)
def test_three_steps_are_torchs(name, steps):
    asked = {"size": "micro", "patch": 2, "positions": True, "post": False, "order": False}
    asked |= {"smoothing": 0.0, "twice": False} | VARIANTS[name]
    order, smoothing, twice = (asked.pop(key) for key in ("order", "smoothing", "twice"))
    size = asked["size"]
    model = model_of(**asked)
    digits = datasets.load("digits", "train")
    images = datasets.normalize(digits.images[: STEPS * BATCH]).unflatten(0, (STEPS, BATCH))
    labels = digits.labels[: STEPS * BATCH].unflatten(0, (STEPS, BATCH))
    seen, places = images, None
    if order:
        grid, patch = 8 // asked["patch"], asked["patch"]
        places = torch.randperm(grid**2, generator=torch.Generator().manual_seed(0))
        cut = images.unflatten(-2, (grid, patch)).unflatten(-1, (grid, patch)).transpose(-3, -2)
        mixed = cut.flatten(-4, -3)[..., places, :, :].unflatten(-3, (grid, grid))
        seen = mixed.transpose(-3, -2).flatten(-2).flatten(-3, -2)
    body = SIZES[size]
    settings = {
        "batch": BATCH, "width": body.width, "depth": body.depth, "heads": body.num_heads,
        "hidden": body.mlp_width, "patch": asked["patch"], "side": 8, "classes": 10,
        "positions": asked["positions"], "post": asked["post"], "smoothing": smoothing,
        "twice": twice,
    }  # fmt: skip
    parameters = dict(model.named_parameters())
    page = steps(
        "vit.wasm",
        settings=settings, values=flat(parameters).tolist(), rate=RATE, decay=DECAY,
        images=images.flatten(1).tolist(), labels=labels.tolist(),
        order=None if places is None else places.tolist(),
    )  # fmt: skip
    assert page["shapes"] == [[key, list(value.shape)] for key, value in model.state_dict().items()]

    decayed = [
        p for key, p in parameters.items() if p.ndim > 1 and key not in ("prefix", "position.table")
    ]
    others = [p for p in parameters.values() if all(p is not each for each in decayed)]
    groups = [{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    for i in range(STEPS):
        logits = model(seen[i])
        said = logits.softmax(dim=-1) if twice else logits
        loss = F.cross_entropy(said, labels[i], label_smoothing=smoothing)
        optimizer.zero_grad()
        loss.backward()
        assert page["losses"][i] == pytest.approx(loss.item(), abs=2e-6)
        if i == 0:
            torch.testing.assert_close(
                torch.tensor(page["logits"]), logits.detach().flatten(), atol=2e-6, rtol=0
            )
            gradients = flat({key: p.grad for key, p in parameters.items()})
            torch.testing.assert_close(
                torch.tensor(page["gradients"]), gradients, atol=1e-6, rtol=0
            )
        optimizer.step()
        if i == 0:
            # AdamW's first step is as long where a gradient is nothing but rounding.
            told = gradients.abs() > 1e-5
            torch.testing.assert_close(
                torch.tensor(page["once"])[told], flat(parameters)[told], atol=2e-7, rtol=0
            )
            assert told.float().mean() > 0.5


def test_a_checkpoint_of_the_book_has_its_names(steps):
    model = vitbook.load_checkpoint("digits-vit_micro_patch2_8-digits-seed0").model
    held = datasets.load("digits", "test")
    images = datasets.normalize(held.images[:BATCH])
    settings = {
        "batch": BATCH, "width": 64, "depth": 4, "heads": 4, "hidden": 128, "patch": 2, "side": 8,
        "classes": 10, "positions": True, "post": False, "smoothing": 0.0,
    }  # fmt: skip
    page = steps(
        "vit.wasm",
        settings=settings, values=flat(dict(model.named_parameters())).tolist(), rate=RATE,
        decay=DECAY, images=images.flatten()[None].tolist(),
        labels=held.labels[:BATCH][None].tolist(), order=None,
    )  # fmt: skip
    with torch.no_grad():
        logits = model(images).flatten()
    torch.testing.assert_close(torch.tensor(page["logits"]), logits, atol=1e-4, rtol=0)
