"""A page in a real browser, for the tests that look at it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CHROMIUM = next(
    (p for p in ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome") if os.path.exists(p)), ""
)
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def served() -> Iterator[str]:
    """The address of a page, with its token."""
    from oomph.web.server import listen, make_server

    sock = listen(0)
    at = sock.getsockname()[1]
    server = make_server(at, token="the-token")
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{at}/?token=the-token"
    server.should_exit = True
    thread.join(10)


@contextmanager
def opened(browser: Any, address: str, width: int = 1366, height: int = 768, scheme: str = "light") -> Iterator[Any]:
    """A new page. It says nothing on its console but the refusals that are part of the work, and asks nobody else."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        permissions=["clipboard-read", "clipboard-write"],
    )
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda m: said.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: said.append(str(e)))
    page.on("request", lambda r: asked.append(r.url))
    page.goto(address)
    page.wait_for_function("() => document.getElementById('gpu').value !== ''")
    yield page
    assert [text for text in said if "400" not in text] == []
    host = address.split("/?")[0]
    assert [url for url in asked if not url.startswith((host, "blob:", "data:"))] == []
    context.close()


def paste(page: Any, text: str) -> None:
    """As a person does: into the empty box, without a further click."""
    page.fill("#text", "")
    page.focus("#text")
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    page.keyboard.press("Control+V")


def drop(page: Any, name: str, text: str) -> None:
    """A file dropped anywhere on the page."""
    page.evaluate(
        """([name, text]) => {
          const data = new DataTransfer();
          data.items.add(new File([text], name));
          document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));
        }""",
        [name, text],
    )


def set_gpu(page: Any, gpu: str) -> None:
    page.fill("#gpu", gpu)
    page.dispatch_event("#gpu", "change")


def settled(page: Any, words: str, timeout: int = 20_000) -> None:
    """Until the verdict says so."""
    page.wait_for_function(
        "w => document.querySelector('#view:not(.stale) .verdict')?.textContent.includes(w)", arg=words, timeout=timeout
    )


def show(page: Any, view: str) -> None:
    page.click(f"#view-{view}")
