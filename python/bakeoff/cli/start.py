"""Start the `bakeoff` command: give way to the engine for `bakeoff sysbench`, and import the rest only after that."""

import signal
import sys
from typing import NoReturn

from bakeoff.engine_path import become_sysbench
from bakeoff.errors import BakeoffError


def main() -> NoReturn:
    """Run the command line; exits with one of `ExitCode`, or as the engine does."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["sysbench"]:
        try:
            become_sysbench(arguments[1:])
        except BakeoffError as error:
            print(f"bakeoff: {error}", file=sys.stderr)
            sys.exit(error.exit_code)
    # The imports take a second. Ctrl-C ends them as SIGTERM does, at once and in silence; a shell reports 130.
    heeds_ctrl_c = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeds_ctrl_c:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from bakeoff.cli.main import run

    if heeds_ctrl_c:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
