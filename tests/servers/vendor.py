"""A web server on 127.0.0.1 that plays MySQL's, Percona's and MariaDB's: tarballs, checksums, signatures, lists."""

import contextlib
import datetime
import hashlib
import io
import re
import select
import shutil
import socket
import ssl
import subprocess
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

ADDRESSES = {
    "mysql": ["{site}/get/Downloads/MySQL-{{series}}/{{file}}", "{site}/archives/get/p/23/file/{{file}}"],
    "percona": ["{site}/downloads/Percona-Server-{{series}}/Percona-Server-{{version}}/binary/tarball/{{file}}"],
    "mariadb": ["{site}/mariadb-{{version}}/bintar-{{build}}/{{file}}"],
}
FIELDS = {
    "mysql": """checksums = { md5 = "{address}.md5" }
signature = "{address}.asc"
lists = ["SITE/downloads/mysql/"]
listed = 'mysql-(\\d+\\.\\d+\\.\\d+)'
lts = ["8.4"]
""",
    "percona": """checksums = { sha256 = "{address}.sha256sum" }
lists = ["SITE/downloads/Percona-Server-{series}/"]
listed = 'Percona-Server-(\\d+\\.\\d+\\.\\d+-\\d+)'
""",
    "mariadb": """checksums = { sha256 = "{folder}/sha256sums.txt" }
lists = ["SITE/rest-api/mariadb/{series}/"]
listed = '"(\\d+\\.\\d+\\.\\d+)"'
""",
}
NAMES = {
    "mysql": 'minimal = ["mysql-{version}-linux-glibc2.17-{arch}-minimal.tar.xz"], '
    'full = ["mysql-{version}-linux-glibc2.28-{arch}.tar.xz"]',
    "percona": 'minimal = ["Percona-Server-{version}-Linux.{arch}.glibc{glibc}-minimal.tar.gz"], '
    'glibc = ["2.35", "2.17"]',
    "mariadb": 'full = ["mariadb-{version}-linux-systemd-{arch}.tar.gz"]',
}


class StandIn:
    """`files` maps a path to its content; the other fields say how the server misbehaves."""

    def __init__(self, certificate=None):
        """Speak TLS if there is a folder for a certificate."""
        self.files = {}
        self.requests = []
        self.break_after = []  # bytes after which the next answers break off
        self.busy = 0  # how many of the next requests are answered with 503
        self.pause_s = 0.0  # before each 64 KiB
        self.redirect = {}
        self.silent = False
        self.keys = []
        self.key_file = ""
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    stand_in._answer(self)

            def do_CONNECT(self):
                stand_in._tunnel(self)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.site = f"http://127.0.0.1:{self.server.server_port}"
        if certificate:
            self.site = f"https://localhost:{self.server.server_port}"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*own_certificate(certificate))
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def _answer(self, request):
        path = request.path.removeprefix(self.site)  # a proxy is asked for whole addresses
        self.requests.append((path, request.headers.get("Range", "")))
        if self.silent:
            time.sleep(60)
        if self.busy:
            self.busy -= 1
            request.send_error(503)
            return
        if path in self.redirect:
            request.send_response(302)
            request.send_header("Location", self.redirect[path])
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        content = self.files.get(path)
        if content is None:
            request.send_error(404)
            return
        begin = int((re.match(r"bytes=(\d+)-", request.headers.get("Range", "")) or [0, "0"])[1])
        request.send_response(206 if begin else 200)
        request.send_header("Content-Length", str(len(content) - begin))
        request.end_headers()
        end = self.break_after.pop(0) if self.break_after and len(content) > 1000 else len(content)
        for at in range(begin, end, 65536):
            time.sleep(self.pause_s)
            request.wfile.write(content[at : min(at + 65536, end)])
        if end < len(content):
            request.close_connection = True

    def _tunnel(self, request):
        """Act as a proxy: pass bytes on to the host that a client names."""
        self.requests.append((request.path, ""))
        host, _, port = request.path.partition(":")
        with socket.create_connection((host, int(port))) as there:
            request.send_response(200)
            request.end_headers()
            ends = {request.connection: there, there: request.connection}
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    if not (data := end.recv(65536)):
                        return
                    ends[end].sendall(data)

    def add(self, flavour, file, content, *, archived=False, signer=None, published=True):
        """Offer a tarball where its vendor would, with what the vendor publishes beside it."""
        version = re.search(r"\d+\.\d+\.\d+(-\d+)?", file)[0]
        where = {"series": ".".join(version.split(".")[:2]), "version": version, "file": file, "build": file}
        where["build"] = re.sub(rf"^.*{re.escape(version)}-|\.tar\.\w+$", "", file)
        path = ADDRESSES[flavour][int(archived)].format(site="").format(**where)
        self.files[path] = content
        if published:
            sha256, md5 = (hashlib.new(kind, content).hexdigest() for kind in ("sha256", "md5"))
            self.files[f"{path}.md5" if flavour == "mysql" else f"{path}.sha256sum"] = (
                f"{md5}  {file}\n" if flavour == "mysql" else f"{sha256}  {file}\n"
            ).encode()
            self.files[f"{path.rpartition('/')[0]}/sha256sums.txt"] = f"{'0' * 64}  other\n{sha256}  {file}\n".encode()
        if signer:
            self.files[f"{path}.asc"] = signer.sign(content)
        return path

    def catalogue(self):
        """The text of a servers.toml that sends bakeoff here instead of to the vendors."""
        text = "format = 1\n"
        for flavour, addresses in ADDRESSES.items():
            text += f"[vendor.{flavour}]\naddresses = {[each.format(site=self.site) for each in addresses]}\n"
            text += FIELDS[flavour].replace("SITE", self.site)
            if flavour == "mysql" and self.keys:
                text += f"keys = {self.keys}\nkey_files = ['{self.key_file}']\n"
            text += f"files = [{{ versions = '5.5-', {NAMES[flavour]} }}]\n"
        return text


def own_certificate(folder):
    """Make a certificate for localhost that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(*plain))
    return folder / "certificate.pem", folder / "key.pem"


class Signer:
    """An OpenPGP key of the test's own."""

    def __init__(self, home):
        self.home = home
        home.mkdir(mode=0o700)
        self._gpg(
            "--quick-gen-key", "--passphrase", "", "--pinentry-mode", "loopback", "test <test@example.org>", "ed25519"
        )
        listed = self._gpg("--list-keys", "--with-colons").decode()
        self.fingerprint = re.search(r"^fpr:+([0-9A-F]{40}):", listed, re.MULTILINE)[1]
        self.public = self._gpg("--armor", "--export", self.fingerprint)

    def sign(self, content):
        return self._gpg("--armor", "--detach-sign", stdin=content)

    def close(self):
        subprocess.run(["gpgconf", "--homedir", self.home, "--kill", "all"], check=False, capture_output=True)

    def _gpg(self, *arguments, stdin=b""):
        argv = ["gpg", "--homedir", str(self.home), "--batch", "--yes", *arguments]
        return subprocess.run(argv, input=stdin, capture_output=True, check=True).stdout


def tarball(tree, top, mode="w:gz"):
    """A vendor's tarball of a folder, below one top folder."""
    buffer = io.BytesIO()
    with tarfile.open(
        fileobj=buffer, mode=mode, **({"compresslevel": 1} if mode == "w:gz" else {"preset": 0})
    ) as archive:
        archive.add(tree, top)
    return buffer.getvalue()


def fake_server(root, version, more=b""):
    """A folder that looks like a server: a shell script that says its version."""
    shutil.rmtree(root, ignore_errors=True)
    (root / "bin").mkdir(parents=True)
    (root / "share/english").mkdir(parents=True)
    (root / "share/english/errmsg.sys").write_bytes(more)
    comment = {"percona": "Percona Server (GPL), Release 4"}.get(version[0], "MySQL Community Server - GPL")
    suffix = "-MariaDB" if version[0] == "mariadb" else ""
    (root / "bin/mysqld").write_text(
        f"#!/bin/sh\necho 'mysqld  Ver {version[1]}{suffix} for Linux on x86_64 ({comment})'\n"
    )
    (root / "bin/mysqld").chmod(0o755)
    return root
