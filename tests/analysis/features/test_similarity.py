import math

import pytest
import timm
import torch

from vitbook.analysis import (
    cka,
    linear_cka,
    list_blocks,
    unbiased_hsic,
)
from vitbook.errors import UnknownNameError
from vitbook.models.papers.vit import Body, vit


def naive_hsic(k, second):
    """Song et al. 2012, as printed: the diagonal set to zero, ones written out."""
    n = len(k)
    k, second = (m - torch.diag(m.diag()) for m in (k, second))
    ones = torch.ones(n, dtype=k.dtype)
    total = (
        torch.trace(k @ second)
        + (ones @ k @ ones) * (ones @ second @ ones) / ((n - 1) * (n - 2))
        - 2 / (n - 2) * (ones @ k @ second @ ones)
    )
    return total / (n * (n - 3))


def by_quadruples(x, y):
    """The same as an average over four different images, one kernel number each."""
    n, total, count = len(x), 0.0, 0
    k, second = x @ x.T, y @ y.T
    for i in range(n):
        for j in range(n):
            for q in range(n):
                for r in range(n):
                    if len({i, j, q, r}) == 4:
                        total += k[i, j] * (second[i, j] + second[q, r] - 2 * second[i, q])
                        count += 1
    return total / count


def test_hsic_is_the_formula_and_the_mean_over_quadruples():
    x, y = torch.randn(7, 3).double(), torch.randn(7, 5).double()
    found = unbiased_hsic(x @ x.T, y @ y.T)
    assert found.item() == pytest.approx(naive_hsic(x @ x.T, y @ y.T).item())
    assert found.item() == pytest.approx(by_quadruples(x, y).item())


def test_hsic_of_independent_noise_is_zero_on_average():
    torch.manual_seed(0)
    x, y = torch.randn(4000, 6, 10), torch.randn(4000, 6, 10)
    values = unbiased_hsic(x @ x.mT, y @ y.mT)
    assert abs(values.mean()) < 4 * values.std() / math.sqrt(4000)


def test_cka_is_one_for_the_same_up_to_rotation_scale_and_shift():
    torch.manual_seed(0)
    x = torch.randn(40, 8)
    turn, _ = torch.linalg.qr(torch.randn(8, 8))
    for same in (x, x @ turn, -7 * x, x + 3, torch.cat([x, torch.zeros(40, 5)], 1)):
        assert linear_cka(x, same).item() == pytest.approx(1, abs=1e-6)
    assert linear_cka(x, x * torch.tensor([9.0] + 7 * [1])).item() < 0.95  # not to any map


def test_cka_of_noise_is_near_zero_where_the_biased_estimate_is_not():
    torch.manual_seed(0)
    pairs = torch.randn(50, 2, 32, 1000)
    unbiased = torch.stack([linear_cka(x, y) for x, y in pairs])
    assert abs(unbiased.mean()) < 0.02 and (unbiased < 0).any()

    def centered(x):
        k = (x - x.mean(0)) @ (x - x.mean(0)).T
        return k / k.norm()

    biased = torch.stack([(centered(x) * centered(y)).sum() for x, y in pairs])
    assert biased.mean() > 0.8


def own(depth=3, seed=0, width=24, **changes):
    torch.manual_seed(seed)
    body = Body(width, depth, num_heads=3, mlp_width=48)
    return vit(**dict(image_size=(40, 56), patch_size=4, num_classes=5, body=body) | changes)


def test_cka_of_models_is_that_of_their_outputs_batch_by_batch():
    a, b = own().train(), own(depth=2, seed=1, width=12)
    images = torch.randn(20, 3, 40, 56)
    found = cka(a, b, images, batch_size=8)
    assert found.shape == (3, 2) and all(module.training for module in a.modules())

    outputs = {}
    for name, model in (("a", a), ("b", b)):
        model.eval()
        with torch.no_grad():
            tokens = model.embed(images)
            for number, block in enumerate(model.encoder.blocks):
                tokens = block(tokens)
                outputs[name, number] = tokens.flatten(1).double()

    def mean_hsic(x, y):
        parts = ((0, 7), (7, 14), (14, 20))
        return sum(
            naive_hsic(x[s:e] @ x[s:e].T, y[s:e] @ y[s:e].T).item() for s, e in parts
        ) / len(parts)  # fmt: skip

    for i in range(3):
        for j in range(2):
            x, y = outputs["a", i], outputs["b", j]
            expected = mean_hsic(x, y) / math.sqrt(mean_hsic(x, x) * mean_hsic(y, y))
            assert found[i, j].item() == pytest.approx(expected, rel=1e-3)


def test_a_model_with_itself():
    model, images = own(), torch.randn(12, 3, 40, 56)
    found = cka(model, model, images)
    assert found.diagonal().numpy() == pytest.approx(1, abs=1e-9)
    assert torch.allclose(found, found.T) and found[0, 1] > found[0, 2]
    one = cka(model, model, images, ["encoder.blocks.2"], ["encoder.blocks.0", "encoder.norm"])
    assert one[0, 0].item() == pytest.approx(found[2, 0].item()) and one.shape == (1, 2)


def test_small_batches_have_no_bias():
    """The mean over batches of 4 comes near what all images say at once."""
    model, other = own(depth=1), own(depth=1, seed=3)
    images = torch.randn(160, 3, 40, 56, generator=torch.Generator().manual_seed(0))
    whole = cka(model, other, images, batch_size=160).item()
    few = cka(model, other, images, batch_size=4).item()
    assert few == pytest.approx(whole, abs=0.1)


def test_the_last_batch_is_never_too_small():
    model, images = own(), torch.randn(10, 3, 40, 56)
    assert cka(model, model, images, batch_size=4).isfinite().all()  # 5 and 5, not 4, 3 and 3


def test_across_libraries_and_in_half_precision():
    foreign = timm.create_model(
        "vit_tiny_patch16_224", depth=2, embed_dim=24, num_heads=3, img_size=(160, 224)
    )
    images = torch.randn(8, 3, 160, 224)
    model = own(depth=2, image_size=(160, 224), patch_size=16)
    found = cka(foreign, model, images)
    assert found.shape == (2, 2) and found.isfinite().all()
    half = cka(foreign.bfloat16(), model.bfloat16(), images)
    assert torch.allclose(half, found, atol=0.02)


def test_what_cka_refuses():
    model, images = own(), torch.randn(5, 3, 40, 56)
    with pytest.raises(ValueError, match="3 images in batches of 32: expected at least 4"):
        cka(model, model, images[:3])
    with pytest.raises(ValueError, match="5 images in batches of 2: expected at least 4"):
        cka(model, model, images, batch_size=2)
    with pytest.raises(UnknownNameError, match="'encoder.blocks.7': did you mean encoder.blocks"):
        cka(model, model, images, ["encoder.blocks.7"])
    with pytest.raises(ValueError, match="no layers found in VisionTransformer"):
        cka(model, model, images, [])
    with pytest.raises(ValueError, match="3 images: expected at least 4 to compare"):
        linear_cka(torch.randn(3, 2), torch.randn(3, 2))
    assert list_blocks(model) == tuple(f"encoder.blocks.{n}" for n in range(3))
