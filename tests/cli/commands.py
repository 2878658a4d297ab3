"""The console script called in this process: what it says, and with which exit code it ends."""

from dataclasses import dataclass

import paraboloid_command


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


def call(capfd, *words: object) -> Answer:
    """`paraboloid WORDS`."""
    capfd.readouterr()
    try:
        code = paraboloid_command.main([str(word) for word in words])
    except SystemExit as left:
        code = left.code
    said = capfd.readouterr()
    return Answer(code, said.out, said.err)


def refused(answer: Answer) -> str:
    """The one line of an answer that refuses."""
    assert answer.code == 2, answer
    assert answer.out == ""
    assert answer.err.count("\n") == 1, answer.err
    assert answer.err.startswith("paraboloid"), answer.err
    assert "Traceback" not in answer.err
    return answer.err
