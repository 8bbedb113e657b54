from statistics import mean

from vitbook.studies import differences


def test_the_gain_needs_few_steps_and_not_few_digits():
    gains = [
        mean(differences.of_seeds("sl_vit", *each)) - mean(differences.of_seeds("vit", *each))
        for each in ((143, 440), (1442, 440), (1442, 1320), (143, 1320))
    ]
    assert min(gains[:2]) > 3 > 1 > max(gains[2:])
    assert len(differences.of_seeds("vit", 1442, 1320)) == 8


def test_seeds_of_one_model_lie_farther_apart_than_two_models():
    plain, turned = map(differences.of_seeds, ("vit", "rot_vit"))
    assert len(plain) == len(turned) == 8
    assert max(plain) - min(plain) > 2 * abs(sum(turned) - sum(plain)) / 8


def test_printed_percentages_tell_the_numbers_of_test_images():
    def smallest(names):
        shares = [differences.printed(name, "TF-Flowers") for name in names]
        return next(
            n for n in range(1, 10_000)
            if sum(any(round(k / n, 4) == share for k in (int(share * n), int(share * n) + 1))
                   for share in shares) >= 4
        )  # fmt: skip

    assert smallest(differences.MODELS) == differences.TESTED["TF-Flowers"]
    assert smallest(differences.TUNED) == differences.FLOWERS_TUNED
