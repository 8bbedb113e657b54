"""``vitbook page``: a page with a model inside, to send to somebody."""

from html import escape
from pathlib import Path
from typing import Annotated

import typer

from vitbook import datasets
from vitbook.export.page_manifest import read_page_model
from vitbook.export.page_runtime import RUNTIME, fetched_runtime
from vitbook.files import check_file_writable, write_atomically

_SHORT = 448  # pixels of a side of the photographs that the page opens with
_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ max-width: 1000px; margin: 1.5rem auto; padding: 0 1rem; font-family: sans-serif; }}
</style>
<body>
{figure}
</body>
</html>
"""


def page(
    folder: Annotated[Path, typer.Argument(help="A folder that `vitbook export` wrote for pages.")],
    out: Annotated[
        Path | None, typer.Option(help="The file; by default the folder's name with .html.")
    ] = None,
) -> None:
    """Write one HTML file that runs a model in the browser, opened from the disk or a server.

    It holds the model and onnxruntime-web, and asks for nothing else: photographs stay in the page.
    """
    from vitbook.figures.photo_reader import own_photo_reader  # no other command waits for figures

    path = out or Path(f"{folder.resolve().name}.html")
    check_file_writable(path)
    manifest, files = read_page_model(folder)
    runtime = fetched_runtime()
    module, binary = ((runtime / file).read_bytes() for file in RUNTIME["wasm"])
    names = datasets.load("photos", "all").class_names
    photos = [datasets.whole_photo(name, _SHORT) for name in names]
    figure = own_photo_reader(photos, manifest, files, (module, binary), names=names)
    html = _PAGE.format(title=escape(figure.title), figure=figure._repr_html_()).encode()
    write_atomically(path, html)
    typer.echo(f"wrote {path}, {len(html) / 1e6:.1f} MB: open it in a browser, or send it")
