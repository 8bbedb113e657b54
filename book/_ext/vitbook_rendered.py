"""The event `page-rendered`: a page as its templates made it, which an extension may change.

The theme writes icons and scripts in many templates; here they are all together.
"""

from dataclasses import dataclass

from sphinx.jinja2glue import BuiltinTemplateLoader


@dataclass
class Page:
    """A page on its way to its file; a listener sets `html`."""

    name: str
    html: str


class Templates(BuiltinTemplateLoader):
    def init(self, builder, theme=None, dirs=None) -> None:
        super().init(builder, theme, dirs)
        self.app = builder.app

    def render(self, template: str, context: dict) -> str:
        html = super().render(template, context)
        if "pagename" not in context:
            return html
        page = Page(context["pagename"], html)
        self.app.emit("page-rendered", page)
        return page.html


def setup(app):
    app.add_event("page-rendered")
    app.config.template_bridge = f"{__name__}.{Templates.__name__}"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
