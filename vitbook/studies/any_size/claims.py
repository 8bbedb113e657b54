"""What stands behind the chapter on any size, as it reads it and as its evidence page shows it."""

from statistics import mean

from vitbook import runs
from vitbook.runs import Evidence, Table
from vitbook.runs.rows import Measurement
from vitbook.runs.tables import interval


def kept(kind: str) -> Measurement:
    """The one measurement of a kind."""
    (found,) = runs.measurements(kind)
    return found


def row_of(kind: str, **asked: object) -> dict:
    """The one row of a measurement that says this."""
    (found,) = (row for row in kept(kind).rows if row.items() >= asked.items())
    return found


def looked(patch: int, image_size: int = 224, kernel: str = "pseudo-inverse") -> dict:
    """What the ViT made of patches that it never saw, at a size of the image."""
    return row_of("patch_sizes", patch=patch, image_size=image_size, kernel=kernel)


def learned(arm: str, patch: int) -> float:
    """Percent right of small ViTs that learned so, asked with these patches; mean of the seeds."""
    rows = [row for row in kept("flexible").rows if (row["arm"], row["patch"]) == (arm, patch)]
    return 100 * mean(row["accuracy"] for row in rows)


def told(values: list[float | int], form: str = ".0f") -> str:
    """A share and its interval in percent, with a real minus sign."""
    return interval([100 * float(each) for each in values], form).replace("-", "−")


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
        "empty-padded": packs.rows[0]["padded"],
    }
    rows = {
        "14": looked(14), "28": looked(28), "8": looked(8), "small": looked(14, 112),
        "picture": looked(28, kernel="as a picture"),
        "area": looked(28, kernel="as a picture, by area"),
    } | {
        key: row_of("rectangles", way=way, tokens=tokens)
        for key, way, tokens in (
            ("squashed", "squashed", 256), ("cropped", "cropped", 256), ("padded", "padded", 256),
            ("kept", "kept", 242), ("few", "kept", 32),
        )
    }  # fmt: skip
    for key, row in rows.items():
        found[f"right-{key}"] = told(row["accuracy"])
        found[f"less-{key}"] = told(row["less"], "+.0f")
    found |= {f"empty-{row['sequence']}": row["packed"] for row in packs.rows}
    for arm, key in {"always 8": "8", "always 16": "16", "drawn": "drawn"}.items():
        found |= {f"right-{key}-{patch}": learned(arm, patch) for patch in (4, 8, 16)}
    return found


def evidence() -> Evidence:
    return Evidence((), [_patches(), _rectangles(), _packing(), _flexible()])


def _patches() -> Table:
    found = kept("patch_sizes")
    about = found.settings
    return Table(
        "Patches that the ViT never saw",
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
    about = found.settings
    return Table(
        "Photographs twice as long as wide",
        f"{about['model']}; {about['dataset']}, {about['photographs']} photographs: "
        f"{about['bands']}. {about['head']}. Cropped: {about['cropped']}. Padded: "
        f"{about['padded']}. Intervals: {about['interval']}.",
        [{"shown": row["way"], "tokens": str(row["tokens"]),
          "billion multiply-adds": f"{row['macs'] / 1e9:.1f}", "right, %": told(row["accuracy"]),
          "less squashed to 256 tokens, points": told(row["less"], "+.0f")}
         for row in found.rows],
    )  # fmt: skip


def _packing() -> Table:
    found = kept("packing")
    about = found.settings
    return Table(
        "Empty tokens, padded and packed",
        f"{about['photographs']} photographs of {len(set(map(tuple, about['sizes'])))} sizes, "
        f"patches of {about['patch']} pixels, {about['tokens']:,} tokens. Padded: "
        f"{about['padded']}, {about['canvas']:,} tokens each. Packed: {about['packed']}, "
        f"{about['order']}.",
        [{"tokens of a sequence": f"{row['sequence']:,}", "sequences": str(row["sequences"]),
          "empty, packed": f"{row['packed']:.0%}", "empty, padded": f"{row['padded']:.0%}"}
         for row in found.rows],
    )  # fmt: skip


def _flexible() -> Table:
    found = kept("flexible")
    about = found.settings
    return Table(
        "A patch size drawn for every step",
        f"{about['dataset']}; {about['steps']:,} steps of {about['batch']} images for each run, "
        f"the same images in the same order; asked of {about['asked']:,} held-out images. Model: "
        f"{about['model']}. Optimiser: {about['optimizer']}.",
        [{"learned with": row["arm"], "seed": str(row["seed"]), "asked with": str(row["patch"]),
          "right, %": f"{100 * row['accuracy']:.1f}"} for row in found.rows],
    )  # fmt: skip
