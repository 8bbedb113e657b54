import pytest
import torch

from vitbook import create_model, datasets
from vitbook.studies import scale
from vitbook.training.transfer.few_shot import t_interval
from vitbook.training.transfer.frozen_readers import shuffled


def test_each_patch_knows_a_place_that_the_mean_forgets(tmp_path, monkeypatch):
    body = create_model("vit_mini_patch8_32").eval()
    loaded = body, datasets.normalize, {"weights": "w", "learned_from": "nothing"}
    monkeypatch.setattr(scale, "frozen_body", lambda name, size: loaded)
    (row,) = scale.tasks(
        names=["digit_place"], model="some/run.pt", images=400, draws=2, each_patch=True,
        out=tmp_path, device="cpu",
    )  # fmt: skip
    told = row.settings
    assert row.subject == "run.pt-digit_place"
    assert (told["group"], told["classes"], told["image_size"]) == ("structured", 16, 32)
    assert (told["training_images"], told["test_images"], told["draws"]) == (200, 200, 2)
    assert 1 / 16 < told["commonest"] < 0.2 and "side by side" in told["each_patch"]
    for each in row.rows:
        assert each["accuracy"] == pytest.approx(t_interval(each["draws"]), abs=1e-3)
    read = {each["features"]: each["accuracy"][0] for each in row.rows}
    assert list(read) == [
        "pretrained",
        "fresh weights",
        "raw pixels",
        "pretrained, each patch",
        "fresh weights, each patch",
        "pretrained, shuffled patches",
    ]
    assert read["pretrained, shuffled patches"] < read["pretrained, each patch"] - 0.1
    for name in ("pretrained", "fresh weights"):
        assert read[f"{name}, each patch"] > read[name] + 0.1


def test_shuffled_patches_are_the_same_in_another_order():
    features = torch.arange(24.0).reshape(2, 12)
    found = shuffled(features, 4)
    for own, other in zip(features, found, strict=True):
        assert not torch.equal(own, other)
        assert torch.equal(other.reshape(4, 3).sort(dim=0).values, own.reshape(4, 3))
    assert torch.equal(found, shuffled(features, 4))


def test_features_that_say_nothing_score_at_chance_on_images_not_seen():
    """More features than images: a fit that saw the asked half would be right everywhere."""
    torch.manual_seed(0)
    labels = torch.arange(400) % 4
    scores = scale.score_halves(torch.randn(400, 500), labels, 5, 4)
    assert len(scores) == 5 and len(set(scores)) > 1
    assert 0.15 < sum(scores) / 5 < 0.35
    told = torch.eye(4)[labels] + 0.1 * torch.randn(400, 4)
    assert scale.score_halves(told, labels, 2, 4) == (1.0, 1.0)
