"""The reference: entries for the public names of the library, and the help of its command.

A page says ``{room} vitbook.analysis`` and how the files of the package are grouped, or
``{command-line}``, which shows what `vitbook --help` shows, of every command.
"""

import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from importlib import import_module

from docutils import nodes
from sphinx import addnodes
from torch import nn
from vitbook_names import Name, public_names

BLOCK = re.compile(
    r"^```\{(?P<what>room|command-line)\}(?P<of>[^\n]*)\n(?P<content>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
OF_EVERY_COMMAND = {"--help", "--install-completion", "--show-completion"}


def summary(value: object) -> str:
    """The first sentence of a docstring; a constant has none."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return ""
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())


def table(names: list[Name]) -> list[str]:
    rows = [".. list-table::", "   :class: vb-names", "   :widths: auto", ""]
    for one in names:
        rows += [f"   * - :py:obj:`~{one.entry}`", f"     - {summary(one.value)}"]
    return [*rows, ""]


def entry(one: Name) -> list[str]:
    """What autodoc is asked for one name."""
    value = one.value
    if inspect.isclass(value):
        # The fields of a dataclass are in its signature; the shapes of a module in its `forward`.
        options = [":members:"] if is_dataclass(value) else [":members:", ":undoc-members:"]
        if hasattr(value, "_fields"):
            options = []  # of a named tuple the members are the fields
        kind = "exception" if issubclass(value, BaseException) else "class"
        return [f".. auto{kind}:: {one.entry}", *(f"   {option}" for option in options), ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {one.entry}", ""]
    lines = [f".. py:data:: {one.name}", f"   :type: {type(value).__name__}", ""]
    if isinstance(value, Mapping):
        return [*lines, "   " + ", ".join(f"``{key!r}``" for key in value), ""]
    return [*lines, f"   ``{value!r}``", ""] if isinstance(value, str) else lines


def files_of(package: str) -> list[str]:
    """The package, or of ``package.*`` the files in it."""
    whole = package.removesuffix(".*")
    if whole == package:
        return [package]
    inside = pkgutil.iter_modules(import_module(whole).__path__)
    return [f"{whole}.{file.name}" for file in inside]


def room(packages: list[str], headings: Iterable[str]) -> Iterator[str]:
    """A table of the public names of some packages, then an entry for each.

    A heading, ``Heading: file file``, stands over the names of these files. Names of other files
    come last, so that a new file cannot be forgotten. ``package.*`` stands for the package's files.
    """
    packages = [each for package in packages for each in files_of(package)]
    names = [one for package in packages for one in public_names(package)]
    groups, homes = [], {one.home.split(".")[-1] for one in names}
    for line in headings:
        heading, _, files = line.partition(":")
        if gone := set(files.split()) - homes:
            raise ValueError(f"{packages[0]}, {heading}: no public name is in {', '.join(gone)}")
        mine = [one for file in files.split() for one in names if one.home.split(".")[-1] == file]
        groups.append((heading, mine))
    seen = {one for _, group in groups for one in group}
    if rest := [one for one in names if one not in seen]:
        groups.append(("More" if groups else "", rest))
    where = [f".. py:module:: {package}" for package in reversed(packages)]
    yield from as_rst([*where, "", *table([one for _, group in groups for one in group])])
    for heading, group in groups:
        yield from (f"## {heading}", "") if heading else ()
        own = [one for one in group if one.entry == one.path]
        yield from as_rst([line for one in own for line in entry(one)])


def as_rst(lines: list[str]) -> list[str]:
    return ["```{eval-rst}", *lines, "```", ""]


def command_line(command, name: str = "vitbook", parent=None) -> Iterator[str]:
    """The help of a command, and of all its subcommands."""
    context = command.context_class(command, info_name=name.split()[-1], parent=parent)
    if parent:
        yield from (f"({name.replace(' ', '-')})=", f"{'#' * (1 + name.count(' '))} `{name}`", "")
    yield from (*as_markdown(inspect.cleandoc(command.help or "")).splitlines(), "")
    yield from ("```text", f"{name} {' '.join(command.collect_usage_pieces(context))}", "```", "")
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if record and not OF_EVERY_COMMAND & set(param.opts):
            yield from (f"`{record[0]}`", f": {as_markdown(record[1] or '')}", "")
    if hasattr(command, "list_commands"):
        for sub in command.list_commands(context):
            yield from command_line(command.get_command(context, sub), f"{name} {sub}", context)


def as_markdown(text: str) -> str:
    """Options in a sentence are code: else their two hyphens become a dash."""
    return re.sub(r"(?<![`\w-])--[a-z][\w-]*", r"`\g<0>`", text)


def write_out(app, docname, source) -> None:
    """Put in what a page asks for; as text, because a directive of Markdown opens no sections."""

    def lines(block: re.Match) -> str:
        if block["what"] == "room":
            found = room(block["of"].split(), block["content"].splitlines())
        else:
            import typer

            from vitbook.__main__ import app as command

            found = command_line(typer.main.get_command(command))
        return "\n".join(found)

    if BLOCK.search(source[0]):
        app.env.note_dependency(__file__)
        source[0] = BLOCK.sub(lines, source[0])


def quote_twice(app, doctree) -> None:
    """Shapes as they are written, ``"batch tokens width"``; Sphinx turns the quotes."""
    for text in doctree.findall(addnodes.desc_sig_literal_string):
        words = text.astext()
        if words[:1] == "'" and '"' not in words:
            text[:] = [nodes.Text(f'"{words[1:-1]}"')]


def no_signature(app, what, name, value, options, signature, returns):
    """A class takes what its ``__init__`` says; one that only inherits torch's takes nothing."""
    if what == "class" and getattr(value, "__init__", None) is nn.Module.__init__:
        return "", None
    return None


def keep_sentence(app, what, name, value, options, lines) -> None:
    """Napoleon takes "The data: no `<`" of a property for a type and its description."""
    if what == "property":
        lines[:0] = ["..", ""]  # an empty comment, which has neither


def plain_lines(app, pagename, templatename, context, doctree) -> None:
    """Sphinx sets the parameters as a list of descriptions without terms, which is no list."""

    def plain(signature: re.Match) -> str:
        text = re.sub(r"<(/?)dl>", r"<\1span>", signature[0])
        return re.sub("<dd>", '<span class="vb-line">', text).replace("</dd>", "</span>")

    if "body" in context:
        context["body"] = SIGNATURE.sub(plain, context["body"])


def setup(app):
    app.connect("source-read", write_out)
    app.connect("autodoc-process-signature", no_signature)
    app.connect("autodoc-process-docstring", keep_sentence, priority=400)  # before napoleon
    app.connect("doctree-read", quote_twice)
    app.connect("html-page-context", plain_lines)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
