"""Downloads by HTTPS: resumed, retried, through HTTPS_PROXY if that is set.

httpx and tenacity are imported when something is fetched, because that takes a quarter of a second.
"""

import errno
import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bakeoff.errors import HostError, ServerError, SpecError
from bakeoff.files import write_atomically
from bakeoff.servers.paths import cache_root, make_open_folder
from bakeoff.units import format_bytes

if TYPE_CHECKING:
    import httpx

Progress = Callable[[str, int, int], None]
"""Called with the action, bytes done and total bytes; never from two threads at once.

The total is 0 if it is unknown, and NOTICE if the text is worth a line that stays.
"""
NOTICE = -1
ANSWER_S = 10.0  # for connecting, and for each piece of an answer
_REMEMBERED_S = 300.0  # a host that did not answer is skipped for that long, if another source has the file
_ATTEMPTS = 4  # after a transfer broke off
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Unavailable(ServerError):
    """A source that does not answer, or does not have the file. The next source is tried."""


class NotThere(Unavailable):
    """The host answers, but has no such file."""


class _BrokenOff(Unavailable):
    """A transfer that did not finish, or a server that is too busy: worth another attempt."""


def no_progress(_what: str, _done_bytes: int, _total_bytes: int) -> None:
    pass


def sha256_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def host_of(address: str) -> str:
    return urlsplit(address).hostname or ""


def file_name(name: str, address: str) -> str:
    """Return the file name in a URL. Errors do not quote an account or a query, which may be secret."""
    try:
        parts = urlsplit(address)
        if parts.port:
            pass  # reading it checks it
    except ValueError:
        raise SpecError(f"{name}: not a valid URL.", hint="Write https://HOST/FILE.") from None
    if parts.scheme not in ("https", "file") and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise SpecError(
            f"{name}: {parts.scheme}:// is not protected against changes on the way.",
            hint="Write https://, or download the file yourself and write tarball:FILE.",
        )
    if "@" in parts.netloc or parts.query:
        raise SpecError(
            f"{name}: the URL has an account or a query, which may be secret and would appear in the report.",
            hint="Download the file yourself and write tarball:FILE.",
        )
    return PurePosixPath(parts.path).name or "download"


def download(address: str, target: Path, progress: Progress, *, patient: bool = True) -> Path:
    """Download a file, or the rest of it after an earlier attempt was interrupted.

    A host that recently did not answer is asked again only if `patient`.
    """
    import tenacity

    if target.exists():  # fetched by a bakeoff that could not use it then, perhaps for want of a library
        return target
    part = target.with_name(f"{target.name}.part")
    make_open_folder(target.parent)
    again = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_BrokenOff),
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        wait=tenacity.wait_exponential(multiplier=0.25, max=4),
        reraise=True,
    )
    with answering(address, patient=patient) as client, no_full_disk(part.parent):
        again(_receive, client, address, part, progress)
    return part.rename(target)


def _receive(client: "httpx.Client", address: str, part: Path, progress: Progress) -> None:
    import httpx

    done = part.stat().st_size if part.exists() else 0
    with client.stream("GET", address, headers={"Range": f"bytes={done}-"} if done else {}) as answer:
        if answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:  # the file has changed
            part.unlink()
            raise _BrokenOff(f"{host_of(address)} cannot resume {part.stem}")
        _require_success(answer, address)
        if answer.status_code != httpx.codes.PARTIAL_CONTENT:
            done = 0
        length = int(answer.headers.get("Content-Length") or 0)
        total = done + length if length else 0
        free = shutil.disk_usage(part.parent).free
        if length > free:
            raise OSError(errno.ENOSPC, f"{format_bytes(length)} to download, {format_bytes(free)} free")
        with part.open("ab" if done else "wb") as file:
            try:
                for piece in answer.iter_raw():
                    file.write(piece)
                    done += len(piece)
                    progress(f"fetching {part.stem}", done, total)
            except httpx.TransportError:
                of_total = f" of {total}" if total else ""
                raise _BrokenOff(f"{host_of(address)} broke off after {done}{of_total} bytes of {part.stem}") from None


def read_text(address: str, *, patient: bool = True) -> str:
    """Return a small text file: a checksum, a signature, a list of releases."""
    with answering(address, patient=patient) as client:
        answer = client.get(address)
        _require_success(answer, address, html=True)
        return answer.text


def _require_success(answer: "httpx.Response", address: str, *, html: bool = False) -> None:
    host, status = host_of(address), answer.status_code
    page = answer.headers.get("Content-Type", "").startswith("text/html")
    if status in (403, 404, 410) or (answer.is_success and page and not html):  # object stores say 403
        raise NotThere(f"{host} has no {PurePosixPath(urlsplit(address).path).name}")
    if status == 429 or answer.is_server_error:
        raise _BrokenOff(f"{host} answers with status {status}")
    if not answer.is_success:
        raise Unavailable(f"{host} answers with status {status}")


@contextmanager
def answering(address: str, *, patient: bool) -> Iterator["httpx.Client"]:
    """Yield a client for a host; turn network errors into `Unavailable`, and remember a host that fails."""
    import httpx

    host = host_of(address)
    silent = _silent_hosts()
    if host in silent and not patient:
        raise Unavailable(f"{host} cannot be reached ({silent[host][1]})")
    try:
        with httpx.Client(
            timeout=ANSWER_S,
            follow_redirects=True,
            headers={"Accept-Encoding": "identity", "User-Agent": "bakeoff"},
            event_hooks={"request": [_require_https]},
        ) as client:
            yield client
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as problem:
        text = re.sub(r"^\[Errno -?\d+\] ", "", str(problem).partition("\n")[0])
        why = "no answer in 10 s" if isinstance(problem, httpx.TimeoutException) else text
        silent[host] = (time.time(), why)
        with suppress(OSError):
            write_atomically(make_open_folder(cache_root()) / "silent-hosts.json", json.dumps(silent).encode())
        raise Unavailable(f"{host} cannot be reached ({why})") from None


def _require_https(request: "httpx.Request") -> None:
    if request.url.scheme != "https" and request.url.host not in _LOOPBACK:
        raise ServerError(f"{request.url.host}: redirected to {request.url.scheme}://, which is not protected.")


def _silent_hosts() -> dict[str, tuple[float, str]]:
    with suppress(OSError, ValueError):
        found = json.loads((cache_root() / "silent-hosts.json").read_bytes())
        return {host: (at, why) for host, (at, why) in found.items() if 0 <= time.time() - at < _REMEMBERED_S}
    return {}


@contextmanager
def no_full_disk(folder: Path) -> Iterator[None]:
    """Turn an error of writing into one line that names the disk."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise HostError(
            f"the disk of {folder} is full: {problem.strerror}.",
            hint="Free some space, or set XDG_CACHE_HOME.",
        ) from None
