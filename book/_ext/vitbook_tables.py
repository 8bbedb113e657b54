"""One style for the tables of a page, whoever wrote them: Markdown, pandas, a Styler.

No counted index, numbers to the right and with a true minus, and on a phone a row at a time where
the columns would not fit: each cell then says what it is of.
"""

import re

from bs4 import BeautifulSoup, NavigableString, Tag

TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
ARTICLE = re.compile(r'(<article class="bd-article".*?</article>)', re.DOTALL)
AMOUNT = r"[+\u2212±-]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?: ?[%MGKk×]| px| s|e[+-]?\d+)?"
NUMBERS = re.compile(
    rf"{AMOUNT}(?:(?:,? | to | ± )(?:{AMOUNT}))*(?: ?[\[(][^\])]*[\])])?", re.IGNORECASE
)
NOTHING = {"", "-", "–", "?", "none", "not run", "not known"}
MINUS = re.compile(r"(?<![\w.)\]])-(?=\.?\d)")
RANGE = re.compile(r"\s*(\d+)-(\d+)\s*")
# Characters that a phone has room for, and how many of a column's it takes before it wraps.
ROOM, WRAPS = 42, 16
KEPT = ["code", "pre", "a", "math", "style", "script"]


def tidy(html: str) -> str:
    """A table in the book's style."""
    soup = BeautifulSoup(html, "html.parser")
    table = soup.table
    if "vb-names" in table.get("class", []):  # of the reference, which has its own
        return html
    for noise in ("border", "style"):
        del table[noise]
    for tag in table.find_all("tr", style="text-align: right;"):
        del tag["style"]
    merge_heads(table)
    drop_counted_index(table)
    for cell in table.find_all(["td", "th"]):
        set_minus(cell)
    columns = columns_of(table)
    for column in columns:
        words = [text(cell) for cell in column[1:] if text(cell).lower() not in NOTHING]
        linked = any(cell.a for cell in column[1:])  # numbers of sections, not amounts
        if words and not linked and all(NUMBERS.fullmatch(word) for word in words):
            for cell in column:
                cell["class"] = [*cell.get("class", []), "vb-number"]
    if "vb-numbers" not in table.get("class", []) and not table.img and too_wide(columns):
        stack(table, columns)
    return str(table)


def text(cell: Tag) -> str:
    return " ".join(cell.get_text().split())


def rows_of(table: Tag) -> list[list[Tag]]:
    return [row.find_all(["td", "th"], recursive=False) for row in table.find_all("tr")]


def columns_of(table: Tag) -> list[tuple[Tag, ...]]:
    """Cells by column, the head first; none where rows differ in length or cells span."""
    rows = rows_of(table)
    spans = table.find_all(["td", "th"], colspan=True) + table.find_all(["td", "th"], rowspan=True)
    if spans or not table.thead or len({len(row) for row in rows}) != 1:
        return []
    return list(zip(*rows, strict=True))


def merge_heads(table: Tag) -> None:
    """pandas writes the name of an index into a second line of the head, and none else."""
    lines = table.thead.find_all("tr") if table.thead else []
    if len(lines) != 2:
        return
    first, second = (line.find_all("th") for line in lines)
    if len(first) == len(second) and not any(text(cell) for cell in second[1:]):
        first[0].string = text(second[0])
        lines[1].decompose()


def drop_counted_index(table: Tag) -> None:
    """0, 1, 2 ... say nothing, nor do empty names of rows; but in a matrix they count classes."""
    columns = columns_of(table)
    if not columns or len(columns) < 2 or text(columns[0][0]):
        return
    names = [text(cell) for cell in columns[0][1:]]
    heads = [text(column[0]) for column in columns[1:]]
    if not any(names) or (is_count(names) and not is_count(heads)):
        for cell in columns[0]:
            cell.decompose()


def is_count(names: list[str]) -> bool:
    return names == [str(place) for place in range(len(names))]


def set_minus(cell: Tag) -> None:
    if text(cell) == "-" and not cell.find(KEPT):
        cell.string = "–"
    for string in cell.find_all(string=True):
        if not any(is_kept(parent) for parent in string.parents):
            said = MINUS.sub("\u2212", string)
            if both := RANGE.fullmatch(said):
                said = f"{both[1]}–{both[2]}"
            if said != string:
                string.replace_with(NavigableString(said))


def is_kept(tag: Tag) -> bool:
    """What is code, or a name, or read by MathJax."""
    return tag.name in KEPT or "math" in tag.get("class", [])


def too_wide(columns: list[tuple[Tag, ...]]) -> bool:
    widths = [max(len(text(cell)) for cell in column) for column in columns]
    return len(columns) > 2 and sum(min(width, WRAPS) + 2 for width in widths) > ROOM


def stack(table: Tag, columns: list[tuple[Tag, ...]]) -> None:
    """Mark what a phone needs: a row's cells below one another, each after its column's name.

    Roles are written out, since a browser drops them from what is laid out as blocks.
    """
    table["class"] = [*table.get("class", []), "vb-stack"]
    table["role"] = "table"
    for row in table.find_all("tr"):
        row["role"] = "row"
    for column in columns:
        column[0]["role"] = "columnheader"
        for cell in column[1:]:
            cell["role"] = "rowheader" if cell.name == "th" else "cell"
            if name := text(column[0]):
                cell["data-of"] = name


def on_rendered(app, page) -> None:
    page.html = ARTICLE.sub(
        lambda article: TABLE.sub(lambda table: tidy(table[0]), article[0]), page.html
    )


def setup(app):
    app.setup_extension("vitbook_rendered")
    app.connect("page-rendered", on_rendered)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
