"""The command line: its verbs. Heavy libraries load inside of them, so that help is quick."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from typing import Annotated, NoReturn

import typer

from hypertare.base import interrupt, loading
from hypertare.base.errors import HypertareError, InputError, MachineError, short_of_memory
from hypertare.base.figures import is_text

# Objects made before Python looks for circles among them. Classes and modules, which a start makes by the
# ten thousand, all stay.
_SELDOM = (50_000, 20, 20)

app = typer.Typer(
    name="hypertare",
    help="Weighs virtualisation: the same work natively, in a container and in a guest.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Plain help: drawing boxes would load Rich, and take longer than all the rest.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from hypertare import __version__

        print(f"hypertare {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Which it is."),
    ] = False,
) -> None:
    """Weighs virtualisation: the same work natively, in a container and in a guest."""


def _register() -> None:
    from hypertare.cli.compare import compare, history
    from hypertare.cli.doctor import doctor
    from hypertare.cli.image import image_app
    from hypertare.cli.lists import given_app, runs, studies_app
    from hypertare.cli.options import Verb
    from hypertare.cli.report import report
    from hypertare.cli.run import run
    from hypertare.cli.tune import tune
    from hypertare.cli.walk import walk
    from hypertare.cli.weigh import weigh

    before_a_command = app.command(
        context_settings={"allow_interspersed_args": False},
        options_metavar="[OPTIONS] --",
        cls=Verb,
    )
    before_a_command(weigh)
    app.command(cls=Verb)(run)
    app.command(cls=Verb)(tune)
    before_a_command(walk)
    for verb in (report, runs, compare, history, doctor):
        app.command(cls=Verb)(verb)
    app.add_typer(studies_app, name="studies")
    app.add_typer(given_app, name="given")
    app.add_typer(image_app, name="image")


def main() -> None:
    """Entry point: errors become sentences and exit statuses, never tracebacks."""
    gc.set_threshold(*_SELDOM)
    interrupt.listen()
    loading.have_one_blas_thread()
    _register()
    try:
        _refuse_bytes(sys.argv[1:])
        _refuse_little_room(sys.argv[1:])
        app()
    except HypertareError as error:
        _fail(error)
    except KeyboardInterrupt:
        _interrupted()
    except SystemExit as end:
        # The library that parses the command line makes a silent end of an interrupt.
        if _by_interrupt(end):
            _interrupted()
        raise
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        # Python makes another error of one that comes while it makes a class.
        if isinstance(error.__cause__, KeyboardInterrupt):
            _interrupted()
        _unforeseen(error)
    finally:
        interrupt.over()
        # The interpreter's last search through all that is there took a tenth of a second.
        gc.freeze()


def _refuse_bytes(words: list[str]) -> None:
    """Raises InputError for an argument that is not UTF-8: runs, plans and records hold UTF-8 text."""
    strange = next((word for word in words if not is_text(word)), None)
    if strange is not None:
        raise InputError(
            f"An argument is no UTF-8: {strange!a}",
            "Have a file read it, or write it in a shell script: hypertare weigh -- sh script",
        )


_LEAST_ROOM = 1 << 30
"""Bytes of addresses that hypertare needs: libraries of statistics map half, an agent process less."""


def _refuse_little_room(words: list[str]) -> None:
    """Raises MachineError if the limit of addresses is below `_LEAST_ROOM`: libraries would fail in it."""
    import resource

    room, _ = resource.getrlimit(resource.RLIMIT_AS)
    if words[:1] != ["--version"] and room != resource.RLIM_INFINITY and room < _LEAST_ROOM:
        raise MachineError(
            f"The limit of addresses is {room >> 20} MB here (`ulimit -v`), and hypertare needs "
            f"{_LEAST_ROOM >> 20} MB; a guest needs its memory beside that, and as much again.",
            "Raise it in this shell: ulimit -v unlimited",
        )


def _unforeseen(error: Exception) -> NoReturn:
    """Reports an unexpected error and ends the process. Of a defect it names a file with the traceback."""
    if short_of_memory(error):
        _fail(
            MachineError(
                "this machine gave hypertare no more memory.",
                "Free some (`free -m`) or raise the limit (`ulimit -v`). What was measured before is "
                "kept: --resume --out DIR goes on with a run.",
            )
        )
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        print(f"hypertare: {error.strerror or error}{where}", file=sys.stderr)
        sys.exit(1)
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    _say(f"hypertare: a defect of hypertare itself: {what}")
    _say(f"  What was measured before is kept. Please report it with {_trace(error)}.")
    sys.exit(HypertareError.status)


def _by_interrupt(end: BaseException) -> bool:
    cause = end.__cause__ or end.__context__
    return cause is not None and (isinstance(cause, KeyboardInterrupt) or _by_interrupt(cause))


def _interrupted() -> NoReturn:
    """Ends the process at once with status 130.

    The usual way out runs code of Python and its libraries. The interrupt may come again in that code,
    where no handler is left, and the signal would end the process.
    """
    measures = len(sys.argv) > 1 and sys.argv[1] in ("run", "weigh", "tune")
    if interrupt.is_kept():
        what = "interrupted; what was measured before is kept."
    elif measures:
        what = "interrupted before anything was measured, so nothing is kept: start it anew."
    else:
        what = "interrupted."
    print(f"hypertare: {what}", file=sys.stderr)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(130)


def _fail(error: HypertareError) -> NoReturn:
    _say(f"hypertare: {error.what}")
    if error.do:
        _say(f"  {error.do}")
    sys.exit(error.status)


def _say(text: str) -> None:
    """Prints on standard error: wrapped between words on a terminal, unchanged otherwise."""
    if sys.stderr.isatty():
        import shutil
        import textwrap

        wrapper = textwrap.TextWrapper(
            max(20, shutil.get_terminal_size().columns),
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        text = "\n".join(wrapper.fill(line) for line in text.splitlines())
    print(text, file=sys.stderr)


def _trace(error: Exception) -> str:
    """Writes the traceback to a file and returns its name; returns the text itself if no file can be
    written.
    """
    import tempfile
    import traceback

    text = "\n".join([sys.version, repr(sys.argv), *traceback.format_exception(error)])
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="hypertare-defect-", suffix=".txt", delete=False
        ) as file:
            file.write(text)
        return file.name
    except OSError:
        return f"this:\n{text}"
