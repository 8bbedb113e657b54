"""Ridge in closed form, nearest neighbours, and accuracy after a few images of each class."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

from vitbook import datasets
from vitbook.errors import UnknownNameError
from vitbook.training.transfer import neighbours as neighbours_module
from vitbook.training.transfer import ridge as ridge_module
from vitbook.training.transfer.few_shot import check_shots, draw_shots, few_shot_curve, t_interval
from vitbook.training.transfer.neighbours import neighbours
from vitbook.training.transfer.ridge import FLOOR, PENALTIES, RidgePath


@pytest.fixture(scope="module")
def digits():
    """Pixels, of which some never change: 1,442 images to learn from, 355 to test."""
    return tuple(
        (split.images.flatten(1).float() / 255, split.labels)
        for split in (datasets.load("digits", name) for name in ("train", "test"))
    )


def standardised(features):
    features = features.double()
    return (features - features.mean(0)) / (features.std(0, correction=0) + FLOOR)


def by_scikit_learn(features, labels, penalty, kept=slice(None), num_classes=10):
    """What scikit-learn fits on the kept rows, on features scaled by all, predicts for all."""
    scaled = standardised(features).numpy()
    targets = 2 * torch.eye(num_classes, dtype=torch.float64)[labels] - 1
    model = Ridge(alpha=penalty).fit(scaled[kept], targets[kept].numpy())
    return torch.from_numpy(model.predict(scaled))


@pytest.mark.parametrize(("number", "penalty"), [(30, 1e-3), (500, 2.0**10)])
def test_it_is_scikit_learns_ridge_with_few_images_and_many(digits, number, penalty):
    features, labels = (each[:number] for each in digits[0])
    found = RidgePath(features, labels, 10).layer(penalty)
    assert found.weight.shape == (10, 64) and found.penalty == penalty
    expected = by_scikit_learn(features, labels, penalty)
    assert (found.logits(features) - expected).abs().max() < 1e-6


def test_a_penalty_with_which_none_can_be_left_out_is_not_chosen():
    """So many features that the smallest penalty is rounding beside them."""
    labels = torch.arange(40) % 4
    features = torch.eye(4)[labels].repeat(1, 2000) + 1e-3 * torch.randn(40, 8000)
    path, folds = RidgePath(features, labels), torch.arange(40) // 8
    with pytest.raises(ValueError, match="goes through every image"):
        path.left_out_logits(1e-20, folds)
    layer = path.best(folds, (1e-20, 1.0, 4.0))
    assert layer.penalty >= 1 and (layer.logits(features).argmax(1) == labels).all()


@pytest.mark.parametrize("most", [9, 2**22])  # some folds at a time, all of a size
def test_folds_of_any_sizes_in_any_order_and_however_many_at_once(digits, most, monkeypatch):
    monkeypatch.setattr(ridge_module, "MOST", most)
    features, labels = (each[:40] for each in digits[0])
    folds = torch.cat([torch.zeros(7), torch.arange(1, 12).repeat(3)])
    folds = folds[torch.randperm(40, generator=torch.Generator().manual_seed(0))]
    found = RidgePath(features, labels, 10).left_out_logits(0.5, folds.long() * 5 - 7)
    for fold in range(12):
        kept = (folds != fold).numpy()
        expected = by_scikit_learn(features, labels, 0.5, kept)[~kept]
        assert (found[~kept] - expected).abs().max() < 1e-6


def test_the_chosen_penalty_is_the_one_that_serves_images_left_out(digits):
    features, labels = digits[0]
    drawn = draw_shots(labels, 5, seed=1)
    features, labels = features[drawn], labels[drawn]
    folds, targets = torch.arange(5).repeat(10), 2 * torch.eye(10)[labels].double() - 1
    path, agreement = RidgePath(features, labels), {}
    for penalty in PENALTIES:
        found = torch.empty(50, 10, dtype=torch.float64)
        for fold in range(5):
            left = (folds == fold).numpy()
            found[left] = by_scikit_learn(features, labels, penalty, ~left)[left]
        both = torch.stack([found.flatten(), targets.flatten()])
        agreement[penalty] = torch.corrcoef(both)[0, 1].item()
    chosen = path.best(folds).penalty
    assert chosen == max(agreement, key=agreement.get)
    # As many images as pixels and hardly a penalty: the worst case of a linear fit.
    test_features, test_labels = digits[1]
    accuracy = [
        (path.layer(each).logits(test_features).argmax(1) == test_labels).double().mean().item()
        for each in (PENALTIES[0], chosen)
    ]
    assert accuracy[0] < accuracy[1] - 0.2


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 9), st.integers(2, 4))
def test_both_forms_agree_and_a_constant_feature_says_nothing(seed, number, width, classes):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(number, width, generator=generator)
    labels = torch.randint(classes, (number,), generator=generator)
    found = RidgePath(features, labels, classes).layer(0.7)
    assert found.weight.shape == (classes, width) and found.bias.shape == (classes,)
    scaled = standardised(features)
    targets = 2 * torch.eye(classes, dtype=torch.float64)[labels] - 1
    left = scaled.T @ scaled + 0.7 * torch.eye(width, dtype=torch.float64)
    expected = scaled @ torch.linalg.solve(left, scaled.T @ targets) + targets.mean(0)
    assert torch.allclose(found.logits(features), expected, atol=1e-8)
    more = torch.cat([features, torch.full((number, 1), 3.0)], dim=1)
    told = RidgePath(more, labels, classes).layer(0.7)
    assert torch.allclose(told.logits(more + torch.eye(width + 1)[-1]), expected, atol=1e-8)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(3, 9), min_size=2, max_size=5), st.integers(0, 99), st.randoms())
def test_draws_hold_as_many_of_each_class_and_lie_inside_one_another(counts, seed, random):
    labels = [label for label, count in enumerate(counts) for _ in range(count)]
    random.shuffle(labels)
    labels = torch.tensor(labels)
    most = draw_shots(labels, 3, seed)
    assert len(set(most.tolist())) == len(most) == 3 * len(counts)
    assert len({tuple(draw_shots(labels, 2, other).tolist()) for other in range(9)}) > 1
    for shots in range(1, 4):
        drawn = draw_shots(labels, shots, seed)
        assert labels[drawn].tolist() == sorted(list(range(len(counts))) * shots)
        assert torch.equal(drawn.view(-1, shots), most.view(-1, 3)[:, :shots])


def test_of_one_neighbour_it_is_scikit_learns(digits, monkeypatch):
    (features, labels), (test_features, _) = digits
    monkeypatch.setattr(neighbours_module, "MOST", 100_000)  # 69 test images at a time
    found = neighbours(features, labels, test_features, 1)
    expected = KNeighborsClassifier(1, metric="cosine").fit(features, labels)
    assert (found.argmax(1).numpy() == expected.predict(test_features)).all()
    assert ((found == 1).sum(1) == 1).all() and ((found == 0).sum(1) == 9).all()


def test_votes_weigh_by_cosine(digits):
    (features, labels), (test_features, _) = digits
    found = neighbours(features, labels, test_features[:40], 20)

    def weights(distances):
        return torch.from_numpy((1 - distances) / 0.07).exp().numpy()

    model = KNeighborsClassifier(20, metric="cosine", weights=weights, algorithm="brute")
    expected = model.fit(features.double(), labels).predict_proba(test_features[:40].double())
    assert (found - torch.from_numpy(expected)).abs().max() < 1e-4
    assert found.sum(1).allclose(torch.ones(40))


def test_lengths_do_not_count_and_no_length_is_no_error():
    known, labels = torch.eye(3), torch.tensor([0, 1, 2])
    some = torch.tensor([[0.1, 0.2, 0.9], [0.0, 0.0, 0.0]])
    found = neighbours(known, labels, some, 3)
    assert torch.allclose(found, neighbours(known * 7, labels, some * 100, 3))
    assert found[0].argmax() == 2 and torch.allclose(found[1], torch.full((3,), 1 / 3))


def test_the_interval_is_students():
    # By hand: mean .6, deviation .1, t(.975; 3) = 3.1824.
    middle, low, high = t_interval([0.5, 0.6, 0.6, 0.7])
    half = 3.1824 * (0.02 / 3) ** 0.5 / 2
    assert (middle, low, high) == pytest.approx((0.6, 0.6 - half, 0.6 + half), abs=1e-4)
    assert t_interval([1.0, 1.0]) == (1.0, 1.0, 1.0)
    assert t_interval([0.0, 0.9])[1:] == (0.0, 1.0)


def test_more_images_are_better_and_fewer_differ_more(digits):
    found = few_shot_curve(*digits[0], *digits[1], shots=(1, 5, 40), draws=5)
    assert [(score.reader, score.shots) for score in found] == [
        (reader, shots) for shots in (1, 5, 40) for reader in ("ridge", "neighbours")
    ]
    for reader in ("ridge", "neighbours"):
        one, five, forty = (score for score in found if score.reader == reader)
        assert 0.3 < one.accuracy[0] < five.accuracy[0] < forty.accuracy[0]
        assert forty.accuracy[0] > 0.9
        for score in (one, five, forty):
            assert len(score.draws) == 5
            assert score.accuracy == pytest.approx(t_interval(score.draws))
        assert one.accuracy[2] - one.accuracy[1] > forty.accuracy[2] - forty.accuracy[1]
    assert found[0].penalties == (2.0**10,) * 5 and found[1].penalties == ()
    assert set(found[2].penalties) <= set(PENALTIES)


def test_a_reader_alone_scores_as_beside_the_other(digits):
    (features, labels), (test_features, test_labels) = digits
    given = features, labels, test_features, test_labels, (1, 5), 2
    both = few_shot_curve(*given)
    for reader in ("ridge", "neighbours"):
        alone = few_shot_curve(*given, readers=(reader,))
        assert alone == [score for score in both if score.reader == reader] and len(alone) == 2
    with pytest.raises(UnknownNameError, match="unknown reader 'ridges': did you mean ridge"):
        few_shot_curve(*given, readers=("ridge", "ridges"))


def test_each_draw_leaves_out_one_image_of_each_class_at_a_time(digits, shots=3):
    features, labels = digits[0]
    ridges, votes = few_shot_curve(features, labels, *digits[1], shots=(shots,), draws=3)
    for seed in range(3):
        drawn = draw_shots(labels, shots, seed)
        folds = torch.empty(10 * shots, dtype=torch.int64)
        for label in range(10):
            folds[labels[drawn] == label] = torch.arange(shots)
        layer = RidgePath(features[drawn], labels[drawn]).best(folds)
        right = layer.logits(digits[1][0]).argmax(1) == digits[1][1]
        assert ridges.penalties[seed] == layer.penalty
        assert ridges.draws[seed] == pytest.approx(right.double().mean().item())
        near = neighbours(features[drawn], labels[drawn], digits[1][0], 20).argmax(1)
        assert votes.draws[seed] == pytest.approx((near == digits[1][1]).double().mean().item())


def test_the_test_images_choose_nothing(digits):
    (features, labels), (test_features, test_labels) = digits
    usual = few_shot_curve(features, labels, test_features, test_labels, (5,), 2)
    turned = few_shot_curve(features, labels, test_features, (test_labels + 1) % 10, (5,), 2)
    assert usual[0].penalties == turned[0].penalties
    assert turned[0].accuracy[0] < 0.2 < usual[0].accuracy[0]


@pytest.mark.parametrize(
    ("labels", "shots", "num_classes", "words"),
    [
        ([0, 0, 1, 2, 2], (1, 2), None, "2 images of each class, but class 1 has 1: ask for fewer"),
        ([0, 0, 1, 1], (1,), 4, "but class 2 has 0, 3 has 0:"),
        ([0, 1], (), None, r"shots \[\]: expected whole numbers from 1 on"),
        ([0, 1], (1, 0), None, r"shots \[1, 0\]: expected whole"),
        ([0, 3], (1,), 3, "labels from 0 to 3 for 3 classes: expected 2"),
        ([-1, 1], (1,), None, "labels from -1 to 1 for 2 classes: expected 2"),
        ([0, 0], (1,), None, "labels from 0 to 0 for 1 classes: expected 2"),
        ([], (1,), None, r"labels of shape \(0,\): expected one an image, one or more"),
    ],
)
def test_shots_that_cannot_be_drawn(labels, shots, num_classes, words):
    labels = torch.tensor(labels, dtype=torch.int64)
    with pytest.raises(ValueError, match=words):
        check_shots(labels, shots, num_classes)


def test_what_cannot_be_read_is_one_sentence(plain_vitbook):
    """Features and labels of any kind: what is refused here, each reader and score refuses so."""
    said = plain_vitbook("""
        import torch
        from vitbook.errors import UnknownNameError
        from vitbook.training.transfer.few_shot import draw_shots, few_shot_curve
        from vitbook.training.transfer.ridge import RidgePath
        eye, three = torch.eye(3), torch.arange(3)
        path = RidgePath(eye.requires_grad_(), three)
        for call in (
            lambda: RidgePath(eye, three[:2]),
            lambda: RidgePath(eye[0], three),
            lambda: RidgePath(torch.zeros(3, 0), three),
            lambda: RidgePath(eye * torch.nan, three),
            lambda: RidgePath(eye * -1e20, three),
            lambda: RidgePath(eye.to("meta"), three),
            lambda: RidgePath(eye.tolist(), three),
            lambda: RidgePath(eye.to(torch.complex64), three),
            lambda: RidgePath(eye, three.float()),
            lambda: RidgePath(eye, three.tolist()),
            lambda: RidgePath(eye, three, 2.0),
            lambda: draw_shots(three[None], 1),
            lambda: draw_shots(three, 1.5),
            lambda: path.left_out_logits(1.0, three * 0),
            lambda: path.best(three, (1e-290, 1e-300)),
            lambda: few_shot_curve(eye, three, torch.eye(2), three[:2], (1,)),
            lambda: few_shot_curve(eye, three, eye, three, (1,), draws=1),
            lambda: few_shot_curve(eye, three, eye, three, (1,), readers=("rigde",)),
        ):
            try:
                call()
            except (TypeError, ValueError, UnknownNameError) as error:
                print(error)
    """)
    assert said.splitlines() == [
        "features of shape (3, 3) with 2 labels: expected (images, features), one label an image",
        "features of shape (3,) with 3 labels: expected (images, features), one label an image",
        "features of shape (3, 0) with 3 labels: expected (images, features), one label an image",
        "the features hold NaN or infinity: look for it in images or weights",
        "the features reach 1e+20: expected 1e+15 at most; divide them all by one number",
        "features on meta with labels on cpu: expected one device, labels.to(features.device)",
        "features are list: expected a tensor of real numbers",
        "features are torch.complex64: expected a tensor of real numbers",
        "labels are float32: expected whole numbers, labels.long()",
        "labels are list: expected a tensor, torch.as_tensor(labels)",
        "2.0 classes: expected a whole number",
        "labels of shape (1, 3): expected one an image, one or more",
        "shots [1.5]: expected whole numbers from 1 on, as 1, 5, 10",
        "folds of shape (3,), 1 different: expected one for each of 3 images, and 2 or more",
        "with a penalty of 1e-290 the fit goes through every image, and none can be left out: "
        "give a larger one",
        "3 features in training, 2 in the test: expected those of one model",
        "1 draws: expected a whole number from 2 on, for an interval",
        "unknown reader 'rigde': did you mean ridge?",
    ]
