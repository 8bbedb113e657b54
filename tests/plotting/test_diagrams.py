import pytest

from vitbook.plotting import projections, residual_block
from vitbook.plotting.diagrams import POINTS

TOKEN = [1, 2]
MATRICES = {"W": [[1, 0, 3], [0, 1, -1]], "V": [[4], [0.5]]}


def written(figure) -> list[str]:
    return [text.get_text() for axis in figure.axes for text in axis.texts]


def test_a_block_shows_each_models_size_at_every_point():
    figure = residual_block({"a": list(range(7)), "b": [9.5] * 7}, "A claim")
    told = written(figure)
    assert [f"{number:.2f}" in told for number in range(7)] == [True] * 7
    assert told.count("9.50") == 7 and {"LayerNorm", "Attention", "MLP", "+"} <= set(told)
    places = [text.get_position() for text in figure.axes[0].texts if text.get_text()]
    assert len(set(places)) == len(places)
    assert figure.get_suptitle() == "A claim"


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({}, "0 models: expected one or two"),
        ({"a": [1] * 6}, r"a has sizes \[1, 1, 1, 1, 1, 1\]: expected 7 finite numbers, for z, n"),
        ({"a": [float("nan")] * 7}, "expected 7 finite numbers"),
        ({name: [1] * 7 for name in "abc"}, "3 models"),
    ],
)
def test_sizes_that_no_block_has_are_refused(sizes, said):
    assert len(POINTS) == 7
    with pytest.raises(ValueError, match=said):
        residual_block(sizes, "A claim")


def test_a_tokens_products_are_written_below_their_matrices():
    told = written(projections(TOKEN, MATRICES, ["q", "v"], "A claim"))
    numbers = [word for word in told if word not in ("token", "W", "V", "q", "v", "")]
    assert numbers == ["1", "2", *"10301", "−1", "1", "2", "1", "4", "0.5", "5"]


@pytest.mark.parametrize(
    ("matrices", "results", "said"),
    [
        ({"W": [[1, 2]]}, ["q"], r"W has rows of \[2\] numbers: expected 2 rows"),
        ({"W": [[1, 2], [1]]}, ["q"], r"rows of \[2, 1\]"),
        (MATRICES, ["q"], "1 names for 2 products"),
    ],
)
def test_matrices_that_do_not_fit_the_token_are_refused(matrices, results, said):
    with pytest.raises(ValueError, match=said):
        projections(TOKEN, matrices, results, "A claim")


def test_every_matrix_is_drawn_however_many():
    many = {f"W{i}": MATRICES["W"] for i in range(8)}
    told = written(projections(TOKEN, many, [f"q{i}" for i in range(8)], "A claim"))
    assert [word for word in told if word[0:1] == "W"] == list(many)


def test_a_token_of_no_numbers_is_refused():
    with pytest.raises(ValueError, match="a token of 0 numbers: expected one or more"):
        projections([], {}, [], "A claim")
