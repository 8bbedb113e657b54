"""Other patches, rectangles and packed sequences: each step by hand, and its law."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from vitbook import create_model, list_models, runs
from vitbook.datasets import Dataset
from vitbook.models import change_input
from vitbook.studies import any_size
from vitbook.studies.any_size import claims, flexible, measured, packing, rectangles


def seeded(seed):
    return torch.Generator().manual_seed(seed)


@settings(deadline=None)
@given(st.lists(st.integers(1, 20), max_size=30))
def test_first_fit_keeps_to_the_length_and_opens_no_sequence_too_early(lengths):
    sequences = any_size.first_fit(lengths, 20)
    assert sorted(image for each in sequences for image in each) == list(range(len(lengths)))
    for number, images in enumerate(sequences):
        assert sum(lengths[image] for image in images) <= 20
        for image in images:  # no room before it in any earlier sequence
            for earlier in sequences[:number]:
                before = sum(lengths[other] for other in earlier if other < image)
                assert before + lengths[image] > 20


def test_an_image_that_is_too_long_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match="image 1 has 21 tokens, a sequence 20 at most: show it"):
        any_size.first_fit([3, 21], 20)


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_the_mask_is_of_blocks(lengths):
    blocks = [torch.ones(length, length) for length in lengths]
    assert torch.equal(any_size.block_mask(lengths).float(), torch.block_diag(*blocks))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    made = create_model("vit_micro_patch2_8").double().eval()
    with torch.no_grad():
        for name, value in made.named_parameters():
            if "norm" not in name:
                value.normal_(std=0.2)
    return made


@torch.no_grad()
@settings(deadline=None, max_examples=15)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=5),
    most=st.integers(37, 80),
)
def test_packed_images_get_the_tokens_that_they_get_alone(model, sizes, most):
    images = [torch.randn(1, 2 * r, 2 * c, generator=seeded(r), dtype=torch.float64)
              for r, c in sizes]  # fmt: skip
    for image, found in zip(images, packing.packed_features(model, images, most), strict=True):
        alone = deepcopy(model)
        change_input(alone, tuple(image.shape[1:]))
        assert torch.allclose(found, alone.features(image[None])[0], atol=1e-5)


@torch.no_grad()
def test_whatever_is_packed_gets_the_tokens_that_it_gets_alone_and_the_rest_is_refused():
    images, kept = [torch.randn(1, 8, 8, generator=seeded(seed)) for seed in range(3)], set()
    for name in (name for name in list_models() if name.endswith("micro_patch2_8")):
        body = create_model(name).eval()
        try:
            found = packing.packed_features(body, images, 1000)
        except ValueError as error:
            assert "expected a Vision Transformer" in str(error) or "packed images" in str(error)
            continue
        kept.add(name)
        for image, tokens in zip(images, found, strict=True):
            assert torch.allclose(tokens, body.features(image[None])[0], atol=1e-4), name
    assert {"vit_micro_patch2_8", "vit_swiglu_micro_patch2_8", "vit_pos2d_micro_patch2_8"} <= kept
    odd = create_model("vit_qknorm_micro_patch2_8")
    with pytest.raises(ValueError, match="encoder with QKNormSelfAttention: only plain"):
        packing.packed_features(odd, images, 1000)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_an_image_that_is_not_finite_is_refused_before_it_reaches_its_neighbours(model, wrong):
    images = [torch.zeros(1, 4, 4).double(), torch.full((1, 4, 4), wrong).double()]
    with pytest.raises(ValueError, match="image 1 holds NaN or infinity"):
        packing.packed_features(model, images, 100)


def test_a_mask_lies_where_it_is_asked_for():
    assert any_size.block_mask([1, 2], torch.device("meta")).device.type == "meta"


@torch.no_grad()
@pytest.mark.parametrize("kind", ["nopos", "rope", "modern", "relpos", "overlap"])
def test_a_model_without_plain_patches_and_a_table_is_refused_at_the_door(kind):
    odd = create_model(f"vit_{kind}_micro_patch2_8")
    with pytest.raises(ValueError, match="expected a Vision Transformer with a PatchEmbedding"):
        any_size.embed_any(odd, torch.zeros(1, 1, 8, 8))


def test_images_that_no_model_takes_are_refused_at_the_door(plain_vitbook):
    plain_vitbook(
        """
        import pytest, torch, vitbook
        from vitbook.studies.any_size import embed_any
        model = vitbook.create_model("vit_micro_patch2_8")
        for images, error, why in (
            (torch.zeros(1, 8, 8), ValueError, "expected .batch, channels"),
            (torch.zeros(1, 3, 8, 8), ValueError, "3 channels, the model takes 1"),
            (torch.zeros(1, 1, 8, 8, dtype=torch.uint8), TypeError, "images are uint8"),
        ):
            with pytest.raises(error, match=why):
                embed_any(model, images)
        """
    )


@torch.no_grad()
def test_without_the_mask_they_hear_each_other_and_it_goes_with_its_block(model):
    tokens = torch.randn(1, 9, 64, generator=seeded(1), dtype=torch.float64)
    before = model.encoder(tokens)
    with packing.attending_within(model.encoder, packing.block_mask([4, 5])):
        within = model.encoder(tokens)
    assert torch.allclose(within[:, :4], model.encoder(tokens[:, :4]))
    assert not torch.allclose(within, before, atol=1e-3)
    within = packing.attending_within(model.encoder, packing.block_mask([4, 5]))
    with pytest.raises(KeyError), within:
        raise KeyError
    assert torch.equal(model.encoder(tokens), before)


@torch.no_grad()
@pytest.mark.parametrize(("size", "patch"), [((8, 8), 2), ((8, 16), 4), ((6, 4), 1)])
def test_embedding_is_that_of_the_carried_model(model, size, patch):
    images = torch.randn(2, 1, *size, generator=seeded(2), dtype=torch.float64)
    carried = deepcopy(model)
    change_input(carried, size, patch)
    assert torch.allclose(any_size.embed_any(model, images, patch), carried.embed(images))


def test_images_that_the_patch_does_not_divide_are_refused(model):
    with pytest.raises(ValueError, match="image 7x8 is not divisible by patch 2"):
        any_size.embed_any(model, torch.zeros(1, 1, 7, 8, dtype=torch.float64))


def test_a_kernel_as_a_picture_is_by_area_as_much_shorter_as_patches_are_larger():
    kernel = torch.ones(2, 3, 14, 14)
    assert torch.allclose(any_size.picture_kernel(kernel, 28), torch.ones(2, 3, 28, 28))
    by_area = any_size.picture_kernel(kernel, 28, by_area=True)
    assert torch.allclose(by_area.sum((2, 3)), kernel.sum((2, 3)))


def test_bands_are_the_middle_wide_and_tall_in_turn():
    images = torch.arange(64).view(1, 1, 8, 8).repeat(3, 3, 1, 1).to(torch.uint8)
    wide, tall = rectangles.bands(images)
    assert wide.shape == (2, 3, 4, 8) and tall.shape == (1, 3, 8, 4)
    assert torch.equal(wide[0], images[0, :, 2:6]) and torch.equal(tall[0], images[1, :, :, 2:6])
    padded = rectangles.WAYS["padded"](wide)
    assert padded.shape == (2, 3, 8, 8) and torch.equal(padded[:, :, 2:6], wide)
    assert (padded[:, :, [0, 1, 6, 7]] == 124).all()
    assert torch.equal(rectangles.WAYS["cropped"](tall), tall[:, :, 2:6])


def test_less_is_of_the_same_photographs():
    assert measured.less({"right": "1101"}, {"right": "0101"})[0] == 0.25
    assert measured.less({"right": "1010"}, {"right": "0101"})[0] == 0


def test_a_sign_test_asks_the_photographs_that_one_alone_names_right():
    assert claims.sign_test("1110" + "0110", "0000" + "0110") == 2 / 2**3  # three to none
    assert claims.sign_test("10", "01") == 1 and claims.sign_test("11", "11") == 1


def test_empty_tokens_of_a_folder_of_photographs(tmp_path):
    for name, size in (("a", (64, 32)), ("b", (32, 64)), ("c", (32, 32))):
        Image.new("RGB", size).save(tmp_path / f"{name}.jpg")  # width, height
    (found,) = rectangles.packing(folder=tmp_path, patch=16, out=tmp_path / "rows", threads=1)
    assert found.settings["sizes"] == [(32, 64), (64, 32), (32, 32)]
    assert found.settings["tokens"] == 8 + 8 + 4 and found.settings["longest"] == 8
    padded, _, _, packed, *_ = found.rows
    assert padded["empty"] == pytest.approx(1 - 20 / 24, abs=1e-4) and packed["of"] == 8
    assert packed["empty"] == padded["empty"] and packed["but_last"] == 0
    lengths = [5, 6, 4, 2]  # the chapter's, by hand
    assert rectangles._padded_row(lengths, 4, "")["empty"] == pytest.approx(7 / 24, abs=1e-4)
    assert rectangles._padded_row(lengths, 2, "")["empty"] == pytest.approx(3 / 20, abs=1e-4)
    assert rectangles._padded_row(sorted(lengths), 2, "")["empty"] == pytest.approx(
        3 / 20, abs=1e-4
    )
    found = rectangles._packed_row(lengths, 10, "")
    assert found["empty"] == pytest.approx(3 / 20, abs=1e-4) and found["but_last"] == 0.1
    with pytest.raises(ValueError, match="no .jpg in"):
        rectangles.packing(folder=tmp_path / "rows", out=tmp_path / "rows", threads=1)


def test_a_drawn_patch_trains_one_kernel():
    images = torch.randint(0, 256, (40, 3, 32, 32), dtype=torch.uint8, generator=seeded(3))
    train = Dataset(images, torch.arange(40) % 10, tuple("abcdefghij"), {})
    learned = {arm: flexible.learn(train, patches, 4, 0, arm)
               for arm, patches in flexible.ARMS.items()}  # fmt: skip
    kernels = [model.tokenizer.projection.weight for model in learned.values()]
    assert all(kernel.shape[2:] == (8, 8) for kernel in kernels)
    assert not torch.equal(kernels[0], kernels[1]) and not torch.equal(kernels[0], kernels[2])
    again = flexible.learn(train, flexible.ARMS["drawn"], 4, 0, "again")
    assert torch.equal(again.tokenizer.projection.weight, kernels[2])
    for patch in flexible.ASKED_WITH:
        assert flexible.logits(learned["drawn"], images[:2], patch).shape == (2, 10)


def test_another_measurement_of_a_kind_changes_nothing(monkeypatch):
    (ours,) = runs.measurements("packing")
    others = [replace(ours, subject="a_folder_of_mine"), ours]
    monkeypatch.setattr(
        runs, "measurements", lambda kind, subject=None: [
            row for row in others if subject in (None, row.subject)
        ]
    )  # fmt: skip
    assert claims.kept("packing") is ours


def test_first_fit_of_many_images_takes_no_time():
    class Counted(int):
        read = 0

        def __radd__(self, other):
            Counted.read += 1
            return int(self) + other

    any_size.first_fit([Counted(5)] * 200, 10)
    assert Counted.read <= 200  # not the lengths of each sequence again and again


def test_the_chapter_finds_all_of_its_numbers():
    tables = any_size.evidence().tables
    assert len(tables) == 4 and all(table.lines for table in tables)
    numbers = any_size.numbers()
    assert numbers["less-14"] == "+0 [+0, +0]" and numbers["right-14"].startswith("91 [")
    assert 0 < numbers["empty-padded-8-sorted"] < numbers["empty-padded-38"] < 1
    assert numbers["less-small-squashed"].startswith("+1 [") and numbers["chance-kept"] < 1
    assert len(any_size.chances()) == 8  # none of the squashed bands with themselves
    assert all(alone <= corrected for alone, corrected in any_size.chances().values())
    assert len(any_size.learned("drawn", 8)) == numbers["seeds"]
    assert any_size.looked(14)["right"] == any_size.looked(28, 448)["right"]
