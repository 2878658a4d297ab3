"""The console script `paraboloid`: what can be typed. Nothing heavy is imported before a command is known.

It stands beside the package, not in it, because importing anything of the package brings torch along, and help should
be there at once. What the commands do is in `paraboloid.cli`.

Exit codes: 0 done; 1 it ran and failed; 2 what was asked for cannot be had; 130 stopped by Ctrl-C; 143 by SIGTERM.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

EXITS = """exit codes: 0 done, 1 it ran and failed, 2 what was asked for cannot be had,
            130 stopped by Ctrl-C, 143 stopped by SIGTERM (both saved: the same command resumes)"""
SCALES = ("smoke", "laptop", "paper")


class Parser(argparse.ArgumentParser):
    """Answers a mistake with one line and the nearest thing that exists."""

    def error(self, message: str) -> NoReturn:
        hint = f"`{self.prog} --help` shows what is."
        if "unrecognized arguments" in message:
            wrong = message.partition(": ")[2].split()[0]
            message, hint = f"there is no option {wrong}", _near(wrong, list(_options(self))) or hint
        elif "invalid choice" in message:
            wrong = message.partition("invalid choice: ")[2].split(" ")[0].strip("'")
            choices = [str(choice) for action in self._actions for choice in action.choices or ()]
            what = message.partition(":")[0].removeprefix("argument ")
            message, hint = f"{what} {wrong!r} is not there", _near(wrong, choices) or hint
        print(f"{self.prog}: {message.rstrip('.')}. {hint}", file=sys.stderr)
        sys.exit(2)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Every option of a parser and of the commands below it."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action.choices, dict):
            for below in action.choices.values():
                yield from _options(below)


def _near(wrong: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(wrong, known, n=1, cutoff=0.5)
    return f"Did you mean {near[0]}?" if near else ""


def parser() -> Parser:
    """Every command and option."""
    top = Parser(
        prog="paraboloid",
        description="Claims of five papers, each one file that anyone can run, with records and a report.",
        epilog=EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="store_true", help="print the version")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    def command(name: str, text: str) -> Parser:
        return commands.add_parser(name, help=text, description=text, epilog=EXITS, allow_abbrev=False)

    one = command("list", "the recipes: what each claims and what it costs")
    one.add_argument("--json", action="store_true", help="as JSON")
    _run_options(command("run", "run recipes; the same command again resumes"))
    one = command("show", "one run: its state, values and verdicts")
    one.add_argument("run", help="folder of a run, or the name of a recipe (its latest run)")
    _out_option(one)
    one.add_argument("--json", action="store_true", help="the record as JSON")
    one = command("record", "keep the results of finished runs as records")
    one.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or the name of a recipe (its latest run)")
    _out_option(one)
    _records_option(one)
    one = command("report", "one HTML file of runs, or of all records")
    one.add_argument("runs", nargs="*", metavar="RUN", help="folders of runs, or names of recipes; none: the records")
    _out_option(one)
    _records_option(one)
    one.add_argument("--to", default="report.html", metavar="FILE", help="where the report goes (%(default)s)")
    one = command("table", "measured beside published, from the records")
    _records_option(one)
    one.add_argument("--write", metavar="FILE", help="write the page of results")
    one.add_argument("--check", metavar="FILE", help="exit with 1 if this page is not what the records give")
    _data_options(command("data", "the data sets: what is here, getting, checking"))
    command("doctor", "versions, threads, devices, data found, and what is slow here")
    return top


def _out_option(one: Parser) -> None:
    one.add_argument("--out", default="runs", metavar="DIR", help="where runs live (%(default)s)")


def _records_option(one: Parser) -> None:
    one.add_argument("--records", default="records", metavar="DIR", help="where records live (%(default)s)")


def _run_options(one: Parser) -> None:
    one.add_argument("recipes", nargs="+", metavar="RECIPE", help="names from `paraboloid list`, or files")
    one.add_argument("--scale", choices=SCALES, default="smoke", help="seconds, minutes, or the paper's (%(default)s)")
    one.add_argument("--seeds", nargs="+", type=int, metavar="N", help="instead of the scale's own")
    one.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, … (%(default)s)")
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change one key of the config")
    one.add_argument("--config", metavar="FILE", help="a JSON file of keys to change")
    _out_option(one)
    one.add_argument("--jobs", type=int, metavar="N", help="cells side by side (CPU: one for each core; GPU: 1)")
    one.add_argument(
        "--checkpoint-seconds", type=float, default=60.0, metavar="S", help="save this often (%(default)s)"
    )
    one.add_argument("--restart", action="store_true", help="throw away what an earlier run left, and begin anew")
    how = one.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="the records as JSON, one per line, and nothing else")
    how.add_argument("--quiet", action="store_true", help="only errors")


def _data_options(one: Parser) -> None:
    actions = one.add_subparsers(dest="action", metavar="ACTION", parser_class=Parser, required=True)
    shown = actions.add_parser("list", help="every data set, and where it would come from", allow_abbrev=False)
    shown.add_argument("--json", action="store_true", help="as JSON")
    got = actions.add_parser("get", help="download into the cache", allow_abbrev=False)
    got.add_argument("names", nargs="+", metavar="NAME")
    checked = actions.add_parser("check", help="verify hashes; without names, all that are here", allow_abbrev=False)
    checked.add_argument("names", nargs="*", metavar="NAME")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, then hand over."""
    top = parser()
    given = top.parse_args(arguments)
    if given.version:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(version("paraboloid"))
        except PackageNotFoundError:
            print("from sources")
        return 0
    if given.command is None:
        top.print_help()
        return 0
    from paraboloid.cli.main import execute

    try:
        return execute(given)
    except BrokenPipeError:  # `paraboloid list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
