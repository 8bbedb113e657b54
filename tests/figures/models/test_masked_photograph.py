"""Masked photographs: the page's guesses are those of torch, whatever is masked."""

import math
from collections import Counter
from functools import cache

import numpy as np
import pytest
import torch
from reading import FIGURE, pick, said, terms
from reading import parts as words
from small_inputs import loud, seeded
from torch import nn

from vitbook import create_model, layers
from vitbook.analysis import capture_attention
from vitbook.figures import masked_photograph
from vitbook.figures.masked_photograph.color_guesses import (
    color_classes,
    counts,
    mean_colors,
    nearest_class,
)
from vitbook.figures.parts.plain_vit import encode, halves, page_weights
from vitbook.models import VisionTransformer

ROWS, COLUMNS, PATCHES = 4, 6, 24


class Hiding(nn.Module):
    """What tells the colours of hidden patches, in ten lines."""

    def __init__(self, model):
        super().__init__()
        width = model.prefix.shape[1]
        self.model, self.mask = model, nn.Parameter(torch.zeros(width))
        self.predictor = nn.Linear(width, 8**model.tokenizer.channels)

    def forward(self, images, hidden):
        model, tokens = self.model, self.model.tokenizer(images).clone()
        tokens[:, hidden] = self.mask
        tokens = torch.cat([model.prefix.expand(len(images), -1, -1), tokens], dim=1)
        tokens = model.encoder(model.position(tokens))[:, len(model.prefix) :]
        return self.predictor(tokens[:, hidden])


def normal(learner):
    """Weights large enough that masks matter, as float16 holds them."""
    loud(learner, 6)
    with torch.no_grad():
        learner.predictor.weight.mul_(3)
        for value in learner.parameters():
            value.copy_(value.half())
    return learner


def patch_classes(photos, patch):
    """The number of the colour of each patch, one at a time."""
    high, wide = patch
    found = []
    for photo in photos:
        cut = photo.unfold(1, high, high).unfold(2, wide, wide).flatten(3).long()
        steps = cut.sum(-1) // (32 * high * wide)  # "channels rows columns"
        found.append(sum(step * 8**place for place, step in enumerate(steps.flip(0))).flatten())
    return torch.stack(found)


@cache
def learner():
    """A learner of 4 x 6 patches in colour."""
    return normal(Hiding(create_model("vit_micro_patch2_8", channels=3, image_size=(8, 12))))


@cache
def landscapes():
    """Three photographs of 4 x 6 flat patches of few colours, with a little noise."""
    colors = torch.tensor([[200, 60, 30], [40, 90, 220], [130, 140, 120]])
    which = torch.randint(0, 3, (3, 4, 6), generator=seeded(7))
    flat = colors[which].permute(0, 3, 1, 2).repeat_interleave(2, 2).repeat_interleave(2, 3)
    return (flat + torch.randint(-25, 26, flat.shape, generator=seeded(8))).to(torch.uint8)


@cache
def sample():
    return masked_photograph(learner(), landscapes(), names=("cat", "<rocket>", "flower"))


START = sample().data["start"]

# A reader's masks are drawn by luck, a test's by the minimal standard of Park and Miller.
SEEDED = "let seed = 7; Math.random = () => (seed = (seed * 48271) % 2147483647) / 2147483647"


@pytest.fixture
def page(page):
    page.evaluate(SEEDED)
    return page


def levels(color, channels):
    """The steps of a class, 0 to 7 in each channel."""
    return [color // 8 ** (channels - 1 - i) % 8 for i in range(channels)]


def middle(color, channels):
    """The colour in the middle of a class, as red, green and blue."""
    found = [32 * level + 16 for level in levels(color, channels)]
    return found if channels == 3 else 3 * found


@torch.no_grad()
def torchs(learner, photo, masked):
    """Shares of the colours of the masked patches, and the true classes, by the learner itself."""
    logits = learner(photo[None] / 127.5 - 1, masked)[0]
    return logits.softmax(-1), patch_classes(photo[None], learner.model.tokenizer.patch)[0, masked]


def masked_in(page, patches=PATCHES):
    return [patch for patch in range(patches) if int(words(page)["m0"]) >> patch & 1]


def computed(page):
    """The answers by patch, once the model has come."""
    page.wait_for_function(f"document.querySelector('{FIGURE}').answers")
    found = page.evaluate(f"document.querySelector('{FIGURE}').answers")
    return {int(patch): answer for patch, answer in found.items()}


def cell(page, patch, control="masked"):
    return page.locator(f"[data-control={control}] button").nth(patch)


def place(page, patch):
    box = page.locator(".vb-mask-pad").bounding_box()
    row, column = divmod(patch, COLUMNS)
    return (box["x"] + box["width"] * (column + 0.5) / COLUMNS,
            box["y"] + box["height"] * (row + 0.5) / ROWS)  # fmt: skip


def check_answers(found, shares, truth, masked, tolerance):
    assert sorted(found) == masked
    for given, right, patch in zip(shares, truth.tolist(), masked, strict=True):
        colors, chances = zip(*found[patch]["top"], strict=True)
        best = given.sort(descending=True)
        assert chances == pytest.approx(best.values[: len(chances)].tolist(), abs=tolerance)
        assert given[list(colors)].tolist() == pytest.approx(list(chances), abs=tolerance)
        assert found[patch]["chance"] == pytest.approx(given[right].item(), abs=tolerance)
        assert abs((given > given[right]).sum().item() + 1 - found[patch]["rank"]) <= 1


def test_the_pages_guesses_are_torchs(page):
    firsts = set()
    for number in range(3):
        pick(page, "photo", number)
        for _ in range(2):
            page.click("[data-control=half]")
            mask = masked_in(page)
            assert len(mask) == 12
            shares, truth = torchs(learner(), landscapes()[number], mask)
            assert shares.max() > 0.1, "guesses that are nearly even prove little"
            check_answers(found := computed(page), shares, truth, mask, 2e-4)
            firsts |= {answer["top"][0][0] for answer in found.values()}
    assert len(firsts) > 5


def test_the_start_is_computed_alike_as_its_caption_says(page):
    shares, truth = torchs(learner(), landscapes()[0], START["masked"])
    check_answers(sample().data["answers"], shares, truth, START["masked"], 1e-5)
    assert masked_in(page) == START["masked"]
    told, numbers = sample().description, terms(page)
    assert f"exactly right for {numbers[0]} of them" in told
    assert f"right for {numbers[1]}, and the mean of the nearest" in told
    assert f"that are shown for {numbers[2]}." in told
    before = page.locator(".vb-guess").all_inner_texts()
    cell(page, START["patch"]).press("Enter")
    cell(page, START["patch"]).press("Enter")
    assert masked_in(page) == START["masked"]
    assert page.locator(".vb-guess").all_inner_texts() == before
    cell(page, START["masked"][0]).press("Enter")
    rest = START["masked"][1:]
    check_answers(computed(page), *torchs(learner(), landscapes()[0], rest), rest, 2e-4)


@pytest.mark.parametrize(
    ("name", "size"), [("vit_mini_patch4_32", (8, 16)), ("vit_sinusoid_micro_patch2_8", (4, 6))]
)
def test_python_computes_any_plain_transformer(name, size):
    """Whatever its positions are, with and without biases in its attention."""
    model = create_model(name, image_size=size, channels=3)
    learner = normal(Hiding(model))
    photos = torch.randint(0, 256, (2, 3, *model.tokenizer.image_size), dtype=torch.uint8)
    weights = page_weights(model, head=False) | halves({"mask": learner.mask})
    with torch.no_grad(), capture_attention(model) as maps:
        expected = model.features(photos / 127.5 - 1)
    tokens, attention = encode(weights, model.encoder.blocks[0].attention.num_heads, photos)
    # Positions that are no weights are rounded in the page alone.
    torch.testing.assert_close(tokens, expected, atol=1e-3, rtol=0)
    torch.testing.assert_close(attention, torch.stack(list(maps.values())), atol=5e-4, rtol=0)


def without_class_token():
    blocks = [layers.EncoderBlock(layers.SelfAttention(32, 2), layers.MLP(32, 64), 32)]
    return VisionTransformer(
        tokenizer=layers.PatchEmbedding(16, 4, 3, 32),
        position=layers.LearnedPosition((4, 4), 32, num_prefix_tokens=0),
        encoder=layers.Encoder(blocks, 32), head=layers.MeanPoolHead(32, 10), width=32,
        num_prefix_tokens=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: create_model("vit_mini_patch4_32", image_size=16), (3, 16, 16)),  # no biases
        (without_class_token, (3, 16, 16)),
        (lambda: create_model("vit_micro_patch2_8"), (1, 8, 8)),
    ],
    ids=["without biases", "without a class token", "grey"],
)
def test_other_plain_models_live_in_the_page(show, make, shape):
    learner = normal(Hiding(make()))
    photos = torch.randint(0, 256, (1, *shape), dtype=torch.uint8)
    page = show(masked_photograph(learner, photos))
    assert page.locator("[data-control=photo]").count() == 0, "of one there is no choice"
    page.click("[data-control=half]")
    mask = masked_in(page, 16)
    check_answers(computed(page), *torchs(learner, photos[0], mask), mask, 2e-4)
    grey = "as steps 0 to 7 of grey" in page.locator(".vb-live").inner_text()
    assert grey == (shape[0] == 1)


def test_colours_are_those_of_the_library(js):
    photos = torch.randint(0, 256, (2, 3, 12, 20), dtype=torch.uint8)
    expected = patch_classes(photos, (3, 5))
    means = mean_colors(photos.numpy(), (3, 5))
    assert color_classes(means).tolist() == expected.tolist()
    live = js("color_guesses", "meanColors(p, [12, 20], [3, 5])", p=photos[0].flatten())
    assert np.array(live) == pytest.approx(means[0])
    assert js("color_guesses", "m.map(colorClass)", m=live) == expected[0].tolist()
    for color in (0, 7, 472, 511):
        wanted = [32 * level + 16 for level in (color // 64, color // 8 % 8, color % 8)]
        assert middle(color, 3) == wanted
        assert js("color_guesses", "middleOf(c, 3)", c=color) == wanted
        assert js("color_guesses", "levelsOf(c, 3)", c=color) == levels(color, 3)
    assert middle(3, 1) == js("color_guesses", "middleOf(3, 1)") == [112, 112, 112]


def test_the_nearest_patches_by_hand(js):
    grey = [[8], [40], [72], [104], [136], [168], [200], [232], [250]]  # 3 x 3
    for mask, patch, wanted in [
        ([4], 4, 4),  # the mean of the other eight, 134
        ([0, 1, 3, 4], 0, 5),  # none is next to it: the five at a distance of two, 184
        ([0], 0, 2),  # 40, 104 and 136: 93
        (list(range(9)), 4, -1),
    ]:
        assert nearest_class(np.array(grey, float), mask, patch, 3) == wanted
        live = js("color_guesses", "nearestClass(m, new Set(mask), patch, 3)", m=grey, mask=mask,
                  patch=patch)  # fmt: skip
        assert live == wanted


def test_counts_are_those_of_the_guesses(page):
    for number in (0, 2):
        pick(page, "photo", number)
        page.click("[data-control=half]")
        found, mask = computed(page), masked_in(page)
        truth = patch_classes(landscapes(), (2, 2))[number].numpy()
        shares, right = torchs(learner(), landscapes()[number], mask)
        commonest = max(sorted(set(truth.tolist())), key=Counter(truth.tolist()).get)
        means = mean_colors(landscapes().numpy(), (2, 2))[number]
        near = [nearest_class(means, mask, patch, COLUMNS) for patch in mask]
        wanted = [(shares.argmax(-1) == right).sum().item(), (truth[mask] == commonest).sum(),
                  sum(a == b for a, b in zip(near, truth[mask], strict=True))]  # fmt: skip
        shown = [int(text) for text in terms(page)]
        assert shown == wanted == list(counts(found, means, truth, COLUMNS))
        assert max(wanted[1:]) > 0, "counts that are all zero prove little"
        assert page.locator(".vb-exact").count() == wanted[0]


def test_panels_show_what_is_seen_guessed_and_true(page):
    page.click("[data-control=half]")
    found, mask = computed(page), masked_in(page)

    def drawn(nth):
        data = page.locator(".vb-fill .vb-image canvas").nth(nth).evaluate(
            "(c) => [...c.getContext('2d').getImageData(0, 0, 12, 8).data]"
        )  # fmt: skip
        return np.array(data).reshape(ROWS, 2, COLUMNS, 2, 4)[..., :3].swapaxes(1, 2)

    photo = (
        landscapes()[0].numpy().transpose(1, 2, 0).reshape(ROWS, 2, COLUMNS, 2, 3).swapaxes(1, 2)
    )
    truth = patch_classes(landscapes(), (2, 2))[0].tolist()
    seen, guessed, true = (drawn(nth) for nth in range(3))
    for patch in range(PATCHES):
        at = divmod(patch, COLUMNS)
        if patch in mask:
            assert set(seen[at].ravel().tolist()) <= {104, 144}
            assert (guessed[at] == middle(found[patch]["top"][0][0], 3)).all()
            assert (true[at] == middle(truth[patch], 3)).all()
        else:
            assert all((each[at] == photo[at]).all() for each in (seen, guessed, true))


def test_a_click_masks_and_another_shows_again(page):
    page.click("[data-control=clear]")
    assert masked_in(page) == [] and computed(page) == {}
    assert terms(page) == ["–"] * 3
    page.mouse.click(*place(page, 8))
    page.mouse.click(*place(page, 23))
    assert masked_in(page) == [8, 23] and words(page)["patch"] == "23"
    assert cell(page, 8).get_attribute("aria-pressed") == "true"
    assert sorted(computed(page)) == [8, 23]
    page.mouse.click(*place(page, 8))
    assert masked_in(page) == [23] and words(page)["patch"] == "8"
    assert "The model sees row 2, column 3: mask it" in said(page)


def test_bars_tell_the_touched_patch(page):
    patch = START["masked"][3]
    cell(page, patch, "patch").click()
    found, truth = (
        sample().data["answers"][patch],
        patch_classes(landscapes(), (2, 2))[0, patch].item(),
    )
    rows = page.locator(".vb-guess").all()
    assert rows[0].inner_text().startswith(f"true: {' '.join(map(str, levels(truth, 3)))}")
    for row, (color, chance) in zip(rows[1:], found["top"], strict=True):
        told, percent = row.inner_text().split("\n")[0], row.locator("> *").last.inner_text()
        assert told.startswith(" ".join(map(str, levels(color, 3))))
        assert percent == f"{math.floor(1000 * chance + 0.5) / 10:.1f} %"
        colour = row.locator(".vb-swatch").evaluate("e => getComputedStyle(e).backgroundColor")
        assert colour == "rgb({}, {}, {})".format(*middle(color, 3))


def surest_wrong(photo):
    """By torch, one masked patch at a time: the largest share of a wrong colour, and where."""
    best = (0, 0)
    for patch in range(PATCHES):
        shares, truth = torchs(learner(), photo, [patch])
        if shares[0].argmax() != truth[0]:
            best = max(best, (shares[0].max().item(), patch))
    return best


def test_the_task_is_reached_by_a_sure_and_wrong_guess(show):
    sure, patch = surest_wrong(landscapes()[0])
    goal = math.floor(1000 * sure) / 1000
    figure = masked_photograph(learner(), landscapes(), goal=goal)
    page = show(figure)
    reached = page.locator(f"{FIGURE}[data-reached=true]")
    assert f"at least {100 * goal:g} % sure, and wrong" in page.locator(".vb-task").inner_text()
    assert reached.count() == 0
    page.click("[data-control=clear]")
    page.mouse.click(*place(page, patch))
    computed(page)
    assert reached.count() == 1 and "✓ Reached: the model is" in said(page)
    page.mouse.click(*place(page, patch))
    assert reached.count() == 0


def test_a_link_gives_only_what_the_page_has(js):
    for text, wanted in [
        ("photo=2&patch=39&m0=5&m1=128", {"photo": 2, "patch": 39, "masked": [0, 2, 39]}),
        ("photo=3&patch=40&m0=4294967296&m1=0", {}), ("photo=-1&patch=1.5&m0=1&m1=256", {}),
        ("m0=5", {}), ("m0=1&m1=1e2", {"masked": [0, 34, 37, 38]}),
        ("m0=&m1=&toString=1&__proto__=1&m2=1", {"masked": []}),
        ("photo=<b>&patch=NaN&m0=Infinity&m1=0x1", {}),
    ]:  # fmt: skip
        assert js("masked_photograph", "maskedState(text, 3, 40)", text=text) == wanted, text
    for patches in (2, 31, 32, 33, 64, 256):
        mask = [0, patches - 1]
        words = js("color_guesses", "wordsOf(mask, n)", mask=mask, n=patches)
        assert js("color_guesses", "maskedBy(w, n)", w=words, n=patches) == mask
        limits = js("color_guesses", "wordLimits(n)", n=patches)
        everything = js("color_guesses", "wordsOf(all, n)", all=list(range(patches)), n=patches)
        assert everything == {name: high for name, (_, high) in limits.items()}


def test_the_weights_wait_for_a_reader_who_asks(show, tmp_path):
    """As in the built book: their file is fetched by the first change, and it may be missing."""
    key, (text,) = sample().data["values"], sample().pieces
    block = f'data-key="{key}">"{text}"<'
    script = f'(window.vitbookData ??= {{}})["{key}"] = "{text}";'
    (tmp_path / "weights.js").write_text(script, encoding="utf-8")
    page = show(sample()._repr_html_().replace(block, f'data-key="{key}" data-src="weights.js"><'))
    assert page.evaluate("window.vitbookData") is None
    page.click("[data-control=half]")
    assert len(computed(page)) == 12
    page = show(sample()._repr_html_().replace(block, f'data-key="{key}" data-src="missing.js"><'))
    page.click("[data-control=half]")
    page.wait_for_function("document.querySelector('.vb-readout').innerText.includes('missing')")
    assert "The model could not be fetched (its data file missing.js is missing)" in said(page)
    page.click("[data-control=reset]")
    assert "the model thinks" in said(page), "the start is still told"
    (trouble,) = show.troubles
    assert "ERR_FILE_NOT_FOUND" in trouble
    show.troubles.clear()


class ReLU(nn.Module):
    def forward(self, tokens):
        return tokens.relu()


def test_models_that_the_page_does_not_compute_are_refused():
    bent = Hiding(create_model("vit_micro_patch2_8"))
    for block in bent.model.encoder.blocks:
        block.mlp.activation = ReLU()
    other = Hiding(create_model("vit_postnorm_micro_patch2_8"))
    photos = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
    with pytest.raises(ValueError, match="the page's tokens of VisionTransformer differ from the"):
        masked_photograph(normal(bent), photos)
    with pytest.raises(ValueError, match=r"does not know .*: 'encoder.norm.bias' is missing, exp"):
        masked_photograph(other, photos)
    with pytest.raises(ValueError, match="'mask' holds NaN, infinity or numbers beyond 65,504: "):
        halves({"mask": torch.tensor([1e6])})
