"""The base class of all verbs."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from hypertare.base.errors import InputError

AS_IT_IS = "hypertare.as_it_is"
"""In a context's `meta`: whether what is to be run stands behind `--`."""


class Verb(TyperCommand):
    """A command that refuses empty options and arguments.

    Otherwise an empty path would mean this directory, and an empty list of words would mean the default.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[AS_IT_IS] = "--" in args
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in self.params:
            # Of a command's own words some may be empty; they come as a list.
            if given.get(parameter.name) == "":
                is_option = parameter.param_type_name == "option"
                name = parameter.opts[0] if is_option else parameter.metavar
                raise InputError(
                    f"{name} is empty.",
                    f"Give it a value{', or leave it out' if is_option else ''}.",
                )
        return super().parse_args(ctx, args)
