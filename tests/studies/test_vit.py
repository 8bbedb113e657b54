from vitbook.studies.vit import residual_block


def test_a_block_shows_each_models_size_at_every_point():
    figure = residual_block({"a": list(range(7)), "b": [9.5] * 7}, "A claim")
    told = [text.get_text() for axis in figure.axes for text in axis.texts]
    assert [f"{number:.2f}" in told for number in range(7)] == [True] * 7
    assert told.count("9.50") == 7 and {"LayerNorm", "Attention", "MLP", "+"} <= set(told)
    places = [text.get_position() for text in figure.axes[0].texts if text.get_text()]
    assert len(set(places)) == len(places)
    assert figure.get_suptitle() == "A claim"
