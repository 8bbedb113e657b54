"""What the chapter on pitfalls claims of models that learned with a mistake."""

from collections.abc import Callable
from functools import cache

import pandas as pd

from vitbook import runs
from vitbook.runs import Claim, Evidence, Result, get_recipe
from vitbook.training import AtScale

# Number of the pitfall -> the fault that is trained in.
TRAINED = {
    1: "other_statistics", 2: "strips", 4: "axis_shifts", 5: "early_positions", 7: "swapped_axes",
    9: "query_softmax", 10: "reshaped_heads", 11: "model_scale", 12: "batch_as_sequence",
    13: "softmax_twice", 15: "decayed_positions",
}  # fmt: skip
NOTES = {
    "early_positions": "This is a right program, the order of DeiT III, which learns a little "
    "less in 60 epochs. It is a fault only with weights of the other program.",
    "swapped_axes": "Trained from the start this only numbers the patches in another order, which "
    "no step of the training can notice.",
    "strips": "A patch of strips holds four pixels of one row instead of 2 × 2.",
}


def name_of(number: int) -> str:
    """Of the claim on a pitfall: "2, strips"."""
    return f"{number}, {TRAINED[number].replace('_', ' ')}"


def _trained(rows_of: Callable[[str], list[Result]]) -> tuple[Claim, ...]:
    return tuple(
        Claim(
            name_of(number),
            f"A model that learns with the fault `{fault}` reads fewer digits.",
            ("with the fault", "without"),
            rows_of(fault),
            rows_of("SPT" if number == 4 else "plain"),
            claimed=-1,
            in_log_odds=True,  # all untouched models are near the ceiling
            note=NOTES.get(fault, ""),
        )
        for number, fault in TRAINED.items()
    )


@cache
def evidence() -> Evidence:
    rows = runs.select(runs.read_all(), experiment="faults")
    right = runs.read(dataset="digits", recipe=get_recipe("digits"))
    depth = [
        [row for row in rows if (row.recipe["drop_path"], row.recipe["fault"]) == (0.2, fault)]
        for fault in ("unscaled_depth", "")
    ]

    def rows_of(role: str) -> list[Result]:
        if role in TRAINED.values():
            return [row for row in rows if row.recipe["fault"] == role]
        return runs.select(right, model="spt_" * (role == "SPT") + "vit_micro_patch2_8")

    unscaled = Claim(
        "Stochastic depth, not rescaled",
        "Without the division by what survives, stochastic depth of 0.2 is better.",
        ("not rescaled", "rescaled"), *depth, in_log_odds=True,
        reported="dinov2 #442 says that it should not rescale.",
    )  # fmt: skip
    return Evidence((*_trained(rows_of), unscaled))


def costly(found: AtScale) -> list[int]:
    """Pitfalls that cost something when trained in: over seeds, or more than one run's luck."""
    page = Evidence(_trained(found.rows))
    return [
        n for n in TRAINED
        if (verdict := page.verdict(name_of(n))) == "agrees"
        or (verdict == "shows" and page[name_of(n)].comparison.high < 0)
    ]  # fmt: skip


# Number -> its name, and the law that finds it.
PITFALLS = {
    1: ("another mean and deviation", "known range"),
    2: ("image viewed as patches", "slow twin"),
    3: ("shrinking without a filter", "known answer"),
    4: ("shifts along the axes", "known window"),
    5: ("two programs, one row apart", "slow twin"),
    6: ("table cut, not carried", "known answer"),
    7: ("rows and columns swapped", "known order"),
    8: ("registers taken for patches", "known answer"),
    9: ("softmax over the queries", "rows"),
    10: ("heads split by reshape", "order"),
    11: ("scale by the model's width", "known deviation"),
    12: ("batch taken for the sequence", "company"),
    13: ("softmax twice", "known answer"),
    14: ("no eval()", "twice the same"),
    15: ("decay on positions", "no gradient"),
    16: ("epsilon that is zero", "rows"),
    17: ("hook on what no longer runs", "as many as layers"),
    18: ("division on the wrong axis", "rows"),
    19: ("only the first image", "company"),
    20: ("counter misses attention", "known answer"),
}


def prices(planted: dict[int, str], found: AtScale) -> str:
    """A row for each pitfall, which leads to its cell: HTML.

    Args:
        planted: number -> what it does where it is planted into trained weights, in words.
        found: the models that learned with the faults.
    """
    lines = [
        {
            "pitfall": f'<a href="#pit-{number}">{number} · {name}</a>',
            "law": law,
            "planted": planted[number],
            "trained in": str(found.accuracy(TRAINED[number])).split(",")[0]
            if number in TRAINED
            else "nothing to train",
        }
        for number, (name, law) in PITFALLS.items()
    ]
    return pd.DataFrame(lines).to_html(index=False, escape=False, border=0)
