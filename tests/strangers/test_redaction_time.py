"""Redaction takes a time that is linear in a text's length, whatever stands in it: names, quotes, blanks, blocks."""

import random
import time

from oomph.text.redaction import Secrets
from oomph.text.secrets import places

PIECES = (
    *places.NEEDLES, *(word for words in places.ONLY_WITH.values() for word in words),
    "password ", "token: ", "api_key = ", "--api-key ", "cookie: ", "kind: Secret\n data:\n ",
    "name: HF_TOKEN\n", "value: ", "secret(", 'login("a", ', "https://a/", "x/hooks/", "<password>", "echo ", "| ",
    "HF_TOKEN |", "machine a login b ", "-p ", "docker login ", "a:1:b:c:", 'variable "hf_token" {\n', "\\n", "\\\\n",
    " is ", "IDENTIFIED BY ", "[", "(", "{", "'", '"', "`", "=", "A1b2", "-", " ", "\n", "\t", ": |\n  ", "pw=",
)  # fmt: skip
LENGTH = 20_000
MOST = 0.6  # CPU seconds; the slowest takes 0.1 on two busy cores


def test_no_text_takes_long() -> None:
    chance = random.Random("time")
    texts = [piece * 3 for piece in PIECES] + ["".join(chance.choices(PIECES, k=6)) for _ in range(80)]
    for text in texts:
        long = (text * (LENGTH // len(text) + 1))[:LENGTH]
        began = time.process_time()
        Secrets().hide(long)
        assert time.process_time() - began < MOST, text


def test_a_secrets_block_is_read_once() -> None:
    """Each of its lines could begin in several ways, which took years for sixty of them."""
    began = time.process_time()
    Secrets().hide("data:\n" + "    a\n" * 60 + "x: kind: Secret\n")
    assert time.process_time() - began < MOST
