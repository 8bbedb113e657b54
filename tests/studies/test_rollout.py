"""What the chapter on rollout measures, against maps and tokens looked at one by one."""

import pytest
import torch

from vitbook import create_model
from vitbook.analysis import attention_rollout, capture_attention, relevance
from vitbook.studies import rollout as study
from vitbook.studies.rollout.claims import evidence
from vitbook.studies.rollout.heads import moved_neurons, untrained_registers


@pytest.fixture
def mini():
    torch.manual_seed(0)
    model = create_model("vit_mini_patch4_32").eval()
    for block in model.encoder.blocks:
        block.attention.qkv.weight.data *= 20  # heads that choose
    return model


@pytest.fixture
def images():
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_a_sink_is_the_patch_that_gets_most_from_all_patches(mini, images):
    found = study.sinks(mini, images)
    with torch.no_grad(), capture_attention(mini) as maps:
        mini(images)
    for layer, weights in enumerate(maps.values()):
        for head in range(6):
            for image in range(2):
                got = [weights[image, head, 1:, 1 + k].mean() for k in range(64)]
                at = int(torch.stack(got).argmax())
                assert found.patch[layer, head, image] == at
                assert found.share[layer, head, image] == pytest.approx(got[at].item())


def test_lengths_are_those_over_the_median_patch(mini, images):
    before = study.sinks(mini, images)
    qkv = mini.encoder.blocks[0].attention.qkv.weight.data
    qkv[192:] *= 3  # all values
    after = study.sinks(mini, images)
    assert torch.equal(before.patch[0], after.patch[0])
    assert torch.allclose(before.value[0], after.value[0], rtol=1e-4)
    assert not torch.allclose(before.key[0], before.value[0], rtol=1e-2)


def test_the_last_map_of_a_class_is_its_relevance(mini, images):
    maps = study.class_maps(mini, images[:1], 3)
    assert maps.shape == (6, 8, 8)
    whole = relevance(mini, images[:1], torch.tensor([3]), query="class")
    assert torch.allclose(maps[-1], whole[0], atol=1e-7)


def test_moved_neurons_act_at_one_token_and_nothing_stays(mini, images):
    tokens, seen = mini.embed(images), []
    contract = mini.encoder.blocks[1].mlp.contract
    with torch.no_grad():
        whole = mini.encoder(tokens)
        with moved_neurons(mini, [(1, 5), (1, 7)], to=3):
            contract.register_forward_hook(lambda _, given, __: seen.append(given[0]))
            assert not torch.equal(mini.encoder(tokens), whole)
        assert torch.equal(mini.encoder(tokens), whole)
    moved, plain = seen  # inside, and after
    assert not moved[:, [0, 1, 2, 4], 5].any()
    assert torch.equal(moved[:, 3, 7], plain[:, :, 7].amax(1))
    assert torch.equal(moved[..., 6], plain[..., 6])


def test_a_copy_of_the_sink_takes_weight_from_it(mini, images):
    none, *_, copied = untrained_registers(mini, images)
    assert none["drawn"] == none["moved"] == 0 and none["longest"] > 1
    assert 0 < copied["sink"] < none["sink"] and copied["drawn"] > 0


def test_a_head_left_out_is_left_out_of_the_product(mini, images):
    with torch.no_grad(), capture_attention(mini) as maps:
        mini(images)
    first, *others = maps.values()
    later = [layer.mean(1) for layer in others]
    given = dict(grid_size=(8, 8), num_prefix_tokens=1)
    whole = attention_rollout(maps, **given).flatten(1)
    sink = torch.tensor([5, 63])
    numbers = study.without_heads(first, later, whole, sink)
    times = []
    for head in range(6):
        kept = first[:, [k for k in range(6) if k != head]]
        rolled = attention_rollout([kept, *others], **given).flatten(1)
        times.append((rolled[0, 5] / rolled[0].mean() + rolled[1, 63] / rolled[1].mean()) / 2)
        rest = [torch.cat([m[:, :5], m[:, 6:]], 1)[:1] for m in (rolled, whole)]
        last = [m[1:, :63] for m in (rolled, whole)]
    assert numbers["without-times"] == pytest.approx(times[5].item(), rel=1e-4)
    assert numbers["others-times"] == pytest.approx(min(times[:5]).item(), rel=1e-4)
    of_rest = (study.alike(*rest) + study.alike(*last)).item() / 2
    assert numbers["without-rest"] == pytest.approx(of_rest, abs=1e-4)


def test_keys_of_one_length_are_those_of_head_6_each_shortened(mini, images):
    qkv, seen, found = mini.encoder.blocks[0].attention.qkv, [], study.sinks(mini, images)
    with torch.no_grad(), qkv.register_forward_hook(lambda _, __, out: seen.append(out)):
        mini(images)
    shares, longest = [], 0
    for tokens, at in zip(seen[0], found.patch[study.SINK], strict=True):
        query, key = tokens[1:, 80:96], tokens[:, 176:192]  # 6 heads of 16
        median = key[1:].norm(dim=1).median()
        short = torch.stack([each / each.norm() * median for each in key])
        shares.append((query @ short.T / 4).softmax(1)[:, 1 + at].mean())
        longest += int(key[1:].norm(dim=1).argmax() == at)
    numbers = study.of_keys(mini, images, found)
    assert numbers["sink-even"] == pytest.approx(50 * sum(shares).item(), rel=1e-4)
    assert numbers["longest-key"] == longest and numbers["same"] < 99
    qkv.weight.data[:96] = 0  # no query: all patches read evenly
    assert study.of_keys(mini, images, found)["same"] == pytest.approx(100, abs=1e-3)


def test_each_claim_compares_as_many_seeds():
    claims = evidence().claims
    assert {"registers, all digits", "registers, 143 digits"} <= {claim.name for claim in claims}
    for claim in claims:
        assert [row.seed for row in claim.ours] == [row.seed for row in claim.theirs]
        assert all("registers" in row.model for row in claim.ours)
