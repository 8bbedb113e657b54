"""The detector: laws of its queries, naive sums for what it reads, and its file."""

import pytest
import torch
from einops import rearrange

from vitbook.analysis import capture_attention
from vitbook.files import write_atomically
from vitbook.layers import Attention
from vitbook.studies.detection.attention import (
    CrossAttention,
    DeformableCrossAttention,
    ReferencePoints,
)
from vitbook.studies.detection.canvases import make_canvases
from vitbook.studies.detection.detector import make_detector
from vitbook.studies.detection.kept import CheckpointError, load_detector, save_detector
from vitbook.studies.detection.training import ARMS


@pytest.fixture
def images():
    return make_canvases("test", 2).images / 127.5 - 1


def fresh(**parts):
    torch.manual_seed(0)
    return make_detector(**parts).eval()


@pytest.mark.parametrize("name", ARMS)
@torch.no_grad()
def test_every_arm_answers_with_boxes_inside_the_image(name, images):
    torch.manual_seed(0)
    model = ARMS[name].make()
    layers = model.answers(images)
    for logits, boxes in layers:
        assert logits.shape == (2, model.num_queries, 11) and boxes.shape[2] == 4
        assert boxes.min() > 0 and boxes.max() < 1
    assert torch.equal(model(images).boxes, layers[-1].boxes)


@pytest.mark.parametrize("mixing", [True, False])
@torch.no_grad()
def test_permuted_queries_give_permuted_answers(images, mixing):
    model = fresh(mixing=mixing)
    before, order = model(images), torch.randperm(model.num_queries)
    model.queries.copy_(model.queries[order])
    for now, then in zip(model(images), before, strict=True):
        torch.testing.assert_close(now, then[:, order])


@torch.no_grad()
def test_a_query_hears_of_another_one_only_if_queries_mix(images):
    for mixing in (True, False):
        model = fresh(mixing=mixing)
        before = model(images).boxes[:, 1:]
        model.queries[0] += 3
        assert torch.equal(model(images).boxes[:, 1:], before) != mixing


@torch.no_grad()
def test_cross_attention_head_by_head():
    torch.manual_seed(0)
    layer, queries, tokens = CrossAttention(8, 2), torch.randn(1, 3, 8), torch.randn(1, 5, 8)
    q, k, v = layer.to_queries(queries), layer.to_keys(tokens), layer.to_values(tokens)
    heads = []
    for part in (slice(0, 4), slice(4, 8)):
        scores = q[0, :, part] @ k[0, :, part].T / 4**0.5
        heads.append(scores.softmax(-1) @ v[0, :, part])
    torch.testing.assert_close(layer(queries, tokens)[0], layer.projection(torch.cat(heads, -1)))


@torch.no_grad()
def test_all_attention_is_captured(images):
    model = fresh()
    with capture_attention(model) as maps:
        seen = model(images)
    assert torch.equal(seen.boxes, model(images).boxes)
    cross = {name: each for name, each in maps.items() if "cross" in name}
    own = {name: each for name, each in maps.items() if "decoder" in name and "cross" not in name}
    tokens = model.grid_size[0] * model.grid_size[1]
    assert {each.shape for each in cross.values()} == {(2, 4, 10, tokens)} and len(cross) == 2
    assert {each.shape for each in own.values()} == {(2, 4, 10, 10)} and len(own) == 2
    block = model.decoder.blocks[0]
    read = model.encoder(model.position(model.tokenizer(images)))
    first = model.queries.expand(2, -1, -1)
    first = block.norm2(first + block.attention(block.norm1(first)))
    q = rearrange(block.cross_attention.to_queries(first), "b q (h d) -> b h q d", h=4)
    k = rearrange(block.cross_attention.to_keys(read), "b n (h d) -> b h n d", h=4)
    torch.testing.assert_close(next(iter(cross.values())), Attention.weights(q, k))


def at(values, x, y):
    """One value of a map "rows columns", between its cells; zero beyond them."""
    rows, columns = values.shape
    total = 0.0
    for row in range(rows):
        for column in range(columns):
            near = max(0, 1 - abs(column - x)) * max(0, 1 - abs(row - y))
            total = total + near * values[row, column]
    return total


@torch.no_grad()
def test_deformable_attention_point_by_point():
    torch.manual_seed(0)
    places = ReferencePoints(3)
    layer = DeformableCrossAttention(4, 2, (3, 5), places, num_points=2)
    layer.offsets.weight.normal_()
    layer.importance.weight.normal_()
    queries, tokens = torch.randn(1, 3, 4), torch.randn(1, 15, 4)
    points, weights = layer.points(queries)[0], layer.weights(queries)[0]
    maps = rearrange(layer.values(tokens)[0], "(r c) d -> d r c", r=3)
    read = torch.zeros(3, 4)
    for query in range(3):
        for channel in range(4):
            head = channel // 2
            for k in range(2):
                x, y = points[head, query, k]
                seen = at(maps[channel], 5 * x - 0.5, 3 * y - 0.5)
                read[query, channel] += weights[head, query, k] * seen
    torch.testing.assert_close(layer(queries, tokens)[0], layer.projection(read))


@torch.no_grad()
def test_points_begin_around_spread_references():
    places = ReferencePoints(10)
    spots = places()
    apart = (spots[:, None] - spots).norm(dim=-1) + 9 * torch.eye(10)
    assert spots.min() > 0 and spots.max() < 1 and apart.min() > 0.15
    layer = DeformableCrossAttention(8, 4, (8, 8), places)
    points = layer.points(torch.randn(1, 10, 8))[0]
    steps = 8 * (points[:, 0] - spots[0])  # in tokens: right, down, left, up
    ways = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [0, -1]])
    torch.testing.assert_close(steps, ways[:, None] * torch.arange(1, 5)[:, None], atol=1e-5,
                               rtol=0)  # fmt: skip


@torch.no_grad()
def test_a_file_gives_the_same_answers_in_half_precision(images, tmp_path):
    model = fresh()
    path = save_detector(tmp_path / "one.safetensors", model, {"seed": 0})
    again, about = load_detector(path)
    assert about == {"seed": 0} and path.stat().st_size < 1e6
    torch.testing.assert_close(again(images).boxes, model(images).boxes, atol=0.02, rtol=0)


def test_files_that_are_none(tmp_path):
    path = save_detector(tmp_path / "one.safetensors", fresh(), {})
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    write_atomically(tmp_path / "two.safetensors", bytes(changed))
    with pytest.raises(CheckpointError, match="two.safetensors is damaged or no detector"):
        load_detector(tmp_path / "two.safetensors")
    other = save_detector(tmp_path / "three.safetensors", fresh(num_queries=3), {})
    with pytest.raises(CheckpointError, match="a detector of other sizes"):
        load_detector(other)
    model = fresh()
    with torch.no_grad():
        model.queries[0, 0] = 1e6
    with pytest.raises(CheckpointError, match="queries holds NaN or infinity as float16"):
        save_detector(tmp_path / "four.safetensors", model, {})
