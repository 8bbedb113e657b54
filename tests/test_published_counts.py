import pytest
from typer.testing import CliRunner

from vitbook import published_counts as audit
from vitbook import runs
from vitbook.__main__ import app
from vitbook.models import list_models
from vitbook.models.papers.cnn_designs import CNN_DESIGN_MODELS


@pytest.fixture(scope="module")
def figures():
    return audit.audit()


def name_of(figure):
    return figure.row.get("counted_as", figure.row["model"])


def test_every_printed_count_is_audited(figures):
    printed = [row for row in runs.published() if row["quantity"] in audit.QUANTITIES]
    assert [figure.row for figure in figures] == printed
    assert len(printed) > 100
    here = [f for f in figures if name_of(f) in list_models() or "counted_as" in f.row]
    assert here and all(figure.counted for figure in here)
    rest = {figure.row["model"] for figure in figures if figure.counted is None}
    assert not rest & set(list_models())


def test_the_command_prints_them(figures):
    out = CliRunner().invoke(app, ["models", "--audit"]).output
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["model", "quantity", "printed", "counted", "differs", "verdict"]
    base = ["vit_base_patch16_224", "MACs", "17.6", "G", "17.56", "G", "-0.2%", "agrees"]
    assert base in lines
    assert "- t2t_vit_7, 4.2 M (Yuan et al. 2021 (T2T-ViT), second version" in out
    assert "matrix products, convolutions and" in out


def test_a_reason_for_each_that_differs_and_none_for_the_rest(figures):
    bare = [f.row for f in figures if not f.agrees and len(f.row.get("why", "")) < 8]
    assert not bare, "say in published.json why it differs"
    stale = [figure.row for figure in figures if figure.agrees and "why" in figure.row]
    assert not stale, "it agrees: take the reason out"


def test_two_printings_of_one_accuracy_are_explained():
    def printings(**which):
        return {row["printed"]: row for row in runs.published(quantity="accuracy", **which)}

    huge = dict(model="ViT-H/14", dataset="ImageNet", pretrained_on="JFT-300M")
    assert {"88.55 ± 0.04", "88.36", "88.04", "88.08"} == printings(**huge).keys()
    assert "88.55 ± 0.04" in printings(**huge)["88.36"]["why"]
    tokens = printings(model="t2t_vit_t_19", dataset="ImageNet")
    assert {"81.4 %", "82.2 %", "82.4 %", "81.75 %"} == tokens.keys()
    assert all(len(row["why"]) > 20 for row in tokens.values())


def test_rows_say_the_same_twice_and_nothing_else():
    known = {"quantity", "model", "printed", "value", "source"}
    known |= {"counted_as", "options", "image_size", "why", "dataset", "positions", "fed"}
    known |= {"pretrained_on", "epochs"}
    rows = runs.published()
    keys = [(r["quantity"], r["model"], r["printed"], r["source"]) for r in rows]
    assert len(set(keys)) == len(keys)
    for row in rows:
        assert row.keys() <= known
        if row["quantity"] in audit.QUANTITIES:
            number, unit = audit.read_printed(row["printed"])
            assert row["value"] == pytest.approx(float(number) * audit.UNITS[unit])


@pytest.mark.parametrize(
    ("counted", "printed", "agrees"),
    [
        (21_450_000, "21.5 M", True),
        (21_449_999, "21.5 M", False),
        (85_798_656, "86M", True),
        (999_499_999, "1.00 G", True),
    ],
)
def test_to_the_digit(counted, printed, agrees):
    assert audit.to_the_digit(counted, printed) is agrees
    with pytest.raises(ValueError, match="printed as '12 k': expected a number and a unit"):
        audit.to_the_digit(counted, "12 k")


def figure(quantity, printed, model="vit_tiny_patch4_32", **more):
    number, unit = audit.read_printed(printed)
    value = float(number) * audit.UNITS[unit]
    row = dict(quantity=quantity, model=model, printed=printed, value=value, source="a paper")
    (found,) = audit.audit([row | more])
    return found


def test_parameters_agree_in_one_of_three_ways():
    learned, fixed, headless = 4_255_694, 4_310_222, 3_998_694
    assert figure("parameters", "4.256 M", "t2t_vit_7").way == "learned"
    for printed, counted, way in (
        ("4.310 M", fixed, "learned and fixed"),
        ("3.999 M", headless, "without the head"),
    ):
        found = figure("parameters", printed, "t2t_vit_7")
        assert (found.counted, found.way, found.verdict) == (counted, way, "agrees")
    found = figure("parameters", "4.2 M", "t2t_vit_7")
    assert (found.counted, found.verdict) == (learned, "contradicts")


def test_macs_agree_within_two_percent_or_to_the_digit():
    counted = audit.macs("t2t_vit_7", None)
    assert counted == 1_146_738_176
    for printed, agrees in (("1.1 G", True), ("1.2 G", False), ("1.16 G", True), ("1.18 G", False)):
        assert figure("macs", printed, "t2t_vit_7").agrees is agrees
    assert figure("macs", "17.6 G", "vit_base_patch16_224").difference == pytest.approx(
        -0.002, abs=1e-3
    )


def test_a_larger_image_costs_more_and_a_batch_norm_has_no_fixed_numbers():
    assert audit.macs("t2t_vit_14", 384) > 3 * audit.macs("t2t_vit_14", None)
    assert audit.parameters("resnet20", None) == {"learned": 269_722, "without the head": 269_072}
    assert audit.parameters("torchvision.resnet50", None) == {"learned": 25_557_032}


def test_a_model_that_is_not_here():
    found = figure("parameters", "21.1 M", "T2T-ViT-14 without T2T")
    assert (found.counted, found.difference, found.verdict) == (None, None, "not here")
    (line,) = audit.table([found])
    assert line["counted"] == line["differs"] == "-"


def electras_macs(width, depth, mlp_width, num_heads, tokens=197, words=768):
    """What ELECTRA's flops_computation.py makes of an encoder, halved (its get_infer_flops)."""
    attention = (8 * width + 4 * tokens) * width + 10 * tokens * num_heads + 9 * width + 5
    mlp = 4 * width * mlp_width + 9 * mlp_width + 11 * width
    embedding = 2 * width * words + 2 * width * (tokens + 2) + 11 * width
    hidden = 2 * width * width + 11 * width
    return tokens * (depth * (attention + mlp) + embedding + hidden) / 2


@pytest.mark.parametrize(
    ("name", "expected"),
    [("vit_s16_t2t", 10.1), ("vit_resnext", 10.1), ("vit_sw", 9.8), ("vit_dn", 5.3)],
)
def test_the_authors_counter_gives_what_the_reasons_say(name, expected):
    body = CNN_DESIGN_MODELS[name]["body"]
    counted = electras_macs(body.width, body.depth, body.mlp_width, body.num_heads)
    assert round(counted / 1e9, 1) == expected
    said = {f"{expected} G" in row.get("why", "") for row in runs.published(model=name)}
    assert True in said
