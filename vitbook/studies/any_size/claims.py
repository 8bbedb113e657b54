"""What stands behind the chapter on any size, as it reads it and as its evidence page shows it."""

from vitbook import runs
from vitbook.runs import Evidence, Table, statistics
from vitbook.runs.rows import Measurement
from vitbook.runs.statistics import LEVEL, Difference, difference, holm, summary
from vitbook.runs.tables import interval
from vitbook.studies.any_size import flexible
from vitbook.studies.any_size.measured import VIT, less

SUBJECTS = {
    "patch_sizes": VIT, "rectangles": VIT, "packing": "photos", "flexible": flexible.DATASET,
}  # fmt: skip


def kept(kind: str) -> Measurement:
    """The chapter's measurement of a kind; others may lie beside it."""
    (found,) = runs.measurements(kind, SUBJECTS[kind])
    return found


def row_of(kind: str, **asked: object) -> dict:
    """The one row of a measurement that says this."""
    (found,) = (row for row in kept(kind).rows if row.items() >= asked.items())
    return found


def looked(patch: int, image_size: int = 224, kernel: str = "pseudo-inverse") -> dict:
    """What the ViT made of patches that it never saw, at a size of the image."""
    return row_of("patch_sizes", patch=patch, image_size=image_size, kernel=kernel)


def learned(arm: str, patch: int) -> list[float]:
    """Percent right of small ViTs that learned so, asked with these patches; one for each seed."""
    rows = [row for row in kept("flexible").rows if (row["arm"], row["patch"]) == (arm, patch)]
    return [100 * row["accuracy"] for row in sorted(rows, key=lambda row: row["seed"])]


def behind(patch: int) -> Difference:
    """Points by which a drawn patch size is above learning with this one, asked with it."""
    asked = kept("flexible").settings["asked"]
    return difference(learned("drawn", patch), learned(f"always {patch}", patch), 100 / asked)


def band(way: str, tokens: int) -> dict:
    """What the ViT made of bands that were shown so."""
    return row_of("rectangles", way=way, tokens=tokens)


def sign_test(ours: str, theirs: str) -> float:
    """Chance of as lopsided a split of the photographs that one alone names right, two-sided."""
    ahead = sum(a > b for a, b in zip(ours, theirs, strict=True))
    back = sum(a < b for a, b in zip(ours, theirs, strict=True))
    return statistics.sign_test(ahead, back)


def chances() -> dict[tuple[str, int], tuple[float, float]]:
    """Each comparison with squashed bands -> its p value, alone and corrected for all (Holm)."""
    base = band("squashed", 256)
    others = [row for row in kept("rectangles").rows if row != base]
    alone = [sign_test(row["right"], base["right"]) for row in others]
    names = [(row["way"], row["tokens"]) for row in others]
    return dict(zip(names, zip(alone, holm(alone), strict=True), strict=True))


def empty(way: str, of: int, order: str = "by file name") -> dict:
    """Empty tokens of photographs padded in batches ``of`` so many, or packed in so many tokens."""
    return row_of("packing", way=way, of=of, order=order)


def told(values: list[float | int], form: str = ".0f") -> str:
    """A share and its interval in percent."""
    return interval([100 * float(each) for each in values], form)


def numbers() -> dict[str, str | float | int]:
    """The measured numbers that the chapter tells, by the names that its text has for them."""
    patches, bands, packs, learnt = map(kept, ("patch_sizes", "rectangles", "packing", "flexible"))
    found = {
        "flowers": patches.settings["photographs"],
        "bands": bands.settings["photographs"],
        "photographs": packs.settings["photographs"],
        "shapes": len(set(map(tuple, packs.settings["sizes"]))),
        "asked": learnt.settings["asked"],
        "seeds": len({row["seed"] for row in learnt.rows}),
        "longest": packs.settings["longest"],
        "equal": sum(
            (h // 16) * (w // 16) == packs.settings["longest"] for h, w in packs.settings["sizes"]
        ),
        "chance-kept": chances()["kept", 242][1],
    }
    rows = {
        "14": looked(14), "28": looked(28), "8": looked(8), "small": looked(14, 112),
        "picture": looked(28, kernel="as a picture"),
        "area": looked(28, kernel="as a picture, by area"),
    } | {
        key: band(way, tokens)
        for key, way, tokens in (
            ("squashed", "squashed", 256), ("small-squashed", "squashed", 121),
            ("cropped", "cropped", 256), ("padded", "padded", 256),
            ("kept", "kept", 242), ("half", "kept", 128), ("few", "kept", 32),
        )
    }  # fmt: skip
    for key, row in rows.items():
        found[f"right-{key}"] = told(row["accuracy"])
        found[f"less-{key}"] = told(row["less"], "+.0f")
    found["less-grey"] = told(less(band("kept", 242), band("padded", 256)), "+.0f")
    for row in packs.rows:
        key = f"{row['way']}-{row['of']}" + "-sorted" * (row["order"] == "by length")
        found[f"empty-{key}"] = row["empty"]
        if row["but_last"] is not None:
            found[f"last-{key}"] = row["but_last"]
    for arm, key in {"always 8": "8", "always 16": "16", "drawn": "drawn"}.items():
        for patch in (4, 8, 16):
            spread = summary(learned(arm, patch), learnt.settings["asked"])
            found[f"right-{key}-{patch}"] = f"{spread.mean:.1f} ± {spread.deviation:.1f}"
    return found | {f"behind-{patch}": behind(patch).told() for patch in (8, 16)}


def evidence() -> Evidence:
    return Evidence((), [_patches(), _rectangles(), _packing(), _flexible()])


def _patches() -> Table:
    found = kept("patch_sizes")
    about = found.settings
    return Table(
        "Other patches than the ViT's own",
        f"{about['model']}, born with {about['born']}; {about['dataset']}, "
        f"{about['photographs']} photographs; {about['head']}. Cosine: {about['cosine']}. Length: "
        f"{about['length']}. Intervals: {about['interval']}. As a picture: the kernel resized like "
        "an image; by area: also divided by how many times as many pixels a patch has.",
        [{"patch": str(row["patch"]), "image": f"{row['image_size']} px",
          "grid": row["grid"].replace("x", "×"), "kernel": row["kernel"],
          "billion multiply-adds": f"{row['macs'] / 1e9:.1f}",
          "right, %": told(row["accuracy"]), "less patch 14, points": told(row["less"], "+.0f"),
          "cosine": interval(row["cosine"], ".3f"), "length": f"{row['length']:.2f}"}
         for row in found.rows],
    )  # fmt: skip


def _rectangles() -> Table:
    found = kept("rectangles")
    about, tested = found.settings, chances()
    clear = sum(p < LEVEL for _, p in tested.values())
    verdict = f"Below {LEVEL} so corrected: {clear or 'none; what is below it alone is a lead'}."

    def p_of(row: dict, place: int) -> str:
        found = tested.get((row["way"], row["tokens"]))
        return f"{found[place]:.3f}" if found else ""

    return Table(
        "Photographs twice as long as wide",
        f"{about['model']}; {about['dataset']}, {about['photographs']} photographs: "
        f"{about['bands']}. Head: {about['head']}. Cropped: {about['cropped']}. Padded: "
        f"{about['padded']}. Intervals: {about['interval']}. p: sign test of the photographs that "
        f"one of the two alone names right, corrected for all {len(tested)} comparisons (Holm). "
        f"{verdict} Scale and shape change together: squashed to 256 tokens, a band is enlarged "
        "1.4 times along and 2.8 times across; cropped to 256, 2.8 times; padded to 256 or kept at "
        "128, 1.4 times; kept at 242, 1.9 times.",
        [{"shown": row["way"], "tokens": str(row["tokens"]),
          "billion multiply-adds": f"{row['macs'] / 1e9:.1f}", "right, %": told(row["accuracy"]),
          "less squashed to 256 tokens, points": told(row["less"], "+.0f"),
          "p, alone": p_of(row, 0), "p, Holm": p_of(row, 1)}
         for row in found.rows],
    )  # fmt: skip


def _packing() -> Table:
    found = kept("packing")
    about = found.settings
    units = {"padded": "photographs a batch", "packed": "tokens a sequence"}
    return Table(
        "Empty tokens, padded and packed",
        f"{about['photographs']} photographs of {len(set(map(tuple, about['sizes'])))} sizes, "
        f"patches of {about['patch']} pixels, {about['tokens']:,} tokens, {about['longest']:,} of "
        f"the longest. Padded: {about['padded']}. Packed: {about['packed']}. Few photographs, in "
        "one order each: no other set need do likewise. The last sequence holds what is "
        "left: its fill is an end effect, so the others stand apart.",
        [{"": row["way"], "of": f"{row['of']:,} " + units[row["way"]], "order": row["order"],
          "sequences": str(row["sequences"]), "empty": f"{row['empty']:.1%}",
          "empty, but for the last sequence":
              "" if row["but_last"] is None else f"{row['but_last']:.1%}"}
         for row in found.rows],
    )  # fmt: skip


def _flexible() -> Table:
    found = kept("flexible")
    about = found.settings
    return Table(
        "A patch size drawn for every step",
        f"{about['dataset']}; {about['steps']:,} steps of {about['batch']} images for each run, "
        f"the same images in the same order; asked of {about['asked']:,} held-out images. Model: "
        f"{about['model']}. Optimiser: {about['optimizer']}. Drawn less fixed, "
        f"points (Welch, 95 %, of the seeds alone): {behind(8).told()} with patches of 8, "
        f"{behind(16).told()} with patches of 16.",
        [{"learned with": row["arm"], "seed": str(row["seed"]), "asked with": str(row["patch"]),
          "right, %": f"{100 * row['accuracy']:.1f}"} for row in found.rows],
    )  # fmt: skip
