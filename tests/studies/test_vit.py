import re

import torch
from torch import nn

from vitbook import create_model, layers
from vitbook.studies import vit as study
from vitbook.studies.vit.claims import evidence
from vitbook.studies.vit.measures import trend_of


def test_the_drawing_has_the_shapes_of_the_model():
    with torch.device("meta"):
        model, image = create_model("vit_small_patch16_224"), torch.zeros(1, 3, 224, 224)
        passed = {
            "196 × 384": model.tokenizer(image), "197 × 384": model.embed(image),
            "1,000 logits": model(image),
        }  # fmt: skip
    drawn = repr(study.whole(torch.zeros(3, 224, 224, dtype=torch.uint8)))
    for told, tensor in passed.items():
        numbers = [int(each.replace(",", "")) for each in re.findall(r"[\d,]+", told)]
        assert list(tensor.shape[1:]) == numbers and told in drawn
    assert f"[Encoder block, {len(model.encoder.blocks)} times" in drawn
    assert f"{model.encoder.blocks[0].attention.num_heads} heads" in drawn
    assert model.tokenizer.projection.weight[0].numel() == 768 and "196 × 768" in drawn


def test_a_row_shows_each_patch_and_its_token():
    image, embed = torch.zeros(3, 224, 224, dtype=torch.uint8), torch.eye(768)
    image[:, 16:32, 32:48] = 255  # row 1, column 2
    html = study.patch_row(image, embed, row=1, first=0)._repr_html_()
    assert html.count(">× E<") == 3 and html.count("<img") == 7
    drawn = re.findall(r"base64,([^\"]+)", html)[1:]
    patches, tokens = drawn[::2], drawn[1::2]
    assert patches[0] == patches[1] != patches[2]
    assert tokens[0] == tokens[1] != tokens[2]


def test_positions_on_a_line_follow_their_distance_and_random_ones_do_not():
    spots = torch.arange(16.0)[:, None]
    assert trend_of(-(spots - spots.T).abs(), (1, 16)) < -0.999
    model = create_model("vit_micro_patch2_8")
    assert abs(study.grid_trend(model)) < 0.5
    with torch.no_grad():
        corners = torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0))
        model.position.table[1:, :2] = 9 + corners  # near ones point almost one way
        model.position.table[1:, 2:] = 0
    assert study.grid_trend(model) < -0.5


def test_a_patch_looks_at_what_it_asks_for():
    class Fixed(nn.Module):
        num_prefix_tokens, grid_size = 1, (2, 3)

        def __init__(self):
            super().__init__()
            self.attend = layers.SelfAttention(6, 1)

        def forward(self, images):
            return self.attend(images)

    model = Fixed()
    for weight in model.parameters():
        nn.init.zeros_(weight)
    found = study.looks(model, torch.randn(4, 7, 6), (1, 2), (0, 2), (1, 3))
    assert found.shape == (1, 1, 4)  # even attention: four patches of seven tokens
    torch.testing.assert_close(found, torch.full((1, 1, 4), 4 / 7))


def test_older_methods_are_asked_about_the_held_out_digits():
    guesses = study.older()
    assert list(guesses) == ["logistic regression", "nearest neighbour"]
    assert all(len(each) == 355 and int(each.max()) == 9 for each in guesses.values())


def test_the_evidence_says_by_how_much_eyes_are_ahead_of_each_control():
    (eyes,) = (table for table in evidence().tables if "eye" in table.title)
    shares = {
        (line["images"], line["asks"]): float(line["share"].removesuffix(" %"))
        for line in eyes.lines
    }
    leads = [line for line in eyes.lines if line["eyes of faces give more by"]]
    assert len(leads) == 3
    for line in leads:
        lead = float(line["eyes of faces give more by"].split()[0])
        gap = shares["face", "eye"] - shares[line["images"], line["asks"]]
        assert abs(lead - gap) < 0.11 and lead > 0
