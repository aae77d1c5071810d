"""What a folder of binaries is: where mysqld, its messages, plugins and loader are, found from the files present.

Works for every catalogue packing, for official tarballs of MySQL, MariaDB and Percona Server, for a distribution's
/usr, and for the path of a mysqld itself. Nothing is run here.

A tree that holds a C library of its own (Debian packages, unpacked) is run through *that* library's loader: the
host's loader with a foreign libc fails on private symbols, and the host's libc may be too old for the binary.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bakeoff.errors import SpecError

_DAEMONS = (
    "bin/mariadbd",
    "bin/mysqld",
    "sbin/mariadbd",
    "sbin/mysqld",
    "libexec/mariadbd",
    "libexec/mysqld",
    "mysqld",
    "mariadbd",
)
_SHARES = ("share", "share/mysql", "share/mariadb", "share/percona-server")
_PLUGINS = (
    "lib/plugin",
    "lib/mysql/plugin",
    "lib64/mysql/plugin",
    "lib64/plugin",
    "lib/mariadb/plugin",
    "lib/x86_64-linux-gnu/mariadb19/plugin",
)
_LOADERS = (
    "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    "lib/x86_64-linux-gnu/ld-2.31.so",  # before usrmerge; lib64/ld-linux… of such a tree is a link into the host
    "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
)


@dataclass(frozen=True)
class Layout:
    """Where the parts of one server are.

    Attributes:
        daemon: mysqld or mariadbd.
        argv: how to run it: the daemon, or its loader with the library path and the daemon.
        share: folder with the messages and the system table scripts.
        environment: variables that the daemon needs to find its own libraries.
        own_loader: argv starts with a loader of the tree.
    """

    basedir: Path
    daemon: Path
    argv: tuple[str, ...]
    share: Path
    plugin_dir: Path | None
    environment: Mapping[str, str] = field(default_factory=dict)
    own_loader: bool = False

    @property
    def base_options(self) -> tuple[str, ...]:
        """Options for init and start alike that say where the parts are."""
        options = [f"--basedir={self.basedir}", f"--lc-messages-dir={self.share}"]
        if (self.share / "charsets" / "Index.xml").exists():
            options.append(f"--character-sets-dir={self.share / 'charsets'}")
        if self.plugin_dir:
            options.append(f"--plugin-dir={self.plugin_dir}")
        return tuple(options)


def detect(place: Path) -> Layout:
    """The layout of a basedir, an unpacked root file system, or a mysqld binary.

    Raises:
        SpecError: there is no server at `place`, or a part of it is missing; says which.
    """
    place = place.expanduser().absolute()
    if not place.exists():
        raise SpecError(f"path {place} does not exist.", hint="Name a basedir (path:/opt/mysql) or a mysqld.")
    if place.is_file():
        return _around(place, _basedir_of(place))
    loader = next((place / each for each in _LOADERS if (place / each).exists()), None)
    for basedir in (place / "usr", place) if loader and place != Path("/") else (place, place / "usr"):
        daemon = next((basedir / each for each in _DAEMONS if (basedir / each).is_file()), None)
        if daemon:
            inside_root = loader if basedir == place / "usr" and place != Path("/") else None
            return _around(daemon, basedir, inside_root, place)
    raise SpecError(
        f"path {place} holds no mysqld or mariadbd (looked for {', '.join(_DAEMONS[:4])}).",
        hint="Name the basedir, or the binary itself.",
    )


def _around(daemon: Path, basedir: Path, loader: Path | None = None, root: Path | None = None) -> Layout:
    share = next((each for each in _shares_of(basedir) if (each / "english" / "errmsg.sys").exists()), None)
    if share is None:
        raise SpecError(
            f"path {basedir} holds {daemon.name} and no share/english/errmsg.sys.",
            hint="Name a complete basedir; message files are needed.",
        )
    plugin_dir = next((basedir / each for each in _PLUGINS if (basedir / each).is_dir()), None)
    if loader and root:
        libraries = [
            each for each in (root / "lib/x86_64-linux-gnu", root / "usr/lib/x86_64-linux-gnu") if each.is_dir()
        ]
        argv = (str(loader), "--library-path", ":".join(str(each) for each in libraries), str(daemon))
        return Layout(basedir, daemon, argv, share, plugin_dir, own_loader=True)
    return Layout(basedir, daemon, (str(daemon),), share, plugin_dir, _library_path(basedir))


def _basedir_of(daemon: Path) -> Path:
    return daemon.parent.parent if daemon.parent.name in ("bin", "sbin", "libexec") else daemon.parent


def _shares_of(basedir: Path) -> Iterator[Path]:
    return (basedir / each for each in _SHARES)


def _library_path(basedir: Path) -> dict[str, str]:
    """Some packages ship libaio beside the daemon, or under libs/, and leave finding it to the environment."""
    for folder in (basedir, basedir / "libs"):
        if (folder / "libaio.so.1").exists():
            return {"LD_LIBRARY_PATH": str(folder)}
    return {}
