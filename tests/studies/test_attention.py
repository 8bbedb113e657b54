import torch

from vitbook.studies.attention import photo_and_maps, projections

TOKEN = [1, 2]
MATRICES = {"W": [[1, 0, 3], [0, 1, -1]], "V": [[4], [0.5]]}


def written(figure) -> list[str]:
    return [text.get_text() for axis in figure.axes for text in axis.texts]


def test_a_tokens_products_are_written_below_their_matrices():
    told = written(projections(TOKEN, MATRICES, ["q", "v"], "A claim"))
    numbers = [word for word in told if word not in ("token", "W", "V", "q", "v", "")]
    assert numbers == ["1", "2", *"10301", "−1", "1", "2", "1", "4", "0.5", "5"]


def test_every_matrix_is_drawn_however_many():
    many = {f"W{i}": MATRICES["W"] for i in range(8)}
    told = written(projections(TOKEN, many, [f"q{i}" for i in range(8)], "A claim"))
    assert [word for word in told if word[0:1] == "W"] == list(many)


def test_a_photo_and_its_maps_frame_the_same_place():
    figure = photo_and_maps(
        torch.zeros(3, 8, 8, dtype=torch.uint8), {"m": torch.rand(4, 2)}, (3, 1), "t"
    )
    photo, drawn, _ = figure.axes
    assert photo.patches[0].get_xy() == (3.5, 5.5)  # patches of 2 x 4 pixels
    assert drawn.patches[0].get_xy() == (0.5, 2.5)
