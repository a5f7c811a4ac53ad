import importlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from loopback_hub import Fault, LoopbackHub, Sparse
from test_gguf import header as gguf_header, info, write_split
from test_safetensors import header

from oomph.errors import HeaderError, HubError, InputError
from oomph.ir.model import Tensor
from oomph.sources import safetensors
from oomph.sources.gguf import header as gguf
from oomph.sources.hub import repository as hub, transport
from oomph.units import round_up

CONFIG = b'{"model_type": "llama"}'
X, Y = Tensor("x", (1 << 20,), "BF16", 2 << 20), Tensor("y", (1 << 20,), "BF16", 2 << 20)
ENVIRONMENT = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_TOKEN_PATH",
               "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "HUGGINGFACE_HUB_CACHE",
               "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")  # fmt: skip


def weights(*tensors: Tensor) -> Sparse:
    raw = header(list(tensors))
    return Sparse(len(raw).to_bytes(8, "little") + raw, 8 + len(raw) + sum(t.nbytes for t in tensors))


def index(weight_map: dict[str, str]) -> bytes:
    return json.dumps({"metadata": {"total_size": 4 << 20}, "weight_map": weight_map}).encode()


class Environment:
    def __init__(self, server: LoopbackHub, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        self.server, self._monkeypatch, self.home = server, monkeypatch, home
        for name in list(os.environ):
            if name in ENVIRONMENT or name.lower().endswith("_proxy"):
                monkeypatch.delenv(name)
        self.set(HF_ENDPOINT=server.url, HF_HOME=str(home))

    def set(self, **variables: str) -> None:
        for name, value in variables.items():
            self._monkeypatch.setenv(name, value)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Environment]:
    monkeypatch.setattr(transport, "BACKOFF", (0.01, 0.01, 0.01))
    with LoopbackHub() as server:
        server.add("org/one", {"config.json": CONFIG, "model.safetensors": weights(X, Y), "README.md": b"hi"})
        server.add(
            "org/two",
            {
                "config.json": CONFIG,
                "hf_quant_config.json": b'{"quantization": {}}',
                "model.safetensors.index.json": index({"x": "model-1.safetensors", "y": "model-2.safetensors"}),
                "model-1.safetensors": weights(X),
                "model-2.safetensors": weights(Y),
                "consolidated.safetensors": weights(X, Y),
            },
        )
        server.add("org/plain", {"config.json": CONFIG})
        yield Environment(server, monkeypatch, tmp_path / "home")


# --- what is there


def test_one_file(there: Environment) -> None:
    found = hub.fetch("org/one")
    assert (found.config, found.quant_config, found.tensors) == (CONFIG, None, (X, Y))
    assert found.revision == there.server.repos["org/one"].commit
    assert found.files["README.md"] == 2
    assert there.server.sent < 1 << 19  # of 4 MiB of weights
    assert not [s for s in there.server.seen if s.host == "cdn" and s.range is None]


def test_shards_and_quantisation_config(there: Environment) -> None:
    found = hub.fetch("org/two@main")
    assert found.tensors == (X, Y)
    assert found.quant_config == b'{"quantization": {}}'
    assert found.index is not None
    assert found.index.total_size == 4 << 20
    assert not [s for s in there.server.seen if "consolidated" in s.path]


def test_many_shards_with_long_headers(there: Environment) -> None:
    tensors = [[Tensor(f"layer.{n}.{i}." + "x" * 60, (1,), "F32", 4) for i in range(2000)] for n in range(30)]
    files = {f"model-{n:02}.safetensors": weights(*part) for n, part in enumerate(tensors)}
    there.server.add("org/many", {"config.json": CONFIG, **files})
    assert hub.fetch("org/many").tensors == tuple(t for part in tensors for t in part)


def test_without_weights_or_config(there: Environment) -> None:
    there.server.add("org/bare", {"README.md": b"x"})
    found = hub.fetch("org/bare")
    assert (found.config, found.tensors, found.gguf_files) == (None, None, ())


def test_other_documents_on_demand(there: Environment) -> None:
    there.server.add("org/more", {"config.json": CONFIG, "generation_config.json": b"{}", "params.json": b"[]"})
    found = hub.fetch("org/more", also=("generation_config.json", "absent.json"))
    assert set(found.documents) == {"config.json", "generation_config.json"}


def test_revisions(there: Environment) -> None:
    repo = there.server.repos["org/one"]
    repo.branches["refs/pr/1"] = repo.commit
    for revision in ("main", repo.commit, "refs/pr/1"):
        assert hub.fetch(f"org/one@{revision}").tensors == (X, Y)
        assert hub.fetch("org/one", revision).tensors == (X, Y)


def test_a_branch_that_moves_meanwhile(there: Environment) -> None:
    there.server.fail("resolve/main", Fault(status=200, body=b"old", headers={"X-Repo-Commit": "0" * 40}))
    assert hub.fetch("org/one").config == CONFIG


@pytest.mark.parametrize(
    ("text", "repo", "revision"),
    [
        ("org/name", "org/name", None),
        ("org/na.me_x-1@v1.0", "org/na.me_x-1", "v1.0"),
        ("gpt2@refs/pr/3", "gpt2", "refs/pr/3"),
    ],
)
def test_ids(text: str, repo: str, revision: str | None) -> None:
    assert hub.parse_id(text) == (repo, revision)


@pytest.mark.parametrize(
    "text",
    [
        "", "a/b/c", "../x", "a/..", "a b/c", "a/b@", "a/b@..", "a/b@x//y", "a/b@../../x", "a/b?c", "a/b\n", "org/a--b",
        "https://x", "a/b@" + "x" * 300,
    ],
)  # fmt: skip
def test_ids_that_are_none(text: str) -> None:
    with pytest.raises(InputError) as e:
        hub.fetch(text)
    assert len(e.value.message) < 320


# --- who asks


def test_token_goes_to_the_hub_and_to_nobody_else(there: Environment) -> None:
    there.set(HF_TOKEN="hf_secret")
    there.server.add("org/private", {"config.json": CONFIG, "model.safetensors": weights(X)}, token="hf_secret")
    assert hub.fetch("org/private").tensors == (X,)
    sent = {(s.host, s.authorization) for s in there.server.seen}
    assert sent == {("hub", "Bearer hf_secret"), ("cdn", None)}


def test_token_file(there: Environment) -> None:
    there.home.mkdir()
    (there.home / "token").write_text("hf_filed\n")
    there.server.add("org/private", {"config.json": CONFIG}, token="hf_filed")
    assert hub.fetch("org/private").config == CONFIG


def test_token_may_be_forbidden(there: Environment) -> None:
    there.set(HF_TOKEN="hf_secret", HF_HUB_DISABLE_IMPLICIT_TOKEN="1")
    hub.fetch("org/one")
    assert {s.authorization for s in there.server.seen} == {None}


def test_token_that_is_none(there: Environment) -> None:
    there.set(HF_TOKEN="hf_x\r\nHost: evil")
    with pytest.raises(InputError, match="no token has"):
        hub.fetch("org/one")


# --- refusals, each its own sentence


def refused(repo: str, says: str, error: type[Exception] = HubError) -> None:
    with pytest.raises(error, match=says) as e:
        hub.fetch(repo)
    message = str(e.value)
    assert "\n" not in message
    assert len(message) < 250


def test_gated(there: Environment) -> None:
    there.server.add("org/gated", {"config.json": CONFIG}, gated=True, token="hf_good")
    refused("org/gated", "org/gated is gated, and no token is set")
    there.set(HF_TOKEN="hf_bad")
    refused("org/gated", "this token's account has no access")
    there.set(HF_TOKEN="hf_good")
    assert hub.fetch("org/gated").config == CONFIG


def test_missing(there: Environment) -> None:
    refused("org/nothing", "the hub has no repository org/nothing, or it is private and no token")
    refused("org/one@v9", "org/one has no revision 'v9'")
    there.set(HF_TOKEN="hf_x")
    refused("org/nothing", "the hub has no repository org/nothing, this token cannot see it")
    with pytest.raises(HubError, match=r"org/one has no file 'x\.gguf' at main"):
        hub.open_file("org/one", "x.gguf")


def test_renamed(there: Environment) -> None:
    there.server.moved["old/name"] = "org/one"
    found = hub.fetch("old/name")
    assert (found.repo, found.tensors) == ("org/one", (X, Y))
    assert found.notes == ("old/name is now called org/one",)


def test_wrong_token(there: Environment) -> None:
    there.set(HF_TOKEN="hf_x")
    message = {"X-Error-Message": "Invalid credentials in Authorization header"}
    there.server.fail("/api/", Fault(status=401, headers=message))
    refused("org/one", "does not know the token")


def test_disabled(there: Environment) -> None:
    there.server.fail("/api/", Fault(status=403, headers={"X-Error-Message": "Access to this resource is disabled."}))
    refused("org/one", "org/one has been disabled")


def test_rate_limit(there: Environment) -> None:
    there.server.fail("/api/", Fault(status=429, headers={"Retry-After": "0"}), times=2)
    assert hub.fetch("org/one").tensors == (X, Y)
    there.server.fail("/api/", Fault(status=429, headers={"Retry-After": "90"}), times=1)
    begin = time.monotonic()
    refused("org/one", "limits how often it may be asked: try org/one again in 90 s")
    assert time.monotonic() - begin < 12
    there.server.fail("/api/", Fault(status=429, headers={"Retry-After": "Fri, 01 Jan 2100 00:00:00 GMT"}))
    refused("org/one", "again later")


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_server_errors_are_tried_again_and_not_for_ever(there: Environment, status: int) -> None:
    there.server.fail("model.safetensors", Fault(status=status), times=3)
    assert hub.fetch("org/one").tensors == (X, Y)
    there.server.fail("model.safetensors", Fault(status=status))
    refused("org/one", f"fails with status {status} when asked for org/one/model.safetensors")
    there.server.fail("/api/", Fault(status=status))
    refused("org/one", f"fails with status {status} when asked for org/one; it was asked four times")


@pytest.mark.parametrize(
    "fault", [Fault(cut=5), Fault(hang_up=True), Fault(garbage=b"\0\1\2 hello\r\n\r\n"), Fault(cut=3, chunked=True)]
)
@pytest.mark.parametrize("path", ["config.json", "model.safetensors"])
def test_bodies_that_end_early(there: Environment, fault: Fault, path: str) -> None:
    there.server.fail(path, fault, times=2)
    found = hub.fetch("org/one")
    assert (found.config, found.tensors) == (CONFIG, (X, Y))
    there.server.fail(path, fault)
    refused("org/one", "ends its answer before it is complete|cannot be reached|does not answer as HTTP")


def test_a_server_that_ignores_ranges(there: Environment) -> None:
    there.server.add(
        "org/huge", {"config.json": CONFIG, "model.safetensors": weights(Tensor("x", (1 << 34,), "U8", 1 << 34))}
    )
    there.server.fail("model.safetensors", Fault(ignore_range=True))
    begin = time.monotonic()
    assert hub.fetch("org/huge").tensors[0].nbytes == 1 << 34
    assert time.monotonic() - begin < 12


def test_chunked_answers(there: Environment) -> None:
    there.server.fail("one/resolve", Fault(chunked=True))
    assert hub.fetch("org/one").tensors == (X, Y)
    there.server.fail("two/resolve", Fault(chunked=True, ignore_range=True))
    assert hub.fetch("org/two").tensors == (X, Y)


def test_another_range_than_asked_for(there: Environment) -> None:
    there.server.fail("model.safetensors", Fault(shift=8))
    refused("org/one", "answers with other bytes than it was asked for")


def test_redirects(there: Environment) -> None:
    there.server.fail("/api/", Fault(status=302, headers={"Location": "/api/models/org/one/revision/main"}))
    refused("org/one", "redirects in a circle")
    there.server._faults.clear()
    for target in ("file:///etc/passwd", "ftp://x/y", "javascript:1"):
        there.server.fail("/api/", Fault(status=302, headers={"Location": target}), times=1)
        refused("org/one", "not an http or https address")
    there.server.fail("/api/", Fault(status=302), times=1)
    refused("org/one", "status 302")


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b"{}", b'{"sha": 5}', b'{"sha": "../x"}', b'{"sha": "' + b"a" * 40 + b'", "id": "../x"}']
)
def test_what_is_no_hub(there: Environment, body: bytes) -> None:
    there.server.fail("/api/", Fault(status=200, body=body))
    refused("org/one", "does not answer like a hub|names no commit")


def test_files_that_lie(there: Environment) -> None:
    there.server.add("org/lies", {"config.json": CONFIG, "model.safetensors": Sparse(b"\xff" * 8, 1 << 20)})
    refused("org/lies", r"org/lies/model\.safetensors is not a safetensors file, or lies", HeaderError)
    there.server.add("org/empty", {"config.json": CONFIG, "model.safetensors": b""})
    refused("org/empty", "is empty", HeaderError)
    there.server.add(
        "org/lost", {"model.safetensors.index.json": index({"x": "a.safetensors"}), "b.safetensors": weights(X)}
    )
    refused("org/lost", r"its index names the shard a\.safetensors, which the repository does not have", HeaderError)
    there.server.add("org/long", {"config.json": Sparse(b"{}", 1 << 30)})
    refused("org/long", "more than the 16,777,216 that such a file can have")


def test_nobody_there(there: Environment) -> None:
    there.set(HF_ENDPOINT="http://127.0.0.1:9")
    refused("org/one", "127.0.0.1:9 cannot be reached: connection refused")
    there.set(HF_ENDPOINT="http://no.such.host.invalid")
    refused("org/one", "no.such.host.invalid cannot be found")
    there.set(HF_ENDPOINT="nonsense")
    refused("org/one", "not an http or https address")


def test_proxies_of_the_environment(there: Environment) -> None:
    there.set(http_proxy=there.server.url, HF_ENDPOINT="http://hub.invalid")
    assert hub.fetch("org/plain").config == CONFIG
    there.set(no_proxy="hub.invalid")
    refused("org/one", "cannot be found")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_tls(there: Environment, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
         "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate], check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = there.server._servers["hub"]
    server.socket = context.wrap_socket(server.socket, server_side=True)
    there.set(HF_ENDPOINT=there.server.url.replace("http:", "https:"))
    refused("org/one", "cannot be reached: self.signed certificate")
    there.set(SSL_CERT_FILE=str(certificate))
    refused("org/one", "redirects from https to http")  # the CDN of this hub has no certificate
    assert hub.fetch("org/plain").config == CONFIG
    there.set(SSL_CERT_FILE="", REQUESTS_CA_BUNDLE=str(certificate))
    assert hub.fetch("org/plain").config == CONFIG
    with tunnelling_proxy() as (proxy, asked):
        there.set(https_proxy=proxy.replace("//", "//me:p%40ss@"))
        assert hub.fetch("org/plain").config == CONFIG
    assert asked
    assert b"proxy-authorization: basic bwu6cebzcw==" in asked[0].lower()
    with tunnelling_proxy(status=b"407 Proxy Authentication Required") as (proxy, _):
        there.set(https_proxy=proxy)
        refused("org/plain", "through its proxy: tunnel connection failed: 407")


@contextmanager
def tunnelling_proxy(status: bytes = b"200 Connected") -> Iterator[tuple[str, list[bytes]]]:
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def serve(client: socket.socket) -> None:
        request = client.recv(1 << 16)
        asked.append(request)
        client.sendall(b"HTTP/1.1 " + status + b"\r\n\r\n")
        host, port = request.split()[1].decode().split(":")
        with client, socket.create_connection((host, int(port))) as server:
            threading.Thread(target=copy, args=(server, client), daemon=True).start()
            copy(client, server)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        listener.shutdown(socket.SHUT_RDWR)


# --- the cache


def cache(home: Path, repo: str, files: dict[str, bytes | Sparse], revision: str = "main") -> str:
    commit = "c" * 40
    base = home / "hub" / f"models--{repo.replace('/', '--')}"
    (base / "refs").mkdir(parents=True)
    (base / "refs" / revision).write_text(commit)
    (base / "blobs").mkdir()
    (base / "snapshots" / commit).mkdir(parents=True)
    for n, (name, content) in enumerate(files.items()):
        with (base / "blobs" / str(n)).open("wb") as f:
            f.write(content.head if isinstance(content, Sparse) else content)
            f.truncate(len(content))
        (base / "snapshots" / commit / name).symlink_to(Path("../../blobs") / str(n))
    return commit


def test_cache_is_asked_first(there: Environment) -> None:
    commit = cache(there.home, "org/cached", {"config.json": CONFIG, "model.safetensors": weights(X)})
    for name in ("org/cached", f"org/cached@{commit}"):
        found = hub.fetch(name)
        assert (found.revision, found.config, found.tensors) == (commit, CONFIG, (X,))
    assert there.server.seen == []


def test_cache_without_weights_is_completed_by_the_hub(there: Environment) -> None:
    half = index({"x": "model-1.safetensors", "y": "model-2.safetensors"})
    files = {"config.json": b"{}", "model-1.safetensors": weights(X), "model.safetensors.index.json": half}
    cache(there.home, "org/two", files)
    assert hub.fetch("org/two").tensors == (X, Y)
    there.set(HF_ENDPOINT="http://127.0.0.1:9")
    found = hub.fetch("org/two")
    assert (found.config, found.tensors) == (b"{}", None)
    assert "what the cache has of org/two is used instead" in found.notes[0]


def test_cache_follows_links_that_lead_nowhere(there: Environment) -> None:
    commit = cache(there.home, "org/one", {"config.json": CONFIG, "model.safetensors": weights(X)})
    (there.home / "hub/models--org--one/blobs/1").unlink()
    assert hub.fetch("org/one").revision != commit


def test_offline(there: Environment) -> None:
    there.set(HF_HUB_OFFLINE="1")
    refused("org/one", "org/one at main is not in the cache .*HF_HUB_OFFLINE forbids")
    cache(there.home, "org/one", {"config.json": CONFIG})
    found = hub.fetch("org/one")
    assert (found.config, found.tensors) == (CONFIG, None)
    refused("org/one@v2", "org/one at v2 is not in the cache")
    for attempt in (lambda: hub.open_file("org/one", "x.gguf"), lambda: hub.open_url("https://huggingface.co/x")):
        with pytest.raises(HubError, match="HF_HUB_OFFLINE forbids"):
            attempt()
    assert there.server.seen == []


def test_the_library_agrees_on_the_cache(there: Environment) -> None:
    commit = cache(there.home, "org/cached", {"config.json": CONFIG})
    library = importlib.import_module("huggingface_hub")
    path = library.try_to_load_from_cache("org/cached", "config.json", cache_dir=there.home / "hub")
    there.set(HF_HUB_OFFLINE="1")
    assert hub.fetch("org/cached").cached == str(Path(path).parent)
    assert Path(path).parent.name == commit


# --- GGUF


def gguf_file(size: int = 1 << 33) -> Sparse:
    raw = gguf_header([], [info("w", (size,), 24, 0)])
    return Sparse(raw, round_up(len(raw), 32) + size)


def test_gguf_on_the_hub(there: Environment) -> None:
    there.server.add("org/gguf", {"Q4/m.gguf": gguf_file(), "README.md": b""})
    assert hub.fetch("org/gguf").gguf_files == ("Q4/m.gguf",)
    for file in (
        hub.open_file("org/gguf", "Q4/m.gguf"),
        hub.open_url(f"{there.server.url}/org/gguf/blob/main/Q4/m.gguf"),
        hub.open_url(f"{there.server.url}/org/gguf/resolve/main/Q4/m.gguf?download=true"),
    ):
        assert gguf.read(file).tensors[0].nbytes == 1 << 33
        assert file.name.endswith("Q4/m.gguf")
    assert there.server.sent < 4 << 20


def test_gguf_with_a_header_longer_than_the_first_request(there: Environment) -> None:
    import struct

    from test_gguf import ARRAY, STRING, array, key

    words = [f"token {i} " * 4 for i in range(100_000)]
    raw = gguf_header([key("words", ARRAY, array(STRING, words))], [info("w", (32,), 24, 0)])
    assert len(raw) > 3 << 20
    there.server.add("org/gguf", {"m.gguf": Sparse(raw, round_up(len(raw), 32) + 32)})
    assert gguf.read(hub.open_file("org/gguf", "m.gguf")).metadata["words"] == gguf.Array("STRING", 100_000)
    cut = Sparse(raw[: 1 << 21] + struct.pack("<Q", 1 << 62) * 10, len(raw))
    there.server.add("org/cut", {"m.gguf": cut})
    with pytest.raises(HeaderError):
        gguf.read(hub.open_file("org/cut", "m.gguf"))


def test_split_gguf_on_the_hub(there: Environment, tmp_path: Path) -> None:
    for n in (1, 2):
        write_split(tmp_path, n, 2, [info(f"t{n}", (32,), 0, 0)], 128, 2)
    there.server.add("org/split", {f"a b/{p.name}": p.read_bytes() for p in tmp_path.glob("*.gguf")})
    for start in (1, 2):
        file = gguf.read(hub.open_file("org/split", f"a b/m-0000{start}-of-00002.gguf"))
        assert [t.name for t in file.tensors] == ["t1", "t2"]
    del there.server.repos["org/split"].files["a b/m-00002-of-00002.gguf"]
    with pytest.raises(HubError, match=r"no file 'm-00002-of-00002\.gguf'"):
        gguf.read(hub.open_file("org/split", "a b/m-00001-of-00002.gguf"))


def test_cached_gguf(there: Environment) -> None:
    cache(there.home, "org/gguf", {"m.gguf": gguf_file(1 << 20)})
    assert hub.fetch("org/gguf").gguf_files == ("m.gguf",)
    assert gguf.read(hub.open_file("org/gguf", "m.gguf")).tensors[0].nbytes == 1 << 20
    assert there.server.seen == []


@pytest.mark.parametrize("name", ["../x.gguf", "a/../../x", "", "/etc/passwd", "a//b"])
def test_files_outside_the_repository(there: Environment, name: str) -> None:
    with pytest.raises(InputError, match="cannot be a file of org/one"):
        hub.open_file("org/one", name)


def test_urls_that_are_none(there: Environment) -> None:
    for url in ("file:///etc/passwd", "x", "http://", "https:///x"):
        with pytest.raises(HubError, match="not an http or https address"):
            hub.open_url(url)
    with pytest.raises(HubError, match="answers with status 404"):
        hub.open_url(f"{there.server.url}/nothing")
    there.server.fail("/nothing", Fault(status=503))
    with pytest.raises(HubError, match="fails with status 503"):
        hub.open_url(f"{there.server.url}/nothing")


# --- cost


def test_importing_the_hub_is_cheap() -> None:
    code = (
        "import sys, oomph.sources.hub.repository\n"
        "heavy = {'huggingface_hub', 'httpx', 'httpx2', 'requests', 'numpy', 'rich', 'asyncio'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_connections_are_kept(there: Environment) -> None:
    client = transport.Transport()
    for _ in range(3):
        assert client.get(f"{there.server.url}/org/one/resolve/main/config.json", limit=1000).body == CONFIG
    assert there.server.connections == 1
    client.close()
    assert safetensors.INDEX == "model.safetensors.index.json"
