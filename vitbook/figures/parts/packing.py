"""Maps and tokens in few bytes: what the pieces of `attention`'s data hold."""

import zlib
from math import hypot

import numpy as np
from jaxtyping import Float, Int8, UInt8

from vitbook.figures.parts.drawing import Number, base64

STEP = 0.04  # of the largest weight: a stored weight is off by at most half of it
# A row that looks at the class token has finer steps: 16 % of its largest weight on a patch.
COARSEST = 4
PER_OCTAVE = 512  # a step is 2 ** (-word / 512)
SHARE = 1 / 2000  # unit of the weight on the class token
LEVELS = 50  # of a token's numbers, on either side of 0
CONTEXTS = 85  # whole parts of 2 sqrt(7 x 255) and less


def distances(
    weights: Float[np.ndarray, "heads queries keys"],
    grid: tuple[int, int],
    step: tuple[Number, Number],
    prefix: int,
) -> Float[np.ndarray, "heads queries"]:
    """Mean attention distance of each query in pixels; 0 for prefix tokens, which have no place."""
    places = np.stack(np.divmod(np.arange(grid[0] * grid[1]), grid[1]), -1) * np.asarray(step)
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
    far = np.zeros(weights.shape[:2])
    far[:, prefix:] = np.einsum("hqk,qk->hq", weights[:, prefix:, prefix:], apart, optimize=True)
    return far


def pixel_unit(size: tuple[int, int]) -> float:
    """Unit of a stored distance: 0.1 px, or what brings the diagonal into two bytes."""
    return max(0.1, hypot(*size) / 65_000)


def _words(values: np.ndarray) -> bytes:
    """Whole numbers of two bytes: all the high bytes, then all the low ones."""
    pairs = values.astype(">u2").view(np.uint8).reshape(-1, 2)
    return pairs.T.tobytes()


def quantize_rows(
    weights: Float[np.ndarray, "heads queries keys"], prefix: int
) -> tuple[Float[np.ndarray, "heads queries"], UInt8[np.ndarray, "heads queries patches"]]:
    """Words of the steps, and each weight on a patch in steps of its row.

    A step is at most 4 % of the row's largest weight, and at most 16 % of its largest weight on a
    patch: so a weight `2 ** (-word / 512) * code` is off by at most 2 % of the row's largest.
    """
    patches = weights[..., prefix:]
    step = STEP * np.minimum(weights.max(-1), COARSEST * patches.max(-1))
    words = np.ceil(-PER_OCTAVE * np.log2(np.maximum(step, 2.0**-31)))
    codes = np.rint(patches / 2.0 ** (-words / PER_OCTAVE)[..., None])
    return words, codes.astype(np.uint8)


def sort_by_context(
    codes: UInt8[np.ndarray, "heads queries patches"], columns: int
) -> tuple[np.ndarray, np.ndarray]:
    """The codes with those side by side that are likely alike, and how many have each context.

    A context is what a reader knows already: the codes of the same patch in the rows of the
    queries before and above, and of the patches before and above in the same row. Deflate counts
    anew every few thousand codes, so this saves a fifth.
    """
    wide, around = codes.astype(int), np.zeros(codes.shape, int)
    for back, times in ((1, 2), (columns, 2), (columns + 1, 1)):
        around[:, back:] += times * wide[:, :-back]
    for back in (1, columns):
        around[..., back:] += wide[..., :-back]
    contexts = np.floor(2 * np.sqrt(around)).astype(np.uint8).ravel()
    order = np.argsort(contexts, kind="stable")
    return codes.ravel()[order], np.bincount(contexts, minlength=CONTEXTS)


def pack(
    weights: Float[np.ndarray, "heads queries keys"],
    far: Float[np.ndarray, "heads queries"],
    prefix: int,
    columns: int,
    unit: float,
) -> bytes:
    """A layer: steps, distances, weights on the class token if there is one, then the codes."""
    steps, codes = quantize_rows(weights, prefix)
    parts = [_words(steps), _words(np.rint(far / unit))]
    if prefix:
        parts.append(_words(np.rint(weights[..., 0] / SHARE)))
    ordered, counts = sort_by_context(codes, columns)
    return b"".join([*parts, counts.astype(">u4").tobytes(), ordered.tobytes()])


def pack_tokens(tokens: Float[np.ndarray, "tokens width"]) -> Int8[np.ndarray, "width tokens"]:
    """Tokens without their lengths, which a cosine does not ask for, as whole numbers.

    Neighbours, which are alike, lie side by side.
    """
    top = np.maximum(np.abs(tokens).max(-1, keepdims=True), 1e-12)
    return np.ascontiguousarray(np.rint(LEVELS * tokens / top).astype(np.int8).T)


def squeeze(raw: bytes) -> str:
    """Deflated, as text that a script can carry."""
    # Attention has few long repeats: short matches are not worth their codes.
    deflate = zlib.compressobj(7, zlib.DEFLATED, zlib.MAX_WBITS, 7, zlib.Z_FILTERED)
    return base64(np.frombuffer(deflate.compress(raw) + deflate.flush(), np.uint8))
