import pytest
import timm
import torch

import vitbook
from vitbook.analysis import (
    PARTS,
    capture_attention,
    head_variance_parts,
    variance_parts,
)

GRIDS = [(4, 4), (3, 5), (1, 7), (6, 2)]


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def places(grid):
    return torch.cartesian_prod(torch.arange(grid[0]), torch.arange(grid[1]))


def of_offset(grid):
    """A random function of the offset, as scores "queries keys"."""
    at = places(grid)
    dy, dx = (at[None] - at[:, None]).unbind(-1)
    return draw(2 * grid[0] - 1, 2 * grid[1] - 1)[dy + grid[0] - 1, dx + grid[1] - 1]


def planted(part, grid, images=6):
    """Scores "images 1 queries keys" that have one part only."""
    n = grid[0] * grid[1]
    scores = {
        "offset": of_offset(grid).expand(images, n, n),
        "content": draw(images, 1, n).expand(images, n, n),
        "rest": draw(images, n, n),
    }[part]
    return scores[:, None]


def with_prefix(weights, prefix, on_prefix=0.3):
    """Rows and columns of prefix tokens in front; patches give them ``on_prefix``."""
    m, h, n, _ = weights.shape
    maps = torch.rand(m, h, prefix + n, prefix + n, generator=torch.Generator().manual_seed(1))
    maps[..., prefix:, :prefix] = on_prefix / max(prefix, 1)
    maps[..., prefix:, prefix:] = weights * (1 - on_prefix if prefix else 1)
    return maps


@pytest.mark.parametrize("prefix", [0, 1, 3])
@pytest.mark.parametrize("grid", GRIDS)
def test_a_function_of_the_offset_is_all_offset(grid, prefix):
    maps = with_prefix(planted("offset", grid).softmax(-1), prefix)
    shares = variance_parts(maps, grid, prefix, log=True).shares[0]
    assert shares.tolist() == pytest.approx([1, 0, 0, 0], abs=1e-4)


@pytest.mark.parametrize("grid", GRIDS)
def test_so_it_is_of_the_weights_where_they_are_one(grid):
    kernel = of_offset(grid)
    kernel = kernel - kernel.mean(-1, keepdim=True)
    weights = (1 + kernel / kernel.abs().max()) / kernel.shape[-1]
    maps = weights.expand(3, 1, *weights.shape)
    assert variance_parts(maps, grid, 0).shares[0, 0].item() == pytest.approx(1, abs=1e-4)


def test_a_near_head_is_mostly_offset_in_the_weights_too():
    far = torch.cdist(places((9, 9)).float(), places((9, 9)).float())
    near = (-(far**2) / 2).softmax(-1).expand(4, 1, 81, 81)
    offset, place, *others = variance_parts(near, (9, 9), 0).shares[0].tolist()
    assert 0.9 < offset < 1 and place == pytest.approx(1 - offset, abs=1e-4)
    assert others == pytest.approx([0, 0], abs=1e-4)


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("grid", GRIDS)
def test_what_no_offset_fits_and_all_images_share_is_place(grid, log):
    n = grid[0] * grid[1]
    table = draw(n, n)
    alone = variance_parts(table.softmax(-1).expand(4, 1, n, n), grid, 0, log).shares[0]
    assert alone[:2].sum().item() == pytest.approx(1, abs=1e-4)
    # Taken off by hand: a least-squares fit on the centred maps of the offsets.
    x = table - table.mean(-1, keepdim=True) if log else n * table.softmax(-1) - 1
    at = places(grid)
    _, which = torch.unique((at[None] - at[:, None]).flatten(0, 1), dim=0, return_inverse=True)
    maps = torch.nn.functional.one_hot(which).T.unflatten(-1, (n, n)).double()
    maps = (maps - maps.mean(-1, keepdim=True)).flatten(1).T
    x = x.double().flatten()
    fit = maps @ torch.linalg.lstsq(maps, x, driver="gelsd").solution
    left = (x - fit).square().sum() / x.square().sum()
    assert alone[1].item() == pytest.approx(left.item(), abs=1e-4)


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("grid", GRIDS)
def test_keys_that_all_queries_of_one_image_like_are_content(grid, log):
    # By design of the estimate, on average over images: many of them.
    maps = planted("content", grid, images=400).softmax(-1)
    shares = variance_parts(maps, grid, 0, log).shares[0]
    assert shares.tolist() == pytest.approx([0, 0, 1, 0], abs=0.02)


@pytest.mark.parametrize("log", [True, False])
def test_random_maps_have_no_part_even_of_few_images(log):
    # Plain sums of squares would call a ninth of them place.
    maps = torch.stack([planted("rest", (8, 8), 9)[:, 0] * 2, draw(9, 64, 64, seed=2)], 1)
    shares = variance_parts(maps.softmax(-1), (8, 8), 0, log).shares
    assert shares[:, :3].abs().max() < 0.01
    assert shares[:, 3].sub(1).abs().max() < 0.02


def test_a_linear_preference_is_offset_and_place_at_once_and_counts_as_offset():
    lower = places((4, 5))[:, 0].float().expand(3, 1, 20, 20).softmax(-1)
    assert variance_parts(lower, (4, 5), 0, log=True).shares[0, 0].item() == pytest.approx(1)


def test_a_sum_of_two_has_two_shares():
    grid, n = (5, 5), 25
    offset, content = planted("offset", grid, 300), planted("content", grid, 300)
    offset = offset - offset.mean(-1, keepdim=True)
    content = content - content.mean(-1, keepdim=True)
    ratio = (offset.square().mean() / content.square().mean()).sqrt()
    maps = (offset + 2 * ratio * content).softmax(-1)  # one part to four
    parts = variance_parts(maps, grid, 0, log=True)
    assert parts.shares[0].tolist() == pytest.approx([0.2, 0, 0.8, 0], abs=0.03)
    assert parts.variance.item() == pytest.approx(5 * offset.square().mean().item(), rel=0.05)
    assert n == maps.shape[-1]


def test_shares_sum_to_one_and_heads_are_apart():
    maps = torch.cat([planted(part, (3, 4)) for part in ("offset", "content", "rest")], 1)
    maps = maps.softmax(-1)
    shares = variance_parts(maps, (3, 4), 0).shares
    assert shares.shape == (3, len(PARTS))
    assert shares.sum(-1).tolist() == pytest.approx([1, 1, 1], abs=1e-5)
    alone = variance_parts(maps[:, 1:2], (3, 4), 0).shares
    assert torch.allclose(shares[1:2], alone, atol=1e-6)


def test_even_weight_has_no_variance():
    even = torch.full((2, 1, 4, 4), 0.25)
    assert variance_parts(even, (2, 2), 0).shares.isnan().all()


REFUSED = {
    "one image": (torch.full((1, 1, 4, 4), 0.25), (2, 2), "1 image"),
    "one patch": (torch.ones(2, 1, 1, 1), (1, 1), "one patch"),
    "another grid": (torch.full((2, 1, 4, 4), 0.25), (2, 3), "make 6"),
    "nan": (torch.full((2, 1, 4, 4), torch.nan), (2, 2), "NaN, infinite or negative"),
    "nothing on patches": (torch.zeros(2, 1, 4, 4), (2, 2), "without weight"),
}


@pytest.mark.parametrize(("maps", "grid", "words"), REFUSED.values(), ids=REFUSED)
def test_it_refuses(maps, grid, words):
    with pytest.raises(ValueError, match=words):
        variance_parts(maps, grid, 0)


def test_zeros_have_no_logarithm():
    with pytest.raises(ValueError, match="log=False"):
        variance_parts(torch.eye(4).expand(2, 1, 4, 4), (2, 2), 0, log=True)


MODELS = {
    "ours": lambda: (vitbook.create_model("vit_micro_patch2_8"), torch.rand(5, 1, 8, 8)),
    "timm's": lambda: (
        timm.create_model("deit_tiny_distilled_patch16_224", img_size=64, depth=2),
        torch.rand(5, 3, 64, 64),
    ),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_model_gives_what_its_maps_give(make):
    model, images = make()
    prefix = model.num_prefix_tokens
    with torch.no_grad(), capture_attention(model.eval()) as maps:
        model(images)
    parts = head_variance_parts(model, images, batch_size=2)
    for layer, weights in enumerate(maps.values()):
        alone = variance_parts(weights, (4, 4), prefix)
        assert torch.allclose(parts.shares[layer], alone.shares, atol=2e-3)
        assert torch.allclose(parts.variance[layer], alone.variance, rtol=1e-3)


def test_a_model_and_one_image_are_refused():
    with pytest.raises(ValueError, match="1 image"):
        head_variance_parts(vitbook.create_model("vit_micro_patch2_8"), torch.rand(1, 1, 8, 8))
