import pytest
import torch

from vitbook.studies.interventions import ablated_heads, lead_within_layers

HEADS = [
    {"layer": 1, "head": 1, "kind": "near", "drop": [0.5, 0.4, 0.6]},
    {"layer": 1, "head": 2, "kind": "other", "drop": [0.1, -0.1, 0.3]},
    {"layer": 2, "head": 1, "kind": "near", "drop": [0.0, -0.1, 0.1]},
]
KINDS = [
    {"kind": "idle", "compared": [], "compared_drop": None, "random_drops": []},
    {"kind": "near", "compared": [[1, 1]], "compared_drop": [1, 0.8, 1.2], "random_drops": [0.3]},
]


def test_each_head_in_its_layer_and_each_kind_beside_its_draws():
    figure = ablated_heads(HEADS, KINDS, "A claim")
    above, below = figure.axes
    dots = [line for line in above.lines if line.get_label() in ("near", "other")]
    assert [float(dot.get_ydata()[0]) for dot in dots] == [0.5, 0.1, 0.0]
    assert [round(float(dot.get_xdata()[0])) for dot in dots] == [1, 1, 2]
    assert dots[0].get_xdata()[0] < 1 < dots[1].get_xdata()[0]
    assert dots[0].get_marker() != dots[1].get_marker()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["near", "other"]
    ticks, span, dot, zero = below.lines  # a kind that was not compared has no line
    assert list(ticks.get_xdata()) == [0.3] and list(span.get_xdata()) == [0.8, 1.2]
    assert list(dot.get_xdata()) == [1] and list(zero.get_xdata()) == [0, 0]
    assert [label.get_text() for label in below.get_yticklabels()] == ["1 near"]


def test_a_lead_within_layers_by_hand():
    values = torch.tensor([[5.0, 1, 3], [0, 0, 9], [100, 100, 100]])
    # 5 less 2, and 0 less 4.5; the last layer has no other heads to compare with.
    chosen = [(0, 0), (1, 0), *((2, head) for head in range(3))]
    lead, share = lead_within_layers(values, chosen)
    assert lead == pytest.approx((3 - 4.5) / 2)
    # Of nine dealings the sums are 3, 0, -3 (layer 1) and -4.5, -4.5, 9: at least -1.5 in 5 of 9.
    assert share == pytest.approx(5 / 9, abs=0.02)


def test_labels_that_say_nothing_have_no_small_share():
    """The null: chosen by chance, a tenth of the choices lies in the lowest tenth."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(12, 6, generator=generator)
    shares = []
    for _ in range(200):
        heads = [(layer, int(torch.randint(6, (), generator=generator))) for layer in range(12)]
        shares.append(lead_within_layers(values, heads, relabelings=500)[1])
    assert 0.05 < sum(share < 0.1 for share in shares) / 200 < 0.15
    best = list(enumerate(values.argmax(1).tolist()))
    assert lead_within_layers(values, best)[1] < 0.001
