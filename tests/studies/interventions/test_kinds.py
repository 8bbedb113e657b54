import torch

import vitbook
from vitbook.analysis import mean_attention_distance
from vitbook.studies.interventions.kinds import KINDS, head_kinds, sort_heads, weight_on_one_token


def numbers(*values):
    return [torch.tensor([row]) for row in values]


def test_a_head_has_the_first_kind_that_fits():
    #                      idle near offset content other at the edges
    one_token = [0.5, 0.1, 0.1, 0.1, 0.1, 0.49, 0.9]
    reach = [0.2, 0.49, 0.5, 0.9, 0.9, 0.5, float("nan")]
    offset = [0.9, 0.9, 0.3, 0.29, 0.2, 0.29, float("nan")]
    content = [0.9, 0.1, 0.4, 0.3, 0.2, 0.29, float("nan")]
    found = sort_heads(*numbers(one_token, reach, offset, content))
    assert found.names == (("idle", "near", "offset", "content", "other", "other", "idle"),)
    assert found.of("idle") == [(0, 0), (0, 6)] and found.of("content") == [(0, 3)]
    assert sum(len(found.of(kind)) for kind in KINDS) == 7


def test_a_head_of_which_nothing_is_known_is_other():
    nothing = float("nan")
    found = sort_heads(*numbers([nothing], [nothing], [nothing], [nothing]))
    assert found.names == (("other",),)


def test_weight_on_one_token_by_hand():
    maps = torch.zeros(1, 5, 5, 5)  # a class token and four patches
    maps[0, 0, :, 3] = 1  # all look at one patch
    maps[0, 1, :, 0] = 1  # all look at the class token
    maps[0, 2] = torch.eye(5)  # each looks at itself
    maps[0, 3] = 0.2  # even
    maps[0, 4, 1:3, 4] = maps[0, 4, 3:, 1] = 1  # two look here, two there
    maps[0, 4, 0, 0] = 1
    found = weight_on_one_token(maps, 1)
    torch.testing.assert_close(found, torch.tensor([[1, 1, 0.25, 0.2, 0.5]]))


def planted(scores):
    """A model of one layer whose heads add these scores, "heads tokens tokens", to none."""
    model = vitbook.create_model("vit_micro_patch2_8").eval()
    attention = model.encoder.blocks[0].attention
    model.encoder.blocks = model.encoder.blocks[:1]
    torch.nn.init.zeros_(attention.qkv.weight)
    attention.register_forward_pre_hook(
        lambda module, args, kwargs: (args, {"mask": scores}), with_kwargs=True
    )
    return model


def test_each_kind_is_found_where_it_was_planted():
    steps = torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0))
    scores = torch.zeros(4, 17, 17)
    scores[0, :, 7] = 20  # all look at one patch
    scores[1, 1:, 1:] = -9 * torch.cdist(steps, steps)  # near, and an offset too: near comes first
    far = (steps[None] - steps[:, None]).unbind(-1)
    scores[2, 1:, 1:] = 9.0 * ((far[0] % 4 == 2) & (far[1] % 4 == 2))
    model, images = planted(scores), torch.rand(4, 1, 8, 8)
    found = head_kinds(model, images)
    assert found.names == (("idle", "near", "offset", "other"),)
    reach = mean_attention_distance(model, images, renormalize=True)[0, 1].item()
    assert found.reach[0, 1] < 0.1 > reach / 10


def test_fresh_weights_have_no_kind_but_content_and_other():
    torch.manual_seed(0)
    found = head_kinds(vitbook.create_model("vit_micro_patch2_8"), torch.rand(6, 1, 8, 8))
    assert not any(found.of(kind) for kind in ("idle", "near", "offset"))
    assert found.one_token.max() < 0.2 and (found.reach - 1).abs().max() < 0.1
