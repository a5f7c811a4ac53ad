"""A model on the Hugging Face hub: its small files and its headers, never its weights.

huggingface_hub's cache is asked first; then one round trip for the listing and config.json, and one for all else.
"""

import os
import re
import threading
from collections.abc import Collection, Iterable
from typing import NoReturn
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from oomph.errors import HeaderError, HubError, InputError
from oomph.ir import Tensor
from oomph.sources import boundary, safetensors
from oomph.sources.hub import home as hub_home
from oomph.sources.hub.home import Hub
from oomph.sources.hub.remote import Asked, RemoteFile, refuse
from oomph.sources.hub.reply import Reply
from oomph.sources.hub.transport import Transport, Unreachable, in_parallel
from oomph.sources.json_input import MAX_CONFIG_BYTES, read_file
from oomph.sources.ranges import LocalFile, Ranges
from oomph.text.nesting import bounded

CONFIG = "config.json"
QUANT_CONFIG = "hf_quant_config.json"  # ModelOpt's, beside a config.json without quantization_config
MAX_LISTING_BYTES = 64 << 20
MAX_HEADERS_BYTES = 256 << 20  # of all shards together; the largest real checkpoints have about 40 MB
# A shard's header is 10 to 150 KB, so that one request does for nearly all of them.
FIRST_READ = 192 << 10
FIRST_READ_OF_MANY = 96 << 10  # more than MANY shards
MANY = 64
WORKERS = 16
_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9_][\w.-]{0,95})?", re.ASCII)
_REVISION = re.compile(r"[\w.+-][\w.+/-]{0,249}", re.ASCII)


class HubSnapshot(Struct, frozen=True):
    """A repository at one commit, as far as memory is concerned."""

    repo: str  # its name today: a renamed repository answers under both
    revision: str  # the commit
    files: dict[str, int]  # name -> bytes
    documents: dict[str, bytes]  # the small files asked for and there
    tensors: tuple[Tensor, ...] | None  # None: no safetensors files
    index: safetensors.Index | None = None
    cached: str = ""  # the folder in huggingface_hub's cache that it came from
    notes: tuple[str, ...] = ()

    @property
    def config(self) -> bytes | None:
        return self.documents.get(CONFIG)

    @property
    def quant_config(self) -> bytes | None:
        return self.documents.get(QUANT_CONFIG)

    @property
    def gguf_files(self) -> tuple[str, ...]:
        return tuple(sorted(name for name in self.files if name.endswith(".gguf")))


def parse_id(text: str) -> tuple[str, str | None]:
    """'org/name@revision' -> ('org/name', 'revision'). The hub's own rules for names."""
    repo, at, revision = text.partition("@")
    if not is_repo_id(repo):
        raise InputError(f"{text[:200]!r} is not a hub model: it would be org/name or org/name@revision")
    if at and not _is_revision(revision):
        raise InputError(f"{revision[:200]!r} is not a revision of {repo}: a branch, tag or commit")
    return repo, revision or None


def is_repo_id(text: str) -> bool:
    return _REPO.fullmatch(text) is not None and "--" not in text and ".." not in text and not text.endswith(".git")


def _is_revision(text: str) -> bool:
    return _REVISION.fullmatch(text) is not None and ".." not in text and "//" not in text and not text.endswith("/")


def fetch(repo_id: str, revision: str | None = None, *, also: Collection[str] = ()) -> HubSnapshot:
    """The files that say how much memory a model needs: config.json, hf_quant_config.json, those named by `also`,
    and the headers of its safetensors files."""
    repo, at = parse_id(repo_id)
    revision = revision or at or "main"
    if not _is_revision(revision):
        raise InputError(f"{revision[:200]!r} is not a revision of {repo}: a branch, tag or commit")
    hub = hub_home.hub()
    documents = (CONFIG, QUANT_CONFIG, *also)
    local = _from_cache(hub, repo, revision, documents)
    if local is not None and (local.tensors is not None or local.gguf_files):
        return local
    if hub.offline:
        if local is None:
            raise HubError(
                f"{repo} at {revision} is not in the cache ({hub.cache}), and HF_HUB_OFFLINE forbids asking the hub",
                hint=f"unset HF_HUB_OFFLINE, or once: hf download {repo} config.json",
            )
        return local
    transport = hub.transport()
    try:
        return _from_hub(_Repository(transport, hub, repo, revision), documents)
    except Unreachable as error:
        if local is None:
            hint = f"{repo} is in no catalogue here: name a folder with its config.json, or set HF_ENDPOINT"
            raise Unreachable(error.message, hint=error.hint or hint) from None
        note = f"{error.message}; what the cache has of {repo} is used instead"
        return msgspec.structs.replace(local, notes=(*local.notes, note))
    finally:
        transport.close()


def open_file(repo_id: str, filename: str, revision: str | None = None) -> Ranges:
    """A file of a repository for a header reader: the cached copy, or ranges of the hub's."""
    repo, at = parse_id(repo_id)
    revision = revision or at or "main"
    parts = filename.split("/")
    if not all(safetensors.is_plain_name(p) for p in parts) or not _is_revision(revision):
        raise InputError(f"{filename[:200]!r} at {revision[:200]!r} cannot be a file of {repo}")
    hub = hub_home.hub()
    folder = hub_home.snapshot_folder(hub, repo, revision)
    if folder is not None and (folder / filename).is_file():
        return LocalFile(folder / filename)
    if hub.offline:
        raise HubError(f"{filename} of {repo} is not in the cache ({hub.cache}), and HF_HUB_OFFLINE forbids asking")
    url = _url(hub, repo, revision, filename)
    request = Asked(repo, revision, filename, hub.token is not None, hub.endpoint)
    return RemoteFile(hub.transport(), url, f"{repo}/{filename}", request)


def open_url(url: str) -> Ranges:
    """A file at an address. The hub's web pages of a file (/blob/) mean the file."""
    hub = hub_home.hub()
    if hub.offline:
        raise HubError(f"{url[:200]} is on the network, and HF_HUB_OFFLINE forbids asking")
    try:
        host = urlsplit(url).hostname
    except ValueError:
        raise InputError(f"{url[:200]!r} is not an address") from None
    boundary.require_address(url, hub.endpoint)
    if host in ("huggingface.co", "hf.co", urlsplit(hub.endpoint).hostname):
        url = url.replace("/blob/", "/resolve/", 1)
    return RemoteFile(hub.transport(), url, url.partition("?")[0], None)


class _Sibling(Struct):
    rfilename: str
    size: int | None = None


class _Listing(Struct):
    sha: str
    siblings: list[_Sibling] = []
    id: str = ""


def _from_hub(repository: "_Repository", documents: Iterable[str]) -> HubSnapshot:
    # Nearly every repository has a config.json: asking for it together with the listing saves a round trip.
    listing, config = in_parallel(
        lambda name: repository.document(name) if name else repository.listing(), ("", CONFIG), 2
    )
    assert isinstance(listing, _Listing)
    assert isinstance(config, Reply)
    files = {s.rfilename: s.size or 0 for s in listing.siblings}
    repo = repository.at(listing)
    beside = [n for n in files if safetensors.is_plain_name(n)]
    texts: dict[str, bytes] = {}
    if config.status == 200 and config.headers.get("x-repo-commit", listing.sha) == listing.sha:
        texts[CONFIG] = config.body
    missing = [n for n in dict.fromkeys((safetensors.INDEX, *documents)) if n in files and n not in texts]
    shards = safetensors.weight_files(beside, None)
    repo.expect(shards, files)
    headers: dict[str, tuple[Tensor, ...]] = {}

    def read(name: str) -> None:
        if name in files and name.endswith(".safetensors"):
            headers[name] = repo.header(name)
        else:
            texts[name] = repo.text(name)

    in_parallel(read, (*missing, *shards), WORKERS)
    raw = texts.pop(safetensors.INDEX, None)
    index = None if raw is None else safetensors.parse_index(raw, f"{repo.name}/{safetensors.INDEX}")
    tensors = _merge(repo.name, headers, safetensors.weight_files(shards, index)) if headers else None
    notes = () if repo.name.lower() == repository.name.lower() else (f"{repository.name} is now called {repo.name}",)
    return HubSnapshot(
        repo.name,
        revision=repo.revision,
        files=files,
        documents=texts,
        tensors=tensors,
        index=index,
        cached="",
        notes=notes,
    )


def _merge(repo: str, headers: dict[str, tuple[Tensor, ...]], wanted: Iterable[str]) -> tuple[Tensor, ...]:
    for name in wanted:
        if name not in headers:
            raise HeaderError(f"{repo}: its index names the shard {name}, which the repository does not have")
    return safetensors.merge((f"{repo}/{name}", headers[name]) for name in wanted)


def _url(hub: Hub, repo: str, revision: str, name: str) -> str:
    return f"{hub.endpoint}/{repo}/resolve/{quote(revision, safe='')}/{quote(name)}"


class _Repository:
    """One repository at one revision, asked over HTTP by several threads."""

    def __init__(self, transport: Transport, hub: Hub, name: str, revision: str) -> None:
        self.name, self.revision = name, revision
        self._transport, self._hub = transport, hub
        self._first = FIRST_READ
        self._left = MAX_HEADERS_BYTES
        self._sizes: dict[str, int] = {}
        self._lock = threading.Lock()

    def at(self, listing: _Listing) -> "_Repository":
        """The same under its name of today and at the commit that the revision means."""
        return _Repository(self._transport, self._hub, listing.id or self.name, listing.sha)

    def expect(self, shards: Collection[str], sizes: dict[str, int]) -> None:
        self._first = FIRST_READ if len(shards) <= MANY else FIRST_READ_OF_MANY
        self._sizes = sizes

    def listing(self) -> _Listing:
        url = f"{self._hub.endpoint}/api/models/{self.name}/revision/{quote(self.revision, safe='')}?blobs=true"
        reply = self._transport.get(url, limit=MAX_LISTING_BYTES)
        if reply.status != 200:
            self._refuse(reply)
        try:
            listing = msgspec.json.decode(bounded(reply.body), type=_Listing)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise HubError(f"{self._hub.endpoint} does not answer like a hub when asked for {self.name}") from None
        if not _is_revision(listing.sha) or (listing.id and not is_repo_id(listing.id)):  # a mirror may have no hashes
            raise HubError(f"{self._hub.endpoint} names no commit of {self.name}")
        return listing

    def document(self, name: str) -> Reply:
        limit = safetensors.MAX_HEADER_BYTES if name == safetensors.INDEX else MAX_CONFIG_BYTES
        return self._transport.get(_url(self._hub, self.name, self.revision, name), limit=limit)

    def text(self, name: str) -> bytes:
        reply = self.document(name)
        if reply.status != 200:
            self._refuse(reply, name)
        return reply.body

    def header(self, name: str) -> tuple[Tensor, ...]:
        where = f"{self.name}/{name}"
        first = self._range(name, _url(self._hub, self.name, self.revision, name), 0, self._first)
        size = self._sizes.get(name, 0) if first.total is None else first.total
        length = safetensors.header_length(first.body[:8], size, where)
        with self._lock:
            self._left -= length
            if self._left < 0:
                raise HeaderError(f"{where}: the headers of {self.name} exceed {MAX_HEADERS_BYTES >> 20} MiB")
        raw = first.body[8 : 8 + length]
        if len(raw) < length:
            raw += self._range(name, first.url, 8 + len(raw), length - len(raw)).body
        with self._lock:  # one at a time: what is being decoded takes several times the space of its JSON
            return safetensors.parse_header(raw, size, where)

    def _range(self, name: str, url: str, start: int, length: int) -> Reply:
        reply = self._transport.get(url, start=start, length=length, limit=length)
        if reply.status == 416:
            raise HeaderError(f"{self.name}/{name} is empty")
        if reply.status not in (200, 206):
            self._refuse(reply, name)
        return reply

    def _refuse(self, reply: Reply, file: str = "") -> NoReturn:
        request = Asked(self.name, self.revision, file, self._hub.token is not None, self._hub.endpoint)
        refuse(reply, request, f"{self.name}/{file}" if file else self.name)


def _from_cache(hub: Hub, repo: str, revision: str, documents: Iterable[str]) -> HubSnapshot | None:
    """What the cache has, if it has a config.json or a GGUF file. Half a set of shards counts as none."""
    folder = hub_home.snapshot_folder(hub, repo, revision)
    if folder is None:
        return None
    try:
        with os.scandir(folder) as entries:
            files = {e.name: e.stat().st_size for e in entries if e.is_file()}
    except OSError:
        return None
    if CONFIG not in files and not any(name.endswith(".gguf") for name in files):
        return None
    texts = {n: read_file(folder / n, limit=MAX_CONFIG_BYTES) for n in documents if n in files}
    try:
        tensors = safetensors.read_folder(folder)
        index = safetensors.find_index(folder)
    except HeaderError:
        tensors, index = None, None
    return HubSnapshot(repo, folder.name, files, texts, tensors, index, cached=str(folder))
