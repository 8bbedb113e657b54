import math

import pytest
import timm
import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from transformers import ViTConfig, ViTModel

import vitbook
from vitbook.analysis import (
    mirror_similarity,
    position_norms,
    position_tables,
    positional_similarity,
)
from vitbook.models.papers.vit import Body, vit


def wave(grid, down, across, width=6, prefix=0):
    """A table in which every number goes up and down ``down`` times along the rows."""
    rows, columns = grid
    y, x = torch.arange(rows)[:, None] / rows, torch.arange(columns) / columns
    phases = torch.arange(width) * 0.7
    places = torch.cos(2 * math.pi * (down * y + across * x)[..., None] + phases)
    return torch.cat([torch.full((prefix, width), 100.0), places.reshape(-1, width)])


@pytest.mark.parametrize("prefix", [0, 1, 2, 5])
@pytest.mark.parametrize("grid", [(10, 14), (4, 4), (1, 7)])
def test_tiles_are_the_cosines_of_every_two_places(grid, prefix):
    rows, columns = grid
    table = torch.randn(prefix + rows * columns, 12)
    tiles = positional_similarity(table, grid, prefix)
    assert tiles.shape == (rows, columns, rows, columns)
    for i, j, k, m in ((0, 0, 0, 0), (0, columns - 1, rows - 1, 2), (rows - 1, 1, 0, columns - 2)):
        one, other = table[prefix + i * columns + j], table[prefix + k * columns + m]
        wanted = F.cosine_similarity(one, other, 0).item()
        assert tiles[i, j, k, m].item() == pytest.approx(wanted, abs=1e-6)
    lengths = position_norms(table, grid, prefix)
    assert lengths[-1, -1].item() == pytest.approx(table[-1].norm().item())
    assert torch.allclose(positional_similarity(3 * table, grid, prefix), tiles, atol=1e-6)


def test_a_place_of_zeros_has_no_direction():
    table = torch.eye(6)
    table[3] = 0
    tiles = positional_similarity(table, (2, 3), 0)
    assert tiles[1, 0].isnan().all() and tiles[0, 0].isnan().sum() == 1
    assert position_norms(table, (2, 3), 0).tolist() == [[1, 1, 1], [0, 1, 1]]


@pytest.mark.parametrize("probe", [positional_similarity, position_norms])
def test_a_table_that_does_not_fit_or_is_no_number(probe):
    with pytest.raises(ValueError, match="21 rows, but 2 prefix tokens and a grid of 4x5 make 22"):
        probe(torch.randn(21, 8), (4, 5), 2)
    with pytest.raises(ValueError, match="the table holds NaN or infinity"):
        probe(torch.full((20, 8), torch.nan), (4, 5), 0)


def own(**changes):
    body = Body(24, 2, num_heads=3, mlp_width=48)
    return vit(image_size=(40, 56), patch_size=4, num_classes=5, body=body, **changes)


def test_own_models_say_their_tables():
    tables = position_tables(own())
    assert list(tables) == ["position"]
    assert tables["position"].grid_size == (10, 14) and tables["position"].num_prefix_tokens == 1
    assert positional_similarity(*tables["position"]).shape == (10, 14, 10, 14)
    for name, paths in {
        "pos2d": ["position"],
        "sinusoid": ["position"],
        "sinusoid2d": ["position"],
        "layerpos": [f"encoder.positions.{layer}" for layer in range(4)],
        "layerpos2d": [f"encoder.positions.{layer}" for layer in range(4)],
        "sharedpos": ["encoder.positions.0"],
    }.items():
        tables = position_tables(vitbook.create_model(f"vit_{name}_micro_patch2_8"))
        assert list(tables) == paths
        assert all(t.table.shape == (17, 64) and t.grid_size == (4, 4) for t in tables.values())
    assert list(position_tables(vitbook.create_model("t2t_vit_micro_patch2_8"))) == ["position"]


@pytest.mark.parametrize("kind", ["nopos", "relpos", "relpos2d", "rope"])
def test_a_model_without_a_table_says_so(kind):
    model = vitbook.create_model(f"vit_{kind}_micro_patch2_8")
    with pytest.raises(ValueError, match="VisionTransformer adds no table of positions"):
        position_tables(model)


@pytest.mark.parametrize(
    ("name", "changes", "prefix"),
    [
        ("vit_tiny_patch16_224", {"img_size": (160, 224)}, 1),
        ("deit_tiny_distilled_patch16_224", {"img_size": (160, 224)}, 2),
        ("vit_tiny_patch16_224", {"img_size": (160, 224), "reg_tokens": 4}, 5),
        ("vit_tiny_patch16_224",
         {"img_size": (160, 224), "class_token": False, "global_pool": "avg"}, 0),
        ("vit_base_patch14_reg4_dinov2", {"img_size": (140, 196)}, 0),  # no_embed_class
    ],
)  # fmt: skip
def test_timm_models_say_their_tables(name, changes, prefix):
    model = timm.create_model(name, depth=2, embed_dim=24, num_heads=3, **changes)
    (table,) = position_tables(nn.Sequential(model)).values()
    assert table.grid_size == (10, 14) and table.num_prefix_tokens == prefix
    assert torch.equal(table.table[prefix:], model.pos_embed[0, prefix:])
    assert not table.table.requires_grad


def test_torchvision_and_hugging_face_say_theirs():
    torchs = torchvision.models.VisionTransformer(32, 8, 1, 2, 24, 48)
    (table,) = position_tables(torchs).values()
    assert table.grid_size == (4, 4) and table.num_prefix_tokens == 1
    assert torch.equal(table.table, torchs.encoder.pos_embedding[0])
    face = ViTModel(
        ViTConfig(image_size=(32, 48), patch_size=8, hidden_size=24, num_hidden_layers=1,
                  num_attention_heads=3, intermediate_size=48)
    )  # fmt: skip
    (table,) = position_tables(face).values()
    assert table.grid_size == (4, 6) and table.num_prefix_tokens == 1
    assert positional_similarity(*table).shape == (4, 6, 4, 6)


def on_columns(of_columns, rows=5, prefix=1):
    """A table that knows its column alone."""
    places = of_columns[None].expand(rows, -1, -1).flatten(0, 1)
    return torch.cat([torch.ones(prefix, places.shape[1]), places])


@pytest.mark.parametrize("side", [7, 8])
def test_a_mirrored_table_is_alike_in_its_mirror_and_nowhere_else(side):
    torch.manual_seed(0)
    vectors = torch.linalg.qr(torch.randn(24, side)).Q.T  # at right angles
    half = side // 2
    vectors[side - half :] = vectors[:half].flip(0)
    table = on_columns(vectors)
    found = mirror_similarity(table, (5, side), 1)
    assert found.mirrored == pytest.approx(1, abs=1e-6)
    assert found.others == pytest.approx(0, abs=1e-6)
    down = mirror_similarity(table, (5, side), 1, upside_down=True)
    assert down.mirrored == pytest.approx(down.others) == pytest.approx(1)  # one column, one vector


def test_what_depends_on_the_distance_alone_has_no_mirror():
    places = torch.cartesian_prod(torch.arange(9.0), torch.arange(9.0)).double()
    bell = torch.exp(-(torch.cdist(places, places) ** 2) / 8)
    values, vectors = torch.linalg.eigh(bell)
    smooth = vectors * values.clamp(min=0).sqrt()
    for upside_down in (False, True):
        found = mirror_similarity(smooth, (9, 9), 0, upside_down=upside_down)
        assert found.mirrored == pytest.approx(found.others, abs=1e-6)
    ring = wave((5, 16), 0, 2)  # comes back, for mirrored places and for others
    found = mirror_similarity(ring, (5, 16), 0)
    assert found.mirrored == pytest.approx(found.others, abs=0.35)


def test_noise_has_no_mirror_and_five_places_are_needed():
    torch.manual_seed(0)
    found = mirror_similarity(torch.randn(401, 64), (20, 20), 1)
    assert abs(found.mirrored) < 0.03 and abs(found.others) < 0.03
    with pytest.raises(ValueError, match="a side of 3 places: expected 5 at least"):
        mirror_similarity(torch.randn(15, 4), (5, 3), 0)
    assert mirror_similarity(torch.randn(15, 4), (5, 3), 0, upside_down=True)


def test_a_grid_of_one_place():
    table = torch.tensor([[9.0, 9.0], [3.0, 4.0]])
    assert positional_similarity(table, (1, 1), 1).item() == pytest.approx(1)
    assert position_norms(table, (1, 1), 1).item() == 5
    with pytest.raises(ValueError, match="a side of 1 places: expected 5 at least"):
        mirror_similarity(table, (1, 1), 1)


def test_a_grid_or_a_table_that_is_none_is_one_sentence(plain_vitbook):
    said = plain_vitbook("""
        import torch
        from vitbook import analysis
        table = torch.ones(4, 3)
        wrong = (
            (table, (0, 4), 0), (table, (-2, -2), 0), (table, 4, 0), (table, (2.0, 2.0), 0),
            (table, (2, 2, 1), 0), (table, (True, 4), 0), (table, (3, 2), -2),
            (table, (2, 2), 0.0), (table[0], (1, 3), 0), (table[:, :0], (2, 2), 0),
            (table * 1j, (2, 2), 0),
        )
        for given in wrong:
            for probe in (
                analysis.positional_similarity, analysis.mirror_similarity,
                analysis.position_norms,
            ):
                try:
                    probe(*given)
                except (TypeError, ValueError) as error:
                    print(error)
        print(analysis.position_norms(torch.tensor([[3, 4]]), (1, 1), 0))  # whole numbers
    """).splitlines()
    grids = ["(0, 4)", "(-2, -2)", "4", "(2.0, 2.0)", "(2, 2, 1)", "(True, 4)"]
    expected = [
        *(f"grid_size {grid}: expected (rows, columns), whole numbers above 0" for grid in grids),
        *(f"num_prefix_tokens {number}: expected 0 or more" for number in (-2, 0.0)),
        *(f"a table of shape {shape}: expected (tokens, width)" for shape in ("(3,)", "(4, 0)")),
        "the table is complex: expected real numbers, torch.view_as_real(table)",
    ]
    assert said == [each for each in expected for _ in range(3)] + ["tensor([[5.]])"]
