"""The model in the page computes what torch computes."""

import pytest
import torch

from vitbook import create_model
from vitbook.analysis import capture_attention
from vitbook.figures import digit_reader
from vitbook.figures.digit_reader import _weights, forward

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


def test_the_caption_is_computed_alike(rounded, images):
    logits, maps = forward(_weights(rounded), 4, images)
    true_logits, true_maps = expected(rounded, images[0])
    torch.testing.assert_close(logits[0], true_logits, atol=1e-4, rtol=0)
    torch.testing.assert_close(maps[:, 0], true_maps, atol=1e-5, rtol=0)


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
