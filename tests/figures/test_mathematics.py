"""The figures' mathematics in Node alone, without a page, against numpy, torch and the library."""

from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from vitbook.analysis import attention_distance
from vitbook.figures.parts import maps
from vitbook.figures.parts.drawing import CIVIDIS, base64, heat

# A figure's room has the name of the function in it.
channels, cuts, designs, footprint, hearing, rollout, shifting = (
    import_module(f"vitbook.figures.{name}")
    for name in (
        *("channel_browser", "cutting_board", "design_counter", "token_footprint"),
        *("hearing_map", "rollout_map", "shift_meter"),
    )
)
SEEDS = pytest.mark.parametrize("seed", range(3))


@pytest.fixture
def rows():
    """A head's map of 13 tokens, whose rows sum to one."""
    scores = torch.randn(13, 13, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    return (3 * scores).softmax(-1)


@settings(deadline=None, max_examples=40)
@given(scores=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_softmax_is_that_of_torch_also_for_large_scores(js, scores):
    expected = torch.tensor(scores, dtype=torch.float64).softmax(0)
    assert js("numbers", "softmax(scores)", scores=scores) == pytest.approx(expected.tolist())
    assert js("numbers", "argmax(scores)", scores=scores) == int(np.argmax(scores))


def test_bytes_come_back_as_they_went(js):
    array = np.arange(256, dtype=np.uint8)
    assert js("numbers", "bytes(text)", text=base64(array)) == array.tolist()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 400), st.integers(1, 20))
def test_a_cell_has_a_row_and_a_column(js, cell, columns):
    row, column = divmod(cell, columns)
    assert js("numbers", "place(cell, columns)", cell=cell, columns=columns) == [row, column]
    words = js("numbers", "inWords(cell, columns)", cell=cell, columns=columns)
    assert words == f"row {row + 1}, column {column + 1}"


def test_the_cell_under_the_pointer(js):
    event, box = (
        {"clientX": 130, "clientY": 50},
        {"left": 100, "top": 40, "width": 60, "height": 40},
    )
    assert js("numbers", "inside(event, box)", event=event, box=box) == [0.5, 0.25]
    point = js("soft_lookup", "pointAt(...at, 4)", at=[0.5, 0.25])
    assert point == [0, 2], "up is positive in the plane, and down on the page"


@pytest.mark.parametrize(("number", "words"), [(-0.001, "0.00"), (-1.5, "−1.50"), (2, "2.00")])
def test_a_minus_is_a_minus_and_nought_has_none(js, number, words):
    assert js("numbers", "signed(number)", number=number) == words


def test_colours_between_stops_are_those_of_numpy(js):
    weights = np.linspace(0, 1, 41)
    drawn = js("paint", "weights.map((w) => heat(ramp)(w, 1))", weights=weights, ramp=CIVIDIS)
    assert np.abs(np.array(drawn) - heat(weights[None], 1)[0]).max() <= 0.5
    stops, places = [[0.0], [10.0], [40.0]], np.linspace(0, 1, 9)
    drawn = js("paint", "places.map((p) => between(stops, p)[0])", places=places, stops=stops)
    assert drawn == pytest.approx(np.interp(places, [0, 0.5, 1], [0, 10, 40]))
    two = js("paint", "[-9, -1, 0, 1, 2, 9].map((x) => twoSided(x, 4))")
    assert two == [0, 0.375, 0.5, 0.625, 0.75, 1]


@SEEDS
def test_a_query_gets_what_attention_gives(js, seed):
    query, keys, values = np.split(np.random.default_rng(seed).normal(size=(11, 2)), [1, 6])
    found = js("soft_lookup", "attend(query[0], keys, values, 1.7)",
               query=query, keys=keys, values=values)  # fmt: skip
    q, k, v = (torch.tensor(each)[None] for each in (1.7 * query, keys, values))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)[0, 0]
    assert found["output"] == pytest.approx(expected.tolist())
    hull = js("soft_lookup", "hull(points)", points=values)
    corners = values[ConvexHull(values).vertices]
    assert sorted(hull) == pytest.approx(np.array(sorted(corners.tolist())))


def test_a_masked_row_and_how_many_tokens_it_uses(js):
    scores = np.random.default_rng(0).normal(size=9)
    weights = js("locality_dial", "attend(scores, 2.5, 4)", scores=scores)
    masked = torch.tensor(2.5 * scores).index_fill(0, torch.tensor([4]), -torch.inf).softmax(0)
    assert weights == pytest.approx(masked.tolist()) and weights[4] == 0
    used = torch.distributions.Categorical(masked).entropy().exp().item()
    assert js("locality_dial", "inUse(weights)", weights=weights) == pytest.approx(used)


def test_stored_maps_and_their_distance(js, rows):
    codes, scales = maps.quantize(rows.numpy()[None, None, None])
    stored = {"codes": base64(codes), "scales": scales}
    expected = scales[0] * (codes[0, 0, 0, 5] / 255.0) ** 2
    stored["scales"] = scales.tolist()
    row = js("attention_maps", "reader(stored, [1, 1, 1, 13, 13])(0, 0, 0, 5)", stored=stored)
    assert row == pytest.approx(expected)
    far = js("attention_maps", "meanDistance(row, 4, 4, [2, 3])", row=row[1:])
    away = np.indices((3, 4)).reshape(2, 12).T - [1, 0]
    assert far == pytest.approx(row[1:] @ np.linalg.norm(away * [2, 3], axis=1))


@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize("sigma", [3, 12.5])
def test_a_gaussian_heads_distance_is_the_probes(js, sigma, renormalize):
    head = js("distance_meter", "gaussian(distances([3, 5], [4, 6]), sigma, 0.6)", sigma=sigma)
    full = torch.zeros(1, 1, 16, 16, dtype=torch.float64)
    full[0, 0, :, 0] = 1 - 0.6
    full[0, 0, 1:, 1:] = torch.tensor(head)
    expected = attention_distance(full, (3, 5), (4, 6), 1, renormalize=renormalize).item()
    found = js("distance_meter", "attentionDistance(head, distances([3, 5], [4, 6]), again)",
               head=head, again=renormalize)  # fmt: skip
    assert found == pytest.approx(expected, rel=1e-5)


def test_a_row_without_weight_has_no_distance(js):
    assert js("distance_meter", "attentionDistance([[0, 0]], [[0, 1]], true)") == "nan"


def test_a_rollout_is_the_librarys(js, rows):
    layers = torch.stack([rows, rows.flip(0), rows.flip(1)]).numpy()
    carried = js("rollout_map", "carry(row, layers, 0.25)", row=np.eye(13)[3], layers=layers)
    every = rollout.rolled(layers, 0.25)
    assert carried == pytest.approx(every[3])
    apart = js("rollout_map", "difference(rows)", rows=every)
    assert apart == pytest.approx(rollout.difference(every))


@pytest.mark.parametrize(
    "kind", ["all", "rows", "axial", "blocks", "near", "linformer", "performer"]
)
def test_who_hears_whom_and_at_what_cost(js, kind):
    data = {"pattern": kind, "side": 8, "token": 27, "keys": 5, "features": 7}
    data["block"] = hearing._BLOCK
    for layers in (1, 2, 3):
        heard = js("hearing_map", "Array.from({ length: 64 }, (_, i) => "
                   "hears(data.pattern, 8, data.block, 27, i, layers))",
                   data=data, layers=layers)  # fmt: skip
        assert heard == hearing._heard(data, layers).ravel().tolist()
    assert js("hearing_map", "pairs(data.pattern, 8, data)", data=data) == hearing._pairs(data)


@pytest.mark.parametrize(("token", "to"), [(0, 0), (15, 63), (3, 7), (12, 56)])
def test_a_corner_stays_a_corner_on_another_grid(js, token, to):
    assert js("hearing_map", "moved(token, 4, 8)", token=token) == to


def test_the_mirror_is_that_of_numpy(js):
    mirrored = js("place_waves", "Array.from({ length: 15 }, (_, i) => mirrored(i, 5))")
    assert mirrored == np.arange(15).reshape(3, 5)[:, ::-1].ravel().tolist()


@SEEDS
@pytest.mark.parametrize("stride", [1, 2, 4])
def test_edges_are_the_librarys_and_what_is_left_over(js, seed, stride):
    photo = np.random.default_rng(seed).integers(0, 256, (12, 20))
    found = [js("shift_meter", "edgeMap(photo, 20, { rows, columns, window: 4, stride, from })",
                photo=photo.ravel(), stride=stride, rows=(12 - 4) // stride + 1,
                columns=(16 - 4) // stride + 1, **{"from": shift}) for shift in (0, 3)]  # fmt: skip
    expected = [shifting.edge_map(photo[:, s : s + 16], 4, stride) for s in (0, 3)]
    assert np.array_equal(found, expected)
    rest = js("shift_meter", "best(moved, before, 3, stride).rest",
              moved=expected[1], before=expected[0], stride=stride)  # fmt: skip
    assert rest == pytest.approx(shifting._best(expected[1], expected[0], 3, stride))


@pytest.mark.parametrize("tokenizer", ["plain", "rotated", "shifted"])
def test_a_token_sees_what_the_caption_counts(js, tokenizer):
    size, patch = (12, 16), 4
    seen = footprint._seen(footprint._readings(tokenizer, 12.9, size, patch), patch)
    counts = js("token_footprint", "Array.from({ length: 12 }, (_, i) => footprint("
                "views(kind, 12.9, 4), [12, 16], 4, Math.floor(i / 4), i % 4).seen.size)",
                kind=tokenizer)  # fmt: skip
    assert counts == seen.sum((2, 3)).ravel().tolist()


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(-4, 4), st.integers(1, 8),
       st.integers(0, 30), st.integers(1, 12))  # fmt: skip
def test_windows_that_hold_a_square_or_see_some_of_it(js, window, step, first, count, start, size):
    layout = {"window": window, "step": step, "first": first}
    places = [first + step * i for i in range(count)]
    whole = sum(place <= start and start + size <= place + window for place in places)
    part = [place for place in places if set(range(place, place + window))
            & set(range(start, start + size))]  # fmt: skip
    values = {"layout": layout, "count": count, "start": start, "size": size}
    held = js("cutting_board", "holders(layout, count, start, size)", **values)
    assert held == whole == cuts._holders((window, step, first, count), start, size)
    assert js("cutting_board", "seen(layout, count, start, size)", **values) == part


def test_channels_come_back_as_they_were_stored(js):
    values = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    layer = channels._pack("m", "l", values)
    found = js("channel_browser", "Array.from({ length: 120 }, (_, i) => unpack(layer)"
               "(Math.floor(i / 60), Math.floor(i / 20) % 3, i % 20))", layer=layer)  # fmt: skip
    codes, scale = channels.quantize(values)
    expected = np.sign(codes) * scale * (codes / 127.0) ** 2
    assert np.abs(found - expected.ravel()).max() < 1e-5 * scale


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 24), st.integers(1, 32), st.integers(1, 4))
def test_a_network_is_counted_as_in_the_chapter(js, depth, width, ratio):
    width *= 32
    found = js("design_counter", "count(depth, width, hidden, network)", depth=depth, width=width,
               hidden=ratio * width, network=designs.NETWORK)  # fmt: skip
    assert (found["parameters"], found["macs"]) == designs.count(depth, width, ratio * width)


@SEEDS
def test_the_area_under_a_curve_is_that_of_torch(js, seed):
    points = np.random.default_rng(seed).uniform(size=17)
    expected = torch.trapezoid(torch.tensor(points), dx=1 / 16).item()
    assert js("deletion_curves", "area(points)", points=points) == pytest.approx(expected)
    under = np.flatnonzero(points < 0.5)[0]
    assert js("deletion_curves", "firstUnderHalf(points)", points=points) == under


@pytest.mark.parametrize(
    ("change", "words"), [(0, "0"), (0.312, "0.31"), (3.2e-7, "3 × 10⁻⁷"), (0.00451, "5 × 10⁻³")]
)
def test_tiny_changes_are_said_by_their_power_of_ten(js, change, words):
    assert js("patch_shuffle", "amount(change)", change=change) == words


def test_a_vision_transformer_reads_as_in_torch(js, reader, model, images):
    for name, value in model.state_dict().items():
        model.state_dict()[name].copy_(value.half().float())  # as the page stores them
    found = js("vision_transformer", "read(pixels, load(data)).logits",
               pixels=images[0].ravel(), data=reader.data)  # fmt: skip
    with torch.no_grad():
        expected = model(images[:1] / 127.5 - 1)[0]
    assert found == pytest.approx(expected.tolist(), abs=2e-3)
