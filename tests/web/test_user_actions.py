"""Random sequences of what users do, on a slow server: whatever the order, the answer that is shown belongs to the
question that is shown, nothing that was typed is lost, and the console stays silent.

20 here; `make long` plays 200 (OOMPH_ACTIONS). A failure names its seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from browser import Watched, answered, opened, paste

from three_logs import GEMMA

DELAY = 0.08  # seconds, of the server
SEQUENCES = int(os.environ.get("OOMPH_ACTIONS", "20"))
# What is pasted, and the model that its answer must be about.
TEXTS = {
    "vllm serve Qwen/Qwen3-8B --max-model-len 16384": "Qwen/Qwen3-8B",
    "docker run --gpus all vllm/vllm-openai:v0.21.0 --model Qwen/Qwen3-0.6B --max-model-len 8192": "Qwen/Qwen3-0.6B",
    "Qwen/Qwen3-4B": "Qwen/Qwen3-4B",
    GEMMA: "nvidia/Gemma-4-31B-IT-NVFP4",
}
GPUS = {"RTX 4090": "RTX 4090", "2x L4": "L4", "H100": "H100", "RTX 3090": "RTX 3090"}
VIEWS = ("plan", "inspect", "what_if", "explain")


class User:
    """Remembers what was typed in each entry of the browser's history."""

    def __init__(self, page: Any, dice: random.Random) -> None:
        self.page, self.dice = page, dice
        self.done: list[str] = []
        self.text = ""  # what was typed last
        self.can_go_back = 0

    def paste(self) -> None:
        self.text = self.dice.choice(list(TEXTS))
        paste(self.page, self.text)
        self.can_go_back += 1

    def type(self) -> None:
        self.text = self.dice.choice([text for text in TEXTS if "\n" not in text])
        self.page.focus("#text")
        self.page.press("#text", "Control+A")
        self.page.keyboard.type(self.text, delay=self.dice.choice([0, 30]))
        self.page.keyboard.press("Enter")
        self.can_go_back += 1

    def change_gpu(self) -> None:
        self.page.focus("#gpu")
        self.page.press("#gpu", "Control+A")
        self.page.keyboard.type(self.dice.choice(list(GPUS)), delay=self.dice.choice([0, 30]))
        self.page.keyboard.press("Tab")

    def choose_view(self) -> None:
        self.page.click(f"#view-{self.dice.choice(VIEWS)}")

    def choose_release(self) -> None:
        if not self.page.is_disabled("#release"):
            self.page.wait_for_selector("#release option", state="attached")
            options = self.page.eval_on_selector_all("#release option", "all => all.map(one => one.value)")
            self.page.select_option("#release", self.dice.choice(options[:4]))

    def go_back(self) -> None:
        if self.can_go_back > 1:
            answered(self.page)
            self.page.go_back()
            self.page.wait_for_timeout(60)
            self.can_go_back -= 1
            self.text = self.page.input_value("#text")
            assert self.text in (*TEXTS, "")

    def reload(self) -> None:
        self.page.reload()

    def switch_theme(self) -> None:
        self.page.click("#theme")

    def resize(self) -> None:
        self.page.set_viewport_size({"width": self.dice.choice([390, 800, 1280]), "height": 900})

    def move_a_control(self) -> None:
        if self.page.is_visible("#levers [name=max_model_len]"):
            self.page.focus("#levers [name=max_model_len]")
            self.page.keyboard.press(self.dice.choice(["ArrowLeft", "ArrowRight"]))

    def act(self) -> None:
        actions: list[Callable[[], None]] = [
            self.paste, self.paste, self.type, self.change_gpu, self.change_gpu, self.choose_view, self.choose_release,
            self.go_back, self.reload, self.switch_theme, self.resize, self.move_a_control,
        ]  # fmt: skip
        action = self.dice.choice(actions)
        self.done.append(action.__name__)
        action()
        self.page.wait_for_timeout(self.dice.choice([0, 0, 40, 150]))


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_the_answer_belongs_to_the_question_whatever_users_do(tab: Watched, address: str, seed: int) -> None:
    with opened(tab, address) as page:
        user = User(page, random.Random(seed))
        user.paste()
        for _ in range(6):
            user.act()
        answered(page)
        _check(page, user)


def _check(page: Any, user: User) -> None:
    case = (user.done, user.text[:60])
    assert page.input_value("#text") == user.text, case
    model = TEXTS.get(user.text, "")
    shown = page.inner_text("#view")
    view = page.evaluate("() => document.querySelector('#views [aria-selected=true]').dataset.view")
    if page.locator("#view .empty").count() or not model:
        assert page.locator("#view .refusal").count() == 0, (*case, shown)
        return
    assert model.rpartition("/")[2] in shown, (*case, view)
    if view in ("plan", "what_if"):
        assert model in page.text_content("#command"), case
        heading = page.inner_text("#view .heading")
        gpu = page.input_value("#gpu").partition(" used")[0]  # as a log tells it
        assert GPUS.get(gpu, gpu).removeprefix("2x ") in heading, case
        release = page.input_value("#release").partition("==")[2]
        assert release in page.inner_text("#view .heading"), case
