"""Measure built pages on a slow phone: bytes, first paint, and when the first figure is live.

The phone is emulated in Chromium: a processor four times slower than this one's, 1.6 Mbit/s, 150 ms
to the server, which sends all that shrinks gzipped. The figure is asked for as soon as the page
has it, by scrolling to it. A time is the median of some visits with an empty cache.
"""

import argparse
import gzip
import os
import shutil
import statistics
import threading
from contextlib import contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

PAGES = ("book/intro.html", "book/vit.html", "book/attention_distance.html", "book/rollout.html")
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True}
BYTES_A_SECOND = 1_600_000 / 8
SLOWER, DELAY_MS, PATIENCE_MS = 4, 150, 60_000
SHRINKS = {".html", ".css", ".js", ".svg", ".json", ".txt"}
WATCH = """
addEventListener("DOMContentLoaded", () => {
  const figure = document.querySelector(".vitbook-figure");
  if (!figure) return (window.figureLive = -1);
  const look = () => {
    if (figure.dataset.ready) window.figureLive ??= performance.now();
  };
  new MutationObserver(look).observe(figure, { attributes: true });
  look();
  figure.scrollIntoView({ behavior: "instant" });
});
"""


@cache
def as_sent(path: Path) -> tuple[bytes, bool]:
    content = path.read_bytes()
    return (gzip.compress(content), True) if path.suffix in SHRINKS else (content, False)


class Gzipped(SimpleHTTPRequestHandler):
    """Sends files as a host on the web does: gzipped, over a connection that stays open."""

    protocol_version = "HTTP/1.1"

    def send_head(self):
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            return super().send_head()
        content, is_shrunk = as_sent(path)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Length", str(len(content)))
        if is_shrunk:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        return BytesIO(content)

    def log_message(self, *_):
        pass


@contextmanager
def serve(folder: Path):
    handler = partial(Gzipped, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def visit(browser, address: str) -> dict[str, float]:
    """One visit with an empty cache: kilobytes of the page and of figures' data, seconds."""
    context = browser.new_context(**PHONE)
    page = context.new_page()
    page.add_init_script(WATCH)
    phone = context.new_cdp_session(page)
    sent, asked = {}, {}
    phone.on("Network.requestWillBeSent", lambda e: asked.update({e["requestId"]: e["request"]}))
    phone.on(
        "Network.loadingFinished",
        lambda e: sent.update({e["requestId"]: e["encodedDataLength"]}),
    )
    phone.send("Network.enable")
    limits = {"latency": DELAY_MS, "downloadThroughput": BYTES_A_SECOND}
    limits |= {"offline": False, "uploadThroughput": BYTES_A_SECOND / 2}
    phone.send("Network.emulateNetworkConditions", limits)
    phone.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    page.goto(address, wait_until="load", timeout=PATIENCE_MS)
    page.wait_for_function("window.figureLive", timeout=PATIENCE_MS)
    page.wait_for_load_state("networkidle", timeout=PATIENCE_MS)
    paint, live = page.evaluate(
        "[performance.getEntriesByName('first-contentful-paint')[0]?.startTime, figureLive]"
    )
    context.close()
    data = sum(sent.get(key, 0) for key, one in asked.items() if "/_figures/" in one["url"])
    total = sum(sent.values())
    return {
        "page KB": (total - data) / 1000,
        "figure KB": data / 1000,
        "requests": len(asked),
        "first paint s": (paint or float("nan")) / 1000,
        "figure live s": live / 1000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", default="_build/html", type=Path)
    parser.add_argument("--pages", nargs="+", default=PAGES)
    parser.add_argument("--visits", type=int, default=3)
    asked = parser.parse_args()
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("VITBOOK_CHROMIUM") or shutil.which("chromium")
    with serve(asked.folder) as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for number, name in enumerate(asked.pages):
            visits = [visit(browser, f"{site}/{name}") for _ in range(asked.visits)]
            if not number:
                print(
                    "| page |", " | ".join(visits[0]), "|\n|---" * 1 + "|---" * len(visits[0]) + "|"
                )
            medians = {key: statistics.median(each[key] for each in visits) for key in visits[0]}
            print(
                f"| {name} |",
                " | ".join(f"{value:.1f}" for value in medians.values()),
                "|",
                flush=True,
            )
        browser.close()


if __name__ == "__main__":
    main()
