"""A built book behind a file server of its own, and a browser that notes what goes wrong."""

import os
import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FLAGS = (
    "--no-sandbox",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
READY = """async () => {
  for (let y = 0; y < document.body.scrollHeight; y += 800) {
    window.scrollTo(0, y);
    await new Promise((done) => setTimeout(done, 15));
  }
  window.scrollTo(0, 0);
  await window.MathJax?.startup?.promise;
  await document.fonts.ready;
}"""


def chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("VITBOOK_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def serve(folder: Path):
    """Yield the address of `folder` on a free port of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class Visitor:
    """Opens pages of one site, in fresh contexts, and collects their troubles."""

    def __init__(self, browser, site: str):
        self.browser, self.site = browser, site

    @contextmanager
    def page(self, address: str, *, scheme="light", width=1280, scripts=True):
        context = self.browser.new_context(
            color_scheme=scheme,
            viewport={"width": width, "height": 900},
            java_script_enabled=scripts,
            reduced_motion="reduce",
        )
        page = context.new_page()
        page.troubles, page.asked = [], set()
        note = page.troubles.append
        page.on("request", lambda request: page.asked.add(request.url))
        page.on("request", lambda request: self._check_host(request.url, note))
        page.on(
            "console", lambda said: said.type == "error" and note(f"{said.text} {said.location}")
        )
        page.on("pageerror", lambda error: note(f"error: {error}"))
        page.on("requestfailed", lambda request: self._check_failure(request, note))
        page.on("response", lambda got: got.status >= 400 and note(f"{got.status}: {got.url}"))
        local = address.startswith("file:")
        page.goto(address if local else f"{self.site}/{address}", wait_until="load")
        if scripts:
            page.wait_for_load_state("networkidle")
            page.evaluate(READY)
            self._wait_for_figures(page)
        try:
            yield page
        finally:
            context.close()

    def _wait_for_figures(self, page) -> None:
        """Bring each near, where it asks for its data: on the way down a frame may be left out."""
        for figure in page.query_selector_all(".vitbook-figure"):
            figure.evaluate("f => f.scrollIntoView()")  # at once, while the page still moves
            page.wait_for_function(
                "f => f.dataset.ready || document.querySelector('.vb-error')", arg=figure
            )
        page.evaluate("window.scrollTo(0, 0)")

    def _check_failure(self, request, note) -> None:
        if request.failure != "net::ERR_ABORTED":  # cut short by a redirect, and no fault
            note(f"failed: {request.url} {request.failure}")

    def _check_host(self, url: str, note) -> None:
        if not url.startswith((self.site, "data:", "blob:", "file:")):
            note(f"leaves the page: {url}")
