"""A page in a real browser, for the tests that look at it."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

CHROMIUM = next(
    (p for p in ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome") if os.path.exists(p)), ""
)
SHADES = Path(__file__).with_name("shades.js").read_text()
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


# Milliseconds until a wait is given up: only what never comes fails a test, not a machine with other work.
PATIENCE = 180_000


class Pace:
    """How many seconds a server waits before each answer."""

    seconds = 0.0


@contextmanager
def served(pace: type[Pace] = Pace) -> Iterator[str]:
    """The address of a page, with its token. Its server computes nothing twice."""
    import anyio

    from oomph.web.api import Workers
    from oomph.web.server import listen, make_server

    answer, run = Workers.answer, Workers.run
    answers: dict[str, tuple[int, bytes]] = {}

    async def late(*arguments: Any) -> Any:
        await anyio.sleep(pace.seconds)
        return await answer(*arguments)

    async def once(self: Workers, job: Any, case: dict[str, Any]) -> tuple[int, bytes]:
        question = _question(job.name, case)
        if question not in answers:
            answers[question] = await run(self, job, case)
        return answers[question]

    Workers.answer, Workers.run = late, once  # type: ignore[method-assign]
    sock = listen(0)
    at = sock.getsockname()[1]
    server = make_server(at, token="the-token")
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{at}/?token=the-token"
    server.should_exit = True
    thread.join(10)
    Workers.answer, Workers.run = answer, run  # type: ignore[method-assign]


def _question(job: str, case: dict[str, Any]) -> str:
    """All that decides the answer: of a text its content, and not the file that it was stored in."""
    text = Path(case["path"]).read_bytes() if "path" in case else b""
    fields = {name: value for name, value in case.items() if name not in ("path", "progress_file")}
    return hashlib.sha256(msgspec.json.encode([job, fields, text], order="deterministic")).hexdigest()


class Watched(msgspec.Struct):
    """A page, and what it said on its console and whom it asked since it was opened."""

    page: Any
    console: list[str]
    requests: list[str]

    def forget(self) -> None:
        """What the page before this one did."""
        self.console.clear()
        self.requests.clear()


@contextmanager
def launched(chromium: Any) -> Iterator[Any]:
    browser = chromium.launch(executable_path=CHROMIUM, args=ARGS)
    yield browser
    browser.close()


class Desk:
    """One browser with one page, and one server, for all tests that follow each other: to start them takes seconds of a
    core. They are put away where a test without a browser follows, since Playwright's loop runs in this thread."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._address, self._browser, self._tab = "", None, None

    @property
    def address(self) -> str:
        self._address = self._address or self._stack.enter_context(served())
        return self._address

    @property
    def browser(self) -> Any:
        from playwright.sync_api import sync_playwright

        if self._browser is None:
            driver = self._stack.enter_context(sync_playwright())
            self._browser = self._stack.enter_context(launched(driver.chromium))
        return self._browser

    @property
    def tab(self) -> Watched:
        self._tab = self._tab or watched(self.browser)
        return self._tab

    def put_away(self) -> None:
        self._stack.close()
        self.__init__()  # type: ignore[misc]


def watched(browser: Any) -> Watched:
    """One page for all tests: a new one costs three times what opening the address again does."""
    page = browser.new_context(permissions=["clipboard-read", "clipboard-write"]).new_page()
    page.set_default_timeout(PATIENCE)
    tab = Watched(page, [], [])
    page.on("console", lambda m: tab.console.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: tab.console.append(str(e)))
    page.on("request", lambda r: tab.requests.append(r.url))
    return tab


@contextmanager
def opened(tab: Watched, address: str, gpu: str = "RTX 4090") -> Iterator[Any]:
    """The page as at first, with these GPUs chosen. It says nothing on its console but the refusals that are part of
    the work, and asks nobody else."""
    page = tab.page
    if page.url.startswith("http"):
        page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
    page.set_viewport_size({"width": 1366, "height": 768})
    page.emulate_media(color_scheme="light")
    page.once("framenavigated", lambda _: tab.forget())
    page.goto(
        f"{address}#gpu={quote(gpu)}" if gpu else address
    )  # from the address itself: from an empty page it takes the browser twice the time
    wait(page, "() => document.documentElement.dataset.ready")
    yield page
    assert [text for text in tab.console if "400" not in text] == []
    host = address.split("/?")[0]
    assert [url for url in tab.requests if not url.startswith((host, "blob:", "data:", "about:"))] == []


def wait(page: Any, condition: str, argument: Any = None) -> None:
    """Until it holds. It is asked 20 times a second: to ask for every frame makes the browser paint each of them."""
    page.wait_for_function(condition, arg=argument, polling=50)


def faults(page: Any, rules: dict[str, Any] | None = None, inside: str = "html") -> list[tuple[str, str]]:
    """What axe finds; its script stays in the page. It walks through every name that a field suggests and nobody sees:
    a thousand, of which two stay."""
    from axe_playwright_python.base import AXE_SCRIPT

    if not page.evaluate("() => !!window.axe"):
        page.evaluate(AXE_SCRIPT)
    page.evaluate("() => document.querySelectorAll('datalist option:nth-child(n + 3)').forEach(name => name.remove())")
    options = {"resultTypes": ["violations"], **(rules or {})}
    violations = page.evaluate("([inside, o]) => axe.run(inside, o).then(r => r.violations)", [inside, options])
    return [(fault["id"], fault["nodes"][0]["html"][:200]) for fault in violations]


def colour_faults(page: Any) -> list[tuple[str, str]]:
    """What axe finds of the colours in this theme. It takes a second or more for a table: of each look three are
    enough."""
    page.evaluate(SHADES)
    return faults(page, COLOURS, "[data-shade]")


def paste(page: Any, text: str) -> None:
    """As a person does: into the empty box, without a further click."""
    page.fill("#text", "")
    page.focus("#text")
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    page.keyboard.press("Control+V")
    wait(page, "() => document.getElementById('text').value !== ''")


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


def answered(page: Any) -> None:
    """Until the page has nothing more to ask: its view is the answer to what stands above it."""
    wait(page, "() => !document.querySelector('#view.stale') && document.getElementById('view').children.length")


def settled(page: Any, words: str) -> None:
    """Until the verdict says so."""
    wait(page, "w => document.querySelector('#view:not(.stale) .verdict')?.textContent.includes(w)", words)


def show(page: Any, view: str) -> None:
    page.click(f"#view-{view}")
