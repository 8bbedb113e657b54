"""The model in the page computes what torch computes."""

import numpy as np
import pytest
import torch

from vitbook import create_model
from vitbook.analysis import capture_attention
from vitbook.explorer import digit_reader
from vitbook.explorer.reader import _weights, forward

LABELS = torch.tensor([1, 2, 3])


@pytest.fixture
def rounded(model):
    """The model with the float16 weights that the page holds."""
    model.load_state_dict(
        {name: value.half().float() for name, value in model.state_dict().items()}
    )
    return model


def computed(page):
    logits, maps = page.evaluate(
        "(f => [f.logits, f.maps])(document.querySelector('.vitbook-figure'))"
    )
    return torch.tensor(logits), torch.tensor(maps)


def expected(model, image):
    with torch.no_grad(), capture_attention(model) as maps:
        logits = model(image[None].float() / 127.5 - 1)
    return logits[0], torch.cat(list(maps.values()))


def test_logits_and_attention_equal_torch(show, reader, rounded, images):
    page = show(reader)
    for i, image in enumerate(images):
        page.locator("[data-control=example] button").nth(i).click()
        (logits, maps), (true_logits, true_maps) = computed(page), expected(rounded, image)
        assert maps.shape == true_maps.shape == (4, 4, 17, 17)
        assert true_maps.max() > 0.2, "attention that is nearly uniform proves little"
        torch.testing.assert_close(logits, true_logits, atol=2e-3, rtol=0)
        torch.testing.assert_close(maps, true_maps, atol=2e-4, rtol=0)


def test_the_still_is_computed_alike(rounded, images):
    logits, maps = forward(_weights(rounded), 4, images)
    true_logits, true_maps = expected(rounded, images[0])
    torch.testing.assert_close(logits[0], true_logits, atol=1e-4, rtol=0)
    torch.testing.assert_close(maps[:, 0], true_maps, atol=1e-5, rtol=0)


def level(page):
    """The pad as levels from 0 to 16."""
    data = page.locator(".vb-pad canvas").evaluate(
        "canvas => [...canvas.getContext('2d').getImageData(0, 0, 8, 8).data]"
    )
    return np.array(data).reshape(8, 8, 4)[..., 0] * 16 / 255


def stroke(page, above, below):
    """From the upper edge of the pad to the lower one, at these shares of its width."""
    pad = page.locator(".vb-pad").bounding_box()
    page.mouse.move(pad["x"] + pad["width"] * above, pad["y"] + 5)
    page.mouse.down()
    page.mouse.move(pad["x"] + pad["width"] * below, pad["y"] + pad["height"] - 5, steps=6)
    page.mouse.up()


def test_a_stroke_leaves_grey_edges_in_whole_levels(show, reader):
    page = show(reader)
    page.click("[data-control=clear]")
    assert level(page).max() == 0
    stroke(page, 0.6, 0.4)
    levels = level(page)
    assert np.abs(levels - levels.round()).max() < 0.04
    assert (levels.max(1) > 9).all() and (levels[:, [0, 1, 6, 7]] == 0).all()
    assert len(np.unique(levels.round())) > 5
    assert "writer" not in page.locator(".vb-readout").inner_text()


def test_the_first_stroke_does_not_land_on_the_digit_that_is_shown(show, reader):
    page = show(reader)
    assert level(page)[:, 4:].max() > 0
    stroke(page, 0.1, 0.1)
    first = level(page)
    assert first[:, 0].min() > 9 and first[:, 3:].max() == 0
    stroke(page, 0.9, 0.9)
    assert level(page)[:, :3].tolist() == first[:, :3].tolist()  # the second goes beside the first


def test_the_pad_is_drawn_on_by_keyboard(show, reader):
    page = show(reader)
    page.click("[data-control=clear]")
    page.locator("[data-control=pad] [tabindex='0']").focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert [tuple(at) for at in np.argwhere(level(page) > 15)] == [(0, 0), (1, 1)]
    page.keyboard.press("Enter")
    assert [tuple(at) for at in np.argwhere(level(page) > 0)] == [(0, 0)]


def test_a_head_can_be_chosen(show, reader):
    page = show(reader)
    page.select_option("[data-control=look]", "0 2")
    maps = computed(page)[1]
    assert f"{maps[0, 2, 0, 0]:.2f} of the weight stays" in page.locator(".vb-live").inner_text()


def test_mistakes_are_named(show, model, images):
    with torch.no_grad():
        read = model(images.float() / 127.5 - 1).argmax(-1)
    figure = digit_reader(model, (images, (read + torch.tensor([0, 1, 0])) % 10))
    assert "it reads 2 as their writers meant them" in figure.description
    page = show(figure)
    assert "mistake" not in page.locator(".vb-readout").inner_text()
    page.locator("[data-control=example] button").nth(1).click()
    assert "a mistake" in page.locator(".vb-readout").inner_text()


def test_other_architectures_are_refused(model, images):
    with pytest.raises(ValueError, match="does not know Linear: .* pass vit_micro_patch2_8"):
        digit_reader(torch.nn.Linear(2, 2), (images, LABELS))
    with pytest.raises(ValueError, match="3 channels, expected one of each"):
        digit_reader(create_model("vit_micro_patch2_8", channels=3), (images, LABELS))
    with pytest.raises(ValueError, match="examples came as 1 x 8 x 6, expected grey images"):
        digit_reader(model, (images[..., :6], LABELS))
    with pytest.raises(ValueError, match="3 examples came with 2 labels"):
        digit_reader(model, (images, LABELS[:2]))
