"""Start the `bakeoff` command: give way to the engine for `bakeoff sysbench`, and import the rest only after that."""

# `_signal` is built into Python: until here nothing is imported that Ctrl-C could interrupt.
import _signal

# Ctrl-C ends the imports, which take a second, as SIGTERM does: at once and in silence. A shell reports 130.
_HEEDS_CTRL_C = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
if _HEEDS_CTRL_C:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import contextlib  # noqa: E402
import sys  # noqa: E402
from typing import NoReturn  # noqa: E402

from bakeoff.engine_path import become_sysbench  # noqa: E402
from bakeoff.errors import BakeoffError, ExitCode  # noqa: E402


def main() -> NoReturn:
    """Run the command line; exits with one of `ExitCode`, or as the engine does."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["sysbench"]:
        try:
            become_sysbench(arguments[1:])
        except BakeoffError as error:
            print(f"bakeoff: {error}", file=sys.stderr)
            sys.exit(error.exit_code)
    from bakeoff.cli.main import run

    code = int(ExitCode.INTERRUPTED)
    with contextlib.suppress(KeyboardInterrupt):
        if _HEEDS_CTRL_C:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        code = run(arguments)
    if _HEEDS_CTRL_C:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    sys.exit(code)


if __name__ == "__main__":
    main()
