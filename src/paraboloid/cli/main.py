"""From parsed arguments to a command, and from what goes wrong to one line and an exit code."""

from __future__ import annotations

import sys
from argparse import Namespace

from paraboloid.cli import catalogue, data, doctor, results, running
from paraboloid.recipes.refused import UNAVAILABLE
from paraboloid.recipes.runs import RunFailed
from paraboloid.recipes.stopping import Interrupted

COMMANDS = {
    "list": catalogue.show,
    "run": running.run,
    "show": results.show,
    "record": results.record,
    "report": results.report,
    "table": results.table,
    "data": data.act,
    "doctor": doctor.examine,
}


def execute(given: Namespace) -> int:
    """Carry out the command; see `paraboloid_command` for the exit codes."""
    try:
        return COMMANDS[given.command](given)
    except UNAVAILABLE as error:
        return _say(str(error), 2)
    except BrokenPipeError:
        raise
    except (RunFailed, OSError) as error:  # a full disk, mostly, as NotWritten says it
        return _say(str(error), 1)
    except Interrupted as error:
        return _say(f"{error}, saved. The same command goes on from there.", 128 + error.signum)
    except KeyboardInterrupt:
        return _say("stopped at once. The same command goes on from the last checkpoint.", 130)


def _say(message: str, code: int) -> int:
    print(f"paraboloid: {message}", file=sys.stderr)
    return code
