import pytest
import torch

from vitbook.analysis import object_mask, principal_tokens, token_colors


def planted(images=3, grid=(6, 8), width=20, seed=0):
    """Tokens that are a thing in the middle and a ground around it, two directions apart."""
    generator = torch.Generator().manual_seed(seed)
    inside = torch.zeros(images, *grid, dtype=torch.bool)
    inside[:, 2:4, 2:5] = True
    tokens = 0.1 * torch.randn(images, grid[0] * grid[1], width, generator=generator)
    tokens[..., 0] += torch.where(inside.flatten(1), 5.0, -1.0)
    return tokens, inside.flatten(1)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_the_borders_do_not_show_stands_out(sign):
    tokens, inside = planted()
    assert torch.equal(object_mask(sign * tokens, (6, 8)), inside)


def test_a_grid_that_does_not_fit():
    tokens, _ = planted()
    with pytest.raises(
        ValueError, match=r"48 patches do not fill a grid of 7 x 7: leave the class"
    ):
        object_mask(tokens, (7, 7))


def test_coordinates_that_are_there_are_not_computed_again(monkeypatch):
    tokens, inside = planted()
    coordinates, _ = principal_tokens(tokens, 3)
    monkeypatch.setattr(torch.linalg, "svd", None)
    assert torch.equal(object_mask(tokens, (6, 8), coordinates), inside)


def test_coordinates_of_other_tokens(plain_vitbook):
    said = plain_vitbook("""
        import torch
        from vitbook.analysis import object_mask
        for shape in ((2, 4, 3), (3, 4)):
            try:
                object_mask(torch.ones(3, 4, 5), (2, 2), torch.ones(shape))
            except ValueError as error:
                print(error)
    """).splitlines()
    assert said == [
        f"coordinates of shape {shape}: expected (images, patches, count), those of the 3 x 4 "
        "tokens"
        for shape in ("(2, 4, 3)", "(3, 4)")
    ]


def test_components_are_those_of_all_images_and_their_shares_sum():
    tokens, _ = planted()
    found, shares = principal_tokens(tokens, 20)
    flat = (tokens - tokens.flatten(0, 1).mean(0)).flatten(0, 1)
    assert found.flatten(0, 1).mean(0).abs().max() < 1e-5
    assert torch.allclose(found.flatten(0, 1) @ found.flatten(0, 1).T, flat @ flat.T, atol=1e-3)
    assert shares.sum().item() == pytest.approx(1) and (shares.diff() <= 0).all()
    assert shares[0] > 0.9  # the planted direction; of noise it would be about a twentieth
    null = principal_tokens(torch.randn(3, 48, 20), 20)[1]
    assert null[0] < 0.2


def test_the_sign_of_a_component_is_not_chance():
    tokens, _ = planted()
    for sign in (1, -1):
        found, _ = principal_tokens(sign * tokens, 1)
        assert found.pow(3).sum() > 0


def test_the_same_tokens_have_the_same_colour_in_every_image():
    tokens, inside = planted()
    tokens[1, :5] = tokens[0, :5]
    colors = token_colors(tokens)
    assert torch.equal(colors[0, :5], colors[1, :5])
    assert colors.min() >= 0 and colors.max() <= 1 and colors.std() > 0.1
    masked = token_colors(tokens, inside)
    assert (masked[~inside] == 0).all() and (masked[inside] > 0).any()


@pytest.mark.parametrize("count", [0, 21])
def test_more_components_than_there_are(count):
    with pytest.raises(ValueError, match=f"{count} components of 144 tokens of width 20"):
        principal_tokens(planted()[0], count)


def test_an_empty_mask():
    tokens, _ = planted()
    with pytest.raises(ValueError, match="3 components of 0 tokens"):
        token_colors(tokens, torch.zeros(3, 48, dtype=torch.bool))
