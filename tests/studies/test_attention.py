import pytest
import torch

from vitbook import create_model
from vitbook.analysis import capture_attention
from vitbook.studies import attention as study


def test_a_photo_and_its_maps_frame_the_same_position():
    figure = study.photo_and_maps(
        torch.zeros(3, 8, 8, dtype=torch.uint8), {"m": torch.rand(4, 2)}, (3, 1), "t"
    )
    photo, drawn, _ = figure.axes
    assert photo.patches[0].get_xy() == (3.5, 5.5)  # patches of 2 x 4 pixels
    assert drawn.patches[0].get_xy() == (0.5, 2.5)


def test_the_lightest_tile_is_the_largest_number():
    scores = torch.tensor([[0.0, 1.0], [0.5, 3.0]])
    *_, tiles = (part for part in _images(study.lookup(scores, scores.softmax(1)).parts))
    middles = tiles[:, 10::20, 10::20].float().sum(0)
    assert tiles.shape == (3, 40, 40) and (tiles[:, 0] == 255).all()
    assert middles.flatten().argmax() == scores.softmax(1).flatten().argmax()


def _images(parts):
    for part in parts:
        if isinstance(part, torch.Tensor):
            yield part
        elif not isinstance(part, str):
            yield from _images(part)


def test_a_ring_tells_the_contents_of_both_neighbours():
    known, wanted = study.ring(2)
    assert torch.equal(wanted[:, 3, :4], known[:, 2, :4])
    assert torch.equal(wanted[:, 0, 4:], known[:, 1, :4]) and not known[..., 12:].any()


def test_an_undivided_copy_has_the_scores_of_the_model_before_the_division():
    torch.manual_seed(0)
    model, seen = create_model(study.MICRO).eval(), {}
    twin, images = study.undivided(model), torch.randn(2, 1, 8, 8)
    core = model.encoder.blocks[0].attention.core
    core.register_forward_pre_hook(lambda _, args: seen.update(q=args[0], k=args[1]))
    with torch.no_grad(), capture_attention(twin) as maps:
        twin(images)
    with torch.no_grad():
        model(images)
    expected = (seen["q"] @ seen["k"].mT).softmax(-1)
    assert torch.allclose(next(iter(maps.values())), expected, atol=1e-5)


def test_even_weights_read_all_tokens_and_a_sharp_row_reads_one():
    assert study.tokens_read(torch.full((1, 1, 3, 8), 1 / 8)) == pytest.approx(8)
    assert study.tokens_read(torch.eye(8)[None, None]) == pytest.approx(1)
