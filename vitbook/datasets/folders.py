"""Where data sets lie, and which are asked for by a path."""

import os
from pathlib import Path


def data_root(root: str | Path | None = None) -> Path:
    """The folder that holds a folder for each data set.

    ``root`` if given, else the environment variable ``VITBOOK_DATA``, else ``data/`` of the
    checkout, else (an installed package has no checkout) ``~/.cache/vitbook``.
    """
    if root is not None:
        return Path(root).expanduser()
    if os.environ.get("VITBOOK_DATA"):
        return Path(os.environ["VITBOOK_DATA"]).expanduser()
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file():
        return checkout / "data"
    return Path.home() / ".cache" / "vitbook"


def is_path(data: str | Path) -> bool:
    """Whether what is no registered name asks for a folder or a table of one's own."""
    text = str(data)
    has_slash = "/" in text or os.sep in text
    return has_slash or text.startswith((".", "~")) or os.path.exists(text)
