"""The main paths of the page in Firefox, which Playwright does not drive: over WebDriver BiDi, outside CI.

    python tools/firefox.py [FIREFOX] [--pictures FOLDER]

Firefox (Debian's firefox-esr) is started without a window on a profile of its own, and asked over the socket that its
remote agent opens. Every path is one line of the output; the exit code is the number of paths that failed.
"""

import argparse
import asyncio
import base64
import json
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

TESTS = Path(__file__).parents[1] / "tests"
sys.path += [str(TESTS), str(TESTS / "web")]

COMMAND = "vllm serve Qwen/Qwen3-8B --max-model-len 16384"
FAILS = "vllm serve Qwen/Qwen3-32B --max-model-len 8192"
QUESTION = "can I run gpt-oss-20b on a 4090?"
SHOWN = "document.querySelector('#view:not(.stale) .view')"
VERDICT = "document.querySelector('#view:not(.stale) .verdict')?.textContent ?? ''"


class Tab:
    """One tab of Firefox: what is sent has a number, and what comes back has the same; the rest are events."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self.socket, self.numbers, self.context = socket, count(1), ""
        self.console: list[str] = []

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self.numbers)
        await self.socket.write_message(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            text = await self.socket.read_message()
            if text is None:
                raise ConnectionError("Firefox closed its socket")
            message = json.loads(text)
            if message.get("method") == "log.entryAdded" and message["params"]["level"] == "error":
                self.console.append(message["params"].get("text") or "")
            if message.get("id") == number:
                if message["type"] == "error":
                    raise RuntimeError(f"{method}: {message['message']}")
                result: dict[str, Any] = message["result"]
                return result

    async def open(self, address: str) -> None:
        self.console.clear()
        await self.send("browsingContext.navigate", context=self.context, url="about:blank", wait="complete")
        await self.send("browsingContext.navigate", context=self.context, url=address, wait="complete")
        await self.until("document.documentElement.dataset.ready")

    async def value(self, expression: str) -> Any:
        target = {"context": self.context}
        answer = await self.send("script.evaluate", expression=expression, target=target, awaitPromise=True)
        if answer["type"] == "exception":
            raise RuntimeError(answer["exceptionDetails"]["text"])
        return answer["result"].get("value")

    async def until(self, condition: str, seconds: float = 60) -> None:
        for _ in range(int(seconds * 10)):
            if await self.value(f"Boolean({condition})"):
                return
            await asyncio.sleep(0.1)
        raise TimeoutError(f"not within {seconds:.0f} s: {condition}")

    async def keys(self, text: str) -> None:
        """Pressed one after another, as a person who types fast does."""
        presses = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        await self.send("input.performActions", context=self.context,
                        actions=[{"type": "key", "id": "keys", "actions": presses}])  # fmt: skip

    async def click(self, selector: str) -> None:
        await self.value(f"document.querySelector({json.dumps(selector)}).click()")

    async def ask(self, text: str) -> None:
        """Typed into the box, which has the focus, and asked with Enter."""
        await self.value("document.getElementById('text').focus(), document.getElementById('text').select()")
        await self.keys(text + "\ue007")

    async def picture(self, path: Path) -> None:
        answer = await self.send("browsingContext.captureScreenshot", context=self.context)
        path.write_bytes(base64.b64decode(answer["data"]))


async def plans_a_typed_command(tab: Tab) -> None:
    await tab.ask(COMMAND)
    await tab.until(f"({VERDICT}).includes('FITS')")


async def applies_the_fix_in_the_verdict(tab: Tab) -> None:
    await tab.ask(FAILS)
    await tab.until(f"({VERDICT}).includes('WILL NOT START')")
    await tab.click("#view .verdict button.apply")
    await tab.until(f"({VERDICT}).includes('FITS')")


async def answers_a_question_in_words(tab: Tab) -> None:
    await tab.ask(QUESTION)
    await tab.until("document.querySelector('#view:not(.stale) .view.fit')")


async def opens_every_view(tab: Tab) -> None:
    await plans_a_typed_command(tab)
    for view in ("what_if", "simulate", "diff", "compare", "models", "fit", "cards", "inspect", "plan"):
        await tab.click(f"#view-{view}")
        await tab.until(SHOWN, 120)


async def explains_a_dropped_log(tab: Tab) -> None:
    from three_logs import GEMMA

    file = f"new File([{json.dumps(GEMMA)}], 'server.log')"
    event = "new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true})"
    dropped = f"data.items.add({file}); document.body.dispatchEvent({event});"
    await tab.value(f"(() => {{ const data = new DataTransfer(); {dropped} }})()")
    await tab.until("document.querySelector('#view:not(.stale) .view.explain')")


async def returns_with_back_and_keeps_the_text(tab: Tab) -> None:
    await plans_a_typed_command(tab)
    await tab.ask(FAILS)
    await tab.until(f"({VERDICT}).includes('WILL NOT START')")
    await tab.value("history.back()")
    await tab.until(f"document.getElementById('text').value === {json.dumps(COMMAND)} && ({VERDICT}).includes('FITS')")


async def has_no_overflow_on_a_phone(tab: Tab) -> None:
    await tab.send("browsingContext.setViewport", context=tab.context, viewport={"width": 390, "height": 844})
    await plans_a_typed_command(tab)
    wide = await tab.value("document.documentElement.scrollWidth")
    await tab.send("browsingContext.setViewport", context=tab.context, viewport={"width": 1280, "height": 900})
    if wide > 390:
        raise AssertionError(f"the page is {wide} px wide on a phone of 390")


PATHS: tuple[Callable[[Tab], Awaitable[None]], ...] = (
    plans_a_typed_command,
    applies_the_fix_in_the_verdict,
    answers_a_question_in_words,
    opens_every_view,
    explains_a_dropped_log,
    returns_with_back_and_keeps_the_text,
    has_no_overflow_on_a_phone,
)


async def walk(port: int, address: str, pictures: Path | None) -> int:
    """How many paths failed."""
    for _ in range(300):
        try:
            socket = await websocket_connect(f"ws://127.0.0.1:{port}/session", max_message_size=1 << 28)
            break
        except OSError:
            await asyncio.sleep(0.2)
    else:
        raise SystemExit("Firefox opened no socket within a minute")
    tab = Tab(socket)
    await tab.send("session.new", capabilities={})
    await tab.send("session.subscribe", events=["log.entryAdded"])
    tree = await tab.send("browsingContext.getTree")
    tab.context = tree["contexts"][0]["context"]
    await tab.send("browsingContext.setViewport", context=tab.context, viewport={"width": 1280, "height": 900})
    failed = 0
    for path in PATHS:
        name = path.__name__.replace("_", " ")
        try:
            await tab.open(f"{address}#gpu=RTX%204090")
            await path(tab)
            if tab.console:
                raise AssertionError(f"on the console: {tab.console[0]}")
            print(f"ok    {name}")
        except (AssertionError, TimeoutError, RuntimeError) as error:
            failed += 1
            print(f"FAIL  {name}: {error}")
        if pictures:
            await tab.picture(pictures / f"{path.__name__}.png")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("firefox", nargs="?", default="firefox-esr")
    parser.add_argument("--pictures", type=Path)
    arguments = parser.parse_args()
    served = import_module("browser").served

    from oomph.web.server import listen

    probe = listen(0)
    port = probe.getsockname()[1]
    probe.close()
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    with served() as address, tempfile.TemporaryDirectory() as profile:
        words = [arguments.firefox, "--headless", "--profile", profile, "--remote-debugging-port", str(port)]
        process = subprocess.Popen([*words, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return asyncio.run(walk(port, address, arguments.pictures))
        finally:
            process.terminate()
            process.wait(20)


if __name__ == "__main__":
    sys.exit(main())
