"""The panel's controls, of ipywidgets, and the maps that follow them."""

from collections.abc import Callable
from functools import lru_cache
from html import escape

import numpy as np

from vitbook.extras import MissingPackageError, from_extra
from vitbook.figures.attention_gallery import picture
from vitbook.figures.attention_gallery.looks import FUSIONS, Look, Pair, numbers
from vitbook.figures.attention_gallery.start import telling
from vitbook.figures.attention_gallery.view import draw_heads
from vitbook.figures.panel.upload import read_upload, uploads

with from_extra("chapters"):
    from ipywidgets import HTML, Dropdown, FileUpload, HBox, IntSlider, VBox

_PATCH, _ONE = "a patch", "one head"


class Panel(VBox):
    """Controls, what there is to say of the last upload, and the maps that are chosen.

    Args:
        shown: name and image "c h w" of each photograph.
        run: an image to what each model makes of it, with all fusions.
        query: number of the token that asks at the start.
        head: layer and head at the start, from 0; by default one that picks out patches.

    Raises:
        ValueError: models of different depths or numbers of heads, or a head that is not there.
    """

    def __init__(
        self,
        shown: list[tuple[str, np.ndarray]],
        run: Callable[[np.ndarray], dict[str, Look]],
        query: int,
        head: Pair | None,
    ):
        self._shown = shown
        # A ViT-S/14 has 30 MB of maps an image.
        self._looks = lru_cache(maxsize=4)(lambda photo: run(self._shown[photo][1]))
        begun = list(self._looks(0).values())
        if len({each.layers.shape for each in begun}) > 1:
            raise ValueError(
                "the models have different numbers of layers or heads: make a panel of each"
            )
        seen, self._places = begun[0], begun[0].layout
        limits = len(seen.layers), seen.heads
        chosen = telling(seen, query, None) if head is None else numbers(head, limits)
        if chosen is None:
            raise ValueError(f"head came as {head!r}, expected a layer under {limits[0]} and a "
                             f"head under {limits[1]}")  # fmt: skip
        token, grid = self._places.token(query), self._places.grid
        patch = (grid[0] // 2, grid[1] // 2) if isinstance(token, str) else token
        self.photo = Dropdown(options=self._names(), value=0, description="image")
        self.upload = FileUpload(accept=".jpg,.jpeg,.png", multiple=False, description="your own")
        self.asks = Dropdown(options=[*self._places.prefix, _PATCH], description="asks",
                             value=token if isinstance(token, str) else _PATCH)  # fmt: skip
        self.row, self.column = (
            IntSlider(at + 1, 1, most, description=name)
            for name, at, most in zip(("row", "column"), patch, grid, strict=True)
        )
        self.fusion = Dropdown(options=[_ONE, *FUSIONS], value=_ONE, description="heads")
        self.layer, self.head = (
            IntSlider(at + 1, 1, most, description=name)
            for name, at, most in zip(("layer", "head"), chosen, limits, strict=True)
        )
        self.said, self.view = HTML(), HTML()
        controls = [(self.photo, self.upload), (self.asks, self.row, self.column),
                    (self.fusion, self.layer, self.head)]  # fmt: skip
        super().__init__([*(HBox(line) for line in controls), self.said, self.view])
        for control in [each for line in controls for each in line]:
            if control is self.upload:
                control.observe(self._take, "value")
            else:
                control.observe(self._show, "value")
        self._show()

    @property
    def choice(self) -> dict:
        """``photo`` and ``name``, ``token`` (a name, or row and column), ``layer``, ``head``.

        All numbers from 0. Of a fused map ``head`` is None and ``fusion`` says which.
        """
        fusion = None if self.fusion.value == _ONE else self.fusion.value
        return {
            "photo": self.photo.value, "name": self._shown[self.photo.value][0],
            "token": self._places.token(self._query), "layer": self.layer.value - 1,
            "head": self.head.value - 1 if fusion is None else None, "fusion": fusion,
        }  # fmt: skip

    @property
    def map(self) -> dict[str, np.ndarray] | np.ndarray:
        """Weights on the patches, "rows columns": of the model, or of each by its name."""
        layer, line = self._chosen
        rows = {name: seen.layers[layer, line, self._query, len(self._places.prefix) :]
                for name, seen in self._looks(self.photo.value).items()}  # fmt: skip
        maps = {name: row.reshape(self._places.grid) for name, row in rows.items()}
        return maps[""] if list(maps) == [""] else maps

    @property
    def _query(self) -> int:
        patch = (self.row.value - 1, self.column.value - 1)
        return self._places.query(patch if self.asks.value == _PATCH else self.asks.value)

    @property
    def _chosen(self) -> Pair:
        one, heads = self.fusion.value == _ONE, self.head.max
        return self.layer.value - 1, (
            self.head.value - 1 if one else heads + FUSIONS.index(self.fusion.value)
        )

    def _names(self) -> list[tuple[str, int]]:
        return [(name, number) for number, (name, _) in enumerate(self._shown)]

    def _take(self, change: dict) -> None:
        """Show the reader's own photograph, or say why not."""
        for name, encoded in uploads(change["new"]):
            channels = self._shown[0][1].shape[0]
            try:
                image, said = read_upload(name, encoded, self._places.size, channels)
            except (ValueError, MissingPackageError) as error:
                self._say(str(error))
                continue
            self._say(said)
            self._shown.append((name, image))
            at = self.photo.value
            self.photo.options = self._names()  # which chooses the first
            self.photo.value = at
            self.photo.value = len(self._shown) - 1

    def _say(self, words: str) -> None:
        self.said.value = f'<p role="status">{escape(words)}</p>'

    def _show(self, _=None) -> None:
        one = self.fusion.value == _ONE
        self.head.disabled = not one
        self.row.disabled = self.column.disabled = self.asks.value != _PATCH
        try:
            looks = self._looks(self.photo.value)
        except ValueError as error:  # the view stays as it was
            return self._say(f"{self._shown[self.photo.value][0]}: {error}")
        query, chosen, prefix = self._query, self._chosen, len(self._places.prefix)
        top = max(float(seen.layers[*chosen, query, prefix:].max()) for seen in looks.values())
        address, drawn = picture(self._shown[self.photo.value][1]), []
        for name, seen in looks.items():
            row = seen.layers[*chosen, query]
            words = (
                f"{self._shown[self.photo.value][0]}: {self._places.asker(query)} asks; "
                f"{seen.called(*chosen)} gives {row[:prefix].sum():.3f} of its weight to prefix "
                f"tokens, {row[query]:.3f} to itself, at most {row[prefix:].max():.3f} to a patch."
            )
            heading = f"<b>{escape(name)}</b>" if name else ""
            drawing = draw_heads(address, seen, query, chosen, words, top)
            drawn.append(f"<div>{heading}{drawing}<p>{escape(words)}</p></div>")
        self.view.value = (
            f'<div style="display:flex;flex-wrap:wrap;gap:16px">{"".join(drawn)}</div>'
        )
        return None
