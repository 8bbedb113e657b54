"""What the page of recipes gives to download, and the runs behind its advice."""

from vitbook.runs import RECIPES
from vitbook.studies import recipes as study


def test_the_table_has_every_number_of_every_recipe():
    lines = {line["name"]: line for line in study.table()}
    assert lines.keys() == RECIPES.keys()
    assert lines["deit"]["repeats"] * lines["deit"]["epochs"] == 300
    assert len({tuple(line) for line in lines.values()}) == 1


def test_a_regulariser_beside_augmentation_is_compared_with_augmentation_alone():
    claims = {claim.name: claim for claim in study.evidence().claims}
    for name, (field, value) in study.ALONE.items():
        claim = claims[name]
        assert {row.recipe[field] for row in claim.ours} == {value}
        others = [other for other, _ in study.ALONE.values() if other != field]
        for row in (*claim.ours, *claim.theirs):
            assert row.recipe["shift"] and not any(row.recipe.get(other) for other in others)
        assert len(claim.ours) == len(claim.theirs) == 5
    crops = claims["Crops and mirrors, five epochs"]
    assert crops.ours[0].recipe["flip"] and not crops.theirs[0].recipe["flip"]
