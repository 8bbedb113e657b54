import pytest
import timm
import torch

from vitbook.layers import resize_positions
from vitbook.models.papers.hybrid import HYBRID_MODELS, hybrid
from vitbook.models.weights.timm import load_timm

SMALL = dict(image_size=64, num_classes=5, width=48, depth=2, num_heads=3, mlp_width=192)


def random_timm(name="vit_base_r50_s16_224", **settings):
    """timm's model with no weight at zero or one, so that none can be left out unseen."""
    torch.manual_seed(0)
    model = timm.create_model(name, **settings).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return model


def small_timm(**settings):
    small = dict(img_size=64, num_classes=5, embed_dim=48, depth=2, num_heads=3)
    return random_timm(**small | settings)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit_base_r50_s16_224", "vit_base_r50_s16_384"])
@torch.no_grad()
def test_the_logits_are_timms(name):
    source = random_timm(name, num_classes=1000)
    settings = HYBRID_MODELS[name]
    ours = load_timm(hybrid(**settings).eval(), source)
    images = torch.randn(1, 3, settings["image_size"], settings["image_size"])
    logits = source(images)
    assert logits.std() > 0.1
    assert (ours(images) - logits).abs().max() < 1e-4


@pytest.mark.parametrize("size", [224, (64, 96), 16])
@torch.no_grad()
def test_the_logits_of_a_small_body_are_timms(size):
    source = small_timm(img_size=size)
    ours = load_timm(hybrid(**SMALL | dict(image_size=size)).eval(), source)
    images = torch.randn(2, 3, *ours.tokenizer.image_size)
    logits = source(images)
    assert logits.std() > 0.05
    assert (ours(images) - logits).abs().max() < 1e-4


@torch.no_grad()
def test_positions_of_another_grid():
    source = small_timm()
    ours = load_timm(hybrid(**SMALL | dict(image_size=(96, 160))).eval(), source)
    table = resize_positions(source.pos_embed[0], (4, 4), (6, 10))
    assert torch.equal(ours.position.table, table)
    assert torch.equal(ours.position.table[0], source.pos_embed[0, 0])
    source.set_input_size((96, 160))
    images = torch.randn(1, 3, 96, 160)
    assert (ours(images) - source(images)).abs().max() < 1e-4


@torch.no_grad()
def test_the_contract():
    model = hybrid(**SMALL | dict(image_size=(32, 48), channels=1)).eval()
    images = torch.randn(2, 1, 32, 48)
    assert (model.grid_size, model.patch_size, model.num_prefix_tokens) == ((2, 3), 16, 1)
    tokens = model.embed(images)
    assert tokens.shape == (2, 7, 48)
    assert torch.allclose(tokens[:, 1:] - model.position.table[1:], model.tokenizer(images))
    assert torch.equal(model.features(images), model.encoder(tokens))
    assert model(images).shape == (2, 5)


def test_one_step_moves_every_parameter():
    torch.manual_seed(0)
    model = hybrid(**SMALL | dict(image_size=32, stage_depths=(1, 2, 1)))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    logits = model(torch.randn(3, 3, 32, 32))
    torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 4])).backward()
    optimizer.step()
    after = model.state_dict()
    assert not [name for name in before if torch.equal(before[name], after[name])]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(image_size=30), "image 30x30 is not divisible by patch 16: use 16 or 32, or pad"),
        (dict(num_classes=0), "0 classes: expected at least 1"),
        (dict(stage_depths=(3, 0)), r"stage depths \(3, 0\): expected at least one block"),
    ],
)
def test_sizes_that_cannot_be(changes, words):
    with pytest.raises(ValueError, match=words):
        hybrid(**SMALL | changes)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((2, 3, 32, 64), "image 32x64, but the model takes 64x64"),
        ((2, 1, 64, 64), "images have 1 channels, the model takes 3"),
    ],
)
def test_images_that_the_model_cannot_take(shape, words):
    with pytest.raises(ValueError, match=words):
        hybrid(**SMALL)(torch.zeros(shape))
