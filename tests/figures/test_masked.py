"""Masked photographs: the page's guesses are those of torch, whatever is masked."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

from vitbook import create_model, layers
from vitbook.analysis import capture_attention
from vitbook.figures import masked_photograph
from vitbook.figures.masked_photograph.color_guesses import (
    answers,
    color_classes,
    counts,
    mean_colors,
    nearest_class,
)
from vitbook.figures.parts.plain_vit import encode, halves, page_weights
from vitbook.models import VisionTransformer
from vitbook.training import MaskedAutoencoder, MaskedPatches, SimCLR
from vitbook.training.objectives.masks import ChosenPatches
from vitbook.training.objectives.patch_colors import patch_classes

FIGURE = ".vitbook-figure"
ROWS, COLUMNS, PATCHES = 4, 6, 24


def levels(color, channels):
    """The steps of a class, 0 to 7 in each channel."""
    return [color // 8 ** (channels - 1 - i) % 8 for i in range(channels)]


def middle(color, channels):
    """The colour in the middle of a class, as red, green and blue."""
    found = [32 * level + 16 for level in levels(color, channels)]
    return found if channels == 3 else 3 * found


def normal(learner, seed=6):
    """Weights large enough that masks matter, as float16 holds them."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in learner.named_parameters():
            if "norm" not in name:
                value.normal_(std=0.5 if "predictor" in name else 0.15, generator=generator)
            value.copy_(value.half())
    return learner.eval()


@pytest.fixture
def learner(learner):
    return normal(learner)


@torch.no_grad()
def torchs(learner, photo, masked):
    """Shares of the colours of the masked patches, and the true classes, by the learner itself."""
    patches = learner.num_patches
    kinds = torch.zeros(1, patches, dtype=torch.int64)
    kinds[0, masked] = 1
    chosen = ChosenPatches(kinds, torch.arange(patches)[None], torch.tensor([masked]))
    guesses = learner(photo[None] / 127.5 - 1, chosen)
    return guesses.logits[0].softmax(-1), guesses.targets[0]


def state(page):
    pairs = (pair.split("=") for pair in page.locator(FIGURE).get_attribute("data-state").split())
    return {key: int(value) for key, value in pairs}


def masked_in(page):
    words = state(page)
    return [patch for patch in range(PATCHES) if words["m0"] >> patch & 1]


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


def said(page):
    return page.locator(".vb-readout").inner_text()


def check_answers(found, shares, truth, masked, tolerance):
    assert sorted(found) == masked
    for given, right, patch in zip(shares, truth.tolist(), masked, strict=True):
        colors, chances = zip(*found[patch]["top"], strict=True)
        best = given.sort(descending=True)
        assert chances == pytest.approx(best.values[: len(chances)].tolist(), abs=tolerance)
        assert given[list(colors)].tolist() == pytest.approx(list(chances), abs=tolerance)
        assert found[patch]["chance"] == pytest.approx(given[right].item(), abs=tolerance)
        assert abs((given > given[right]).sum().item() + 1 - found[patch]["rank"]) <= 1


def test_the_pages_guesses_are_torchs(show, learner, masked, landscapes):
    page = show(masked)
    firsts = set()
    for number in range(3):
        page.locator("[data-control=photo] button").nth(number).click()
        for _ in range(3):
            page.click("[data-control=half]")
            mask = masked_in(page)
            assert len(mask) == 12
            shares, truth = torchs(learner, landscapes[number], mask)
            assert shares.max() > 0.1, "guesses that are nearly even prove little"
            check_answers(found := computed(page), shares, truth, mask, 2e-4)
            firsts |= {answer["top"][0][0] for answer in found.values()}
    assert len(firsts) > 5


def test_the_start_is_computed_alike(show, learner, masked, landscapes):
    start = masked.data["start"]
    shares, truth = torchs(learner, landscapes[0], start["masked"])
    check_answers(masked.data["answers"], shares, truth, start["masked"], 1e-5)
    page = show(masked)
    before = page.locator(".vb-guess").all_inner_texts()
    cell(page, start["patch"]).press("Enter")
    cell(page, start["patch"]).press("Enter")
    assert masked_in(page) == start["masked"]
    assert page.locator(".vb-guess").all_inner_texts() == before
    cell(page, start["masked"][0]).press("Enter")
    rest = start["masked"][1:]
    check_answers(computed(page), *torchs(learner, landscapes[0], rest), rest, 2e-4)


@pytest.mark.parametrize(
    ("name", "size"),
    [("vit_mini_patch4_32", (8, 16)), ("vit_pos2d_micro_patch2_8", (6, 4)),
     ("vit_sinusoid_micro_patch2_8", (4, 6)), ("vit_nopos_micro_patch2_8", 8)],
)  # fmt: skip
def test_python_computes_any_plain_transformer(name, size):
    """Whatever its positions are, with and without biases in its attention."""
    model = create_model(name, image_size=size, channels=3)
    learner = normal(MaskedPatches(model))
    photos = torch.randint(0, 256, (2, 3, *model.tokenizer.image_size), dtype=torch.uint8)
    weights = page_weights(model, head=False) | halves({"mask": learner.mask})
    with torch.no_grad(), capture_attention(model) as maps:
        expected = model.features(photos / 127.5 - 1)
    tokens, attention = encode(weights, model.encoder.blocks[0].attention.num_heads, photos)
    # Positions that are no weights are rounded in the page alone.
    torch.testing.assert_close(tokens, expected, atol=1e-3, rtol=0)
    torch.testing.assert_close(attention, torch.stack(list(maps.values())), atol=5e-4, rtol=0)


def test_a_model_without_biases_in_its_attention_lives_in_the_page(show):
    learner = normal(MaskedPatches(create_model("vit_mini_patch4_32", image_size=16)))
    photos = torch.randint(0, 256, (1, 3, 16, 16), dtype=torch.uint8)
    page = show(masked_photograph(learner, photos))
    assert page.locator("[data-control=photo]").count() == 0, "of one there is no choice"
    page.click("[data-control=half]")
    mask = [patch for patch in range(16) if state(page)["m0"] >> patch & 1]
    check_answers(computed(page), *torchs(learner, photos[0], mask), mask, 2e-4)


def test_a_model_without_a_class_token_lives_in_the_page(show):
    blocks = [layers.EncoderBlock(layers.SelfAttention(32, 2), layers.MLP(32, 64), 32)]
    model = VisionTransformer(
        tokenizer=layers.PatchEmbedding(16, 4, 3, 32),
        position=layers.LearnedPosition((4, 4), 32, num_prefix_tokens=0),
        encoder=layers.Encoder(blocks, 32), head=layers.MeanPoolHead(32, 10), width=32,
        num_prefix_tokens=0,
    )  # fmt: skip
    learner = normal(MaskedPatches(model))
    photos = torch.randint(0, 256, (1, 3, 16, 16), dtype=torch.uint8)
    page = show(masked_photograph(learner, photos))
    page.click("[data-control=half]")
    mask = [patch for patch in range(16) if state(page)["m0"] >> patch & 1]
    check_answers(computed(page), *torchs(learner, photos[0], mask), mask, 2e-4)


def test_grey_digits_have_eight_colours(show):
    learner = normal(MaskedPatches(create_model("vit_micro_patch2_8")))
    digits = torch.randint(0, 256, (2, 1, 8, 8), dtype=torch.uint8)
    page = show(masked_photograph(learner, digits))
    page.click("[data-control=half]")
    mask = [patch for patch in range(16) if state(page)["m0"] >> patch & 1]
    check_answers(computed(page), *torchs(learner, digits[0], mask), mask, 2e-4)
    assert "one of 8 colours" in page.locator(".vb-live").inner_text()
    assert "as steps 0 to 7 of grey" in page.locator(".vb-live").inner_text()


def test_colours_are_those_of_the_library(js, landscapes):
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


def test_counts_are_those_of_the_guesses(show, learner, masked, landscapes):
    page = show(masked)
    for number in (0, 2):
        page.locator("[data-control=photo] button").nth(number).click()
        page.click("[data-control=half]")
        found, mask = computed(page), masked_in(page)
        truth = patch_classes(landscapes, 2)[number].numpy()
        shares, right = torchs(learner, landscapes[number], mask)
        commonest = max(sorted(set(truth.tolist())), key=Counter(truth.tolist()).get)
        means = mean_colors(landscapes.numpy(), (2, 2))[number]
        near = [nearest_class(means, mask, patch, COLUMNS) for patch in mask]
        wanted = [(shares.argmax(-1) == right).sum().item(), (truth[mask] == commonest).sum(),
                  sum(a == b for a, b in zip(near, truth[mask], strict=True))]  # fmt: skip
        shown = [int(text) for text in page.locator(".vb-terms b").all_inner_texts()]
        assert shown == wanted == list(counts(found, means, truth, COLUMNS))
        assert max(wanted[1:]) > 0, "counts that are all zero prove little"
        assert page.locator(".vb-exact").count() == wanted[0]


def test_panels_show_what_is_seen_guessed_and_true(show, masked, landscapes):
    page = show(masked)
    page.click("[data-control=half]")
    found, mask = computed(page), masked_in(page)

    def drawn(nth):
        data = page.locator(".vb-fill .vb-image canvas").nth(nth).evaluate(
            "(c) => [...c.getContext('2d').getImageData(0, 0, 12, 8).data]"
        )  # fmt: skip
        return np.array(data).reshape(ROWS, 2, COLUMNS, 2, 4)[..., :3].swapaxes(1, 2)

    photo = landscapes[0].numpy().transpose(1, 2, 0).reshape(ROWS, 2, COLUMNS, 2, 3).swapaxes(1, 2)
    truth = patch_classes(landscapes, 2)[0].tolist()
    seen, guessed, true = (drawn(nth) for nth in range(3))
    for patch in range(PATCHES):
        at = divmod(patch, COLUMNS)
        if patch in mask:
            assert set(seen[at].ravel().tolist()) <= {104, 144}
            assert (guessed[at] == middle(found[patch]["top"][0][0], 3)).all()
            assert (true[at] == middle(truth[patch], 3)).all()
        else:
            assert all((each[at] == photo[at]).all() for each in (seen, guessed, true))


def test_a_click_masks_and_another_shows_again(show, masked):
    page = show(masked)
    page.click("[data-control=clear]")
    assert masked_in(page) == [] and computed(page) == {}
    assert page.locator(".vb-terms b").all_inner_texts() == ["–"] * 3
    page.mouse.click(*place(page, 8))
    page.mouse.click(*place(page, 23))
    assert masked_in(page) == [8, 23] and state(page)["patch"] == 23
    assert cell(page, 8).get_attribute("aria-pressed") == "true"
    assert sorted(computed(page)) == [8, 23]
    page.mouse.click(*place(page, 8))
    assert masked_in(page) == [23] and state(page)["patch"] == 8
    assert "The model sees row 2, column 3: mask it" in said(page)


def test_a_drag_masks_all_on_its_way_and_shows_them_again(show, masked):
    page = show(masked)
    page.click("[data-control=clear]")
    for row in ([], [6, 7, 8, 9, 10, 11]):
        page.mouse.move(*place(page, 11 if row else 6))
        page.mouse.down()
        page.mouse.move(*place(page, 6 if row else 11))  # in one step, over all between
        page.mouse.up()
        page.mouse.move(*place(page, 20))
        assert masked_in(page) == ([] if row else [6, 7, 8, 9, 10, 11])
    page.mouse.move(*place(page, 0))
    page.mouse.down(button="right")
    page.mouse.up(button="right")
    assert masked_in(page) == []


def test_a_finger_drags_and_beside_the_photograph_it_scrolls(touched, masked):
    page, finger = touched(masked)
    page.click("[data-control=clear]")
    finger(place(page, 1), place(page, 13), place(page, 19))
    assert masked_in(page) == [1, 7, 13, 19]
    assert page.evaluate("scrollY") == 0
    y = place(page, 11)[1]
    finger((370, y), (370, y - 60), (370, y - 120))
    assert page.evaluate("scrollY") > 0 and masked_in(page) == [1, 7, 13, 19]


def test_keys_walk_mask_and_ask(show, masked):
    page = show(masked)
    page.click("[data-control=clear]")
    page.locator("[data-control=masked] [tabindex='0']").focus()
    for key in ("Space", "ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert masked_in(page) == [0, 7] and state(page)["patch"] == 7
    page.locator("[data-control=patch] [tabindex='0']").focus()
    for key in ("ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
    assert state(page)["patch"] == 0 and masked_in(page) == [0, 7]
    found = computed(page)[0]
    told = " ".join(map(str, levels(found["top"][0][0], 3)))
    assert said(page).startswith(f"In row 1, column 1 the model thinks {told} likeliest, with ")
    names = [cell(page, patch, "patch").get_attribute("aria-label") for patch in (0, 1)]
    assert names[0].startswith("row 1, column 1: guessed ") and names[1].endswith(": shown")


def test_bars_tell_the_touched_patch(show, masked, landscapes):
    page = show(masked)
    patch = masked.data["start"]["masked"][3]
    cell(page, patch, "patch").click()
    found, truth = masked.data["answers"][patch], patch_classes(landscapes, 2)[0, patch].item()
    rows = page.locator(".vb-guess").all()
    assert rows[0].inner_text().startswith(f"true: {' '.join(map(str, levels(truth, 3)))}")
    for row, (color, chance) in zip(rows[1:], found["top"], strict=True):
        told, percent = row.inner_text().split("\n")[0], row.locator("> *").last.inner_text()
        assert told.startswith(" ".join(map(str, levels(color, 3))))
        assert percent == f"{math.floor(1000 * chance + 0.5) / 10:.1f} %"
        colour = row.locator(".vb-swatch").evaluate("e => getComputedStyle(e).backgroundColor")
        assert colour == "rgb({}, {}, {})".format(*middle(color, 3))


def test_it_starts_as_its_caption_says_and_comes_back(show, masked, landscapes):
    page = show(masked)
    start = state(page)
    numbers = page.locator(".vb-terms b").all_inner_texts()
    assert masked_in(page) == masked.data["start"]["masked"]
    assert f"exactly right for {numbers[0]} of them" in masked.description
    assert f"right for {numbers[1]}, and the mean of the nearest" in masked.description
    assert f"that are shown for {numbers[2]}." in masked.description
    page.click("[data-control=clear]")
    page.locator("[data-control=photo] button").nth(2).click()
    page.click("[data-control=reset]")
    assert state(page) == start


def surest_wrong(learner, photo):
    """By torch, one masked patch at a time: the largest share of a wrong colour, and where."""
    best = (0, 0)
    for patch in range(PATCHES):
        shares, truth = torchs(learner, photo, [patch])
        if shares[0].argmax() != truth[0]:
            best = max(best, (shares[0].max().item(), patch))
    return best


def test_the_task_is_reached_by_a_sure_and_wrong_guess(show, learner, landscapes):
    sure, patch = surest_wrong(learner, landscapes[0])
    goal = math.floor(1000 * sure) / 1000
    figure = masked_photograph(learner, landscapes, goal=goal)
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
    everywhere = max(surest_wrong(learner, photo)[0] for photo in landscapes)
    with pytest.raises(ValueError, match="is reached by no single masked patch: the surest wrong"):
        masked_photograph(learner, landscapes, goal=everywhere + 0.01)


def test_a_link_restores_what_was_chosen(show, masked, come_back_by_link):
    page = show(masked)
    page.locator("[data-control=photo] button").nth(1).click()
    page.click("[data-control=clear]")
    page.mouse.click(*place(page, 2))
    page.mouse.click(*place(page, 23))
    come_back_by_link(page, f"#masked?photo=1&patch=23&m0={2**2 + 2**23}")


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


@pytest.mark.parametrize("address", ["#masked?m0=%", "#%E0%A4%A", "#masked?photo=99&m0=-1&patch=x"])
def test_a_damaged_link_stops_nothing(show, masked, address):
    page = show(masked)
    start = state(page)
    page.evaluate("(to) => (location.hash = to)", address)
    page.reload()
    page.wait_for_selector(f"{FIGURE}[data-ready=true]")
    assert state(page) == start
    page.evaluate("location.hash = '#masked%3Fphoto%3D2'")  # as some mail programs write it
    page.wait_for_function(
        f"document.querySelector('{FIGURE}').dataset.state.startsWith('photo=2')"
    )


def test_the_weights_wait_for_a_reader_who_asks(show, masked, tmp_path):
    """As in the built book: their file is fetched by the first change, and it may be missing."""
    html = masked._repr_html_()
    (text,) = masked.pieces
    for name in ("weights.js", "missing.js"):
        key = masked.data["values"]
        moved = html.replace(f'data-key="{key}">"{text}"<', f'data-key="{key}" data-src="{name}"><')
        assert len(moved) < len(html) - len(text) + 99
        if name == "weights.js":
            script = f'(window.vitbookData ??= {{}})["{key}"] = "{text}";'
            (tmp_path / name).write_text(script, encoding="utf-8")
            page = show(moved)
            assert page.evaluate("window.vitbookData") is None
            page.click("[data-control=half]")
            assert len(computed(page)) == 12
    context = page.context.browser.new_context()
    page = context.new_page()
    (tmp_path / "missing.html").write_text(f'<!doctype html><meta charset="utf-8">{moved}')
    page.goto((tmp_path / "missing.html").as_uri())
    page.click("[data-control=half]")
    page.wait_for_function("document.querySelector('.vb-readout').innerText.includes('missing')")
    assert "The model could not be fetched (its data file missing.js is missing)" in said(page)
    page.click("[data-control=reset]")
    assert "the model thinks" in said(page), "the start is still told"
    context.close()


def test_names_are_text(show, masked):
    page = show(masked)
    names = page.locator("[data-control=photo] button").all()
    assert [each.get_attribute("aria-label") for each in names] == ["cat", "<rocket>", "flower"]


def test_the_seed_draws_the_half(learner, landscapes):
    one, same, other = (
        masked_photograph(learner, landscapes, seed=seed).data["start"]["masked"]
        for seed in (0, 0, 1)
    )
    assert one == same != other and len(one) == len(other) == 12


class ReLU(nn.Module):
    def forward(self, tokens):
        return tokens.relu()


def bent(learner):
    for block in learner.model.encoder.blocks:
        block.mlp.activation = ReLU()
    return learner


def broken(learner):
    with torch.no_grad():
        learner.mask[0] = 1e6
    return learner


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (bent, "the page's tokens of VisionTransformer differ from the model's by .*: expected a"),
        (broken, "'mask' holds NaN, infinity or numbers beyond 65,504: expected weights"),
        (lambda _: MaskedPatches(create_model("vit_postnorm_micro_patch2_8")),
         "the page does not know VisionTransformer: 'encoder.norm.bias' is missing, expected the"),
    ],
)  # fmt: skip
def test_other_models_are_refused(learner, landscapes, change, words):
    with pytest.raises(ValueError, match=words):
        masked_photograph(change(learner), landscapes)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (dict(photographs=torch.zeros(2, 3, 8, 12)), "images came as float32 of shape"),
        (dict(photographs=torch.zeros(0, 3, 8, 12, dtype=torch.uint8)), "images came empty"),
        (dict(photographs=torch.zeros(2, 3, 8, 8, dtype=torch.uint8)),
         "photographs came as 3 x 8 x 8, expected 3 x 8 x 12, channels, height and width"),
        (dict(photographs=torch.zeros(2, 1, 8, 12, dtype=torch.uint8)),
         "photographs came as 1 x 8 x 12, expected 3 x 8 x 12"),
        (dict(photographs=torch.zeros(17, 3, 8, 12, dtype=torch.uint8)),
         "17 photographs came, expected at most 16: choose a few"),
        (dict(names=["a"]), "1 names came for 3 images, expected one for each"),
        (dict(names="abc"), "names came as the text 'abc', expected a list"),
        (dict(seed=-1), "seed -1: expected a whole number, 0 or more"),
        (dict(seed=True), "seed True: expected a whole number"),
        (dict(goal=0), "goal 0 came, expected a share between 0 and 1, such as 0.5"),
        (dict(goal=1), "goal 1 came, expected a share between"),
        (dict(goal=True), "goal True came, expected a share between"),
        (dict(goal=math.nan), "goal nan came, expected a share between"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(learner, landscapes, changed, words):
    given = dict(photographs=landscapes) | changed
    with pytest.raises(ValueError, match=words):
        masked_photograph(learner, given.pop("photographs"), **given)


def test_another_learner_is_a_type_error(learner, landscapes):
    # The last has a mask and a predictor too: of pixels, not of colours.
    model = learner.model
    for other in (model, nn.Linear(2, 2), SimCLR(model), MaskedAutoencoder(model)):
        with pytest.raises(TypeError, match=f"{type(other).__name__} came, expected a vitbook"):
            masked_photograph(other, landscapes)


def test_a_goal_that_the_start_reaches_is_refused(learner, landscapes):
    with pytest.raises(ValueError, match="goal 1e-06 is reached at the start: expected a larger"):
        for seed in range(20):  # one half at least in which no guess is exactly right
            masked_photograph(learner, landscapes, seed=seed, goal=1e-6)


def test_answers_have_places_from_one(learner, landscapes):
    weights = page_weights(learner.model, head=False) | halves(
        {"mask": learner.mask, "predictor.weight": learner.predictor.weight,
         "predictor.bias": learner.predictor.bias}
    )  # fmt: skip
    mask = list(range(PATCHES))
    shares, _ = torchs(learner, landscapes[0], mask)
    best, worst = shares.argmax(-1).numpy(), shares.argmin(-1).numpy()
    for truth, rank in ((best, 1), (worst, 512)):
        found = answers(weights, 4, landscapes[0].numpy(), truth, mask)
        assert {answer["rank"] for answer in found.values()} == {rank}
