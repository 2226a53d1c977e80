"""Python's side of the protocol, made from the schemas of the agent's types.

A type of the schema is a class of the same name, or an alias where it is one of several texts or
classes. A variant of a union is called by its title, else by its tag. Fields keep their order, which
is that of plans.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hypertare.base.paths import agent_binary

ROOT = Path(__file__).parents[2]
PROTOCOL = ROOT / "src" / "hypertare" / "protocol"
SCHEMAS = ("protocol", "constants")

_HEAD = '''"""{about}

Made from `schema/` by `python -m tests.protocol`: change `crates/plan`, not this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

{imports}

'''
_WIDTH = 96
_SIMPLE = {"integer": "int", "number": "float", "boolean": "bool", "null": "None"}

Schema = dict[str, Any]


def renew() -> None:
    """Writes the schemas, and what is made of them."""
    for name in SCHEMAS:
        file_of(name).write_text(json.dumps(said(name), indent=2) + "\n")
    for file, text in modules().items():
        file.write_text(text)


def said(name: str) -> Any:
    """What the types of `crates/plan` say, as they are now."""
    # With the features of `make test`, which has compiled it.
    argv = ["cargo", "run", "-q", "--locked", "--all-features", "--example", "schema", name]
    return _json_of(argv, timeout=300)


def asked(*argv: str) -> Any:
    """What the agent says, as JSON."""
    return _json_of([str(agent_binary()), *argv], timeout=60)


def _json_of(argv: Sequence[str], timeout: float) -> Any:
    ran = subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, timeout=timeout)
    return json.loads(ran.stdout)


def kept(name: str) -> Any:
    """What `schema/` holds."""
    return json.loads(file_of(name).read_text())


def of_type(name: str) -> Schema:
    """The schema of one type of the protocol, with those that it is made of."""
    return kept("protocol") | {"anyOf": [{"$ref": f"#/$defs/{name}"}]}


def file_of(name: str) -> Path:
    return ROOT / "schema" / f"{name}.schema.json"


def modules() -> dict[Path, str]:
    """What each file of Python is to hold by `schema/`."""
    definitions, constants = kept("protocol")["$defs"], kept("constants")
    protocol = "from hypertare.protocol.wire_type import WireType"
    of_plan = _types("Step", definitions)
    reported = _types("Record", definitions)
    of_records = {name: text for name, text in reported.items() if name not in of_plan}
    shared = f"from hypertare.protocol.plan import {', '.join(of_plan)}"
    texts = {
        "plan.py": _HEAD.format(about="What goes to the agent.", imports=protocol)
        + "\n\n".join(of_plan.values()),
        "records.py": _HEAD.format(
            about="What comes back from the agent.", imports=f"{shared}\n{protocol}"
        )
        + "\n\n".join(of_records.values()),
        "constants.py": _HEAD.format(about=constants["description"], imports="")
        + "\n".join(_constants(constants)),
    }
    return {PROTOCOL / name: _tidy(text, PROTOCOL / name) for name, text in texts.items()}


def _constants(schema: Schema) -> Iterator[str]:
    for name, constant in schema["properties"].items():
        yield f"{name} = {constant['const']!r}"
        yield _docstring(constant["description"]) + "\n"


def _types(root: str, definitions: dict[str, Schema]) -> dict[str, str]:
    """A type and what it is made of, by name, each after those that it is made of itself."""
    made: dict[str, str] = {}

    def make(name: str, schema: Schema) -> None:
        for other in _references(schema):
            if other not in made:
                make(other, definitions[other])
        if "properties" in schema:
            made[name] = _class(name, schema)
        elif "properties" in schema.get("oneOf", [{}])[0]:
            members = {_member(member): member for member in schema["oneOf"]}
            made.update((name, _class(name, member)) for name, member in members.items())
            made[name] = _union(name, schema, members)
        else:
            made[name] = _texts(name, schema)

    make(root, definitions[root])
    return made


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield _name(schema["$ref"])
        schema = list(schema.values())
    if isinstance(schema, list):
        for inner in schema:
            yield from _references(inner)


def _name(reference: str) -> str:
    return reference.rpartition("/")[2]


def _tag(member: Schema) -> str:
    """The field that distinguishes the variants of a union."""
    return next(name for name, field in member["properties"].items() if "const" in field)


def _member(member: Schema) -> str:
    said = member["properties"][_tag(member)]["const"]
    return str(member.get("title") or said.title().replace("_", ""))


def _class(name: str, schema: Schema) -> str:
    lines = [f"class {name}(WireType):"]
    if "description" in schema:
        lines.append(_indented(_docstring(schema["description"])) + "\n")
    required = schema.get("required", ())
    for key, field in schema["properties"].items():
        lines.append(f"    {key}: {_annotation(field)}{_default(field, key in required)}")
        if "description" in field:
            lines.append(_indented(_docstring(field["description"])))
    return "\n".join(lines)


def _union(name: str, schema: Schema, members: dict[str, Schema]) -> str:
    tag = _tag(schema["oneOf"][0])
    union = f'{name} = Annotated[{" | ".join(members)}, Field(discriminator="{tag}")]'
    return "\n".join([union, *_about(schema)])


def _texts(name: str, schema: Schema) -> str:
    """One of several texts, with what each means where that is said."""
    variants = schema.get("oneOf", [schema])
    texts = [text for one in variants for text in one.get("enum", [one.get("const")])]
    meanings = [f"`{one['const']}`: {one['description']}" for one in variants if "const" in one]
    about = [schema["description"]] if "description" in schema else []
    said = [_docstring(*about, *meanings)] if about or meanings else []
    return "\n".join([f"{name} = Literal[{', '.join(map(repr, texts))}]", *said])


def _about(schema: Schema) -> list[str]:
    return [_docstring(schema["description"])] if "description" in schema else []


def _annotation(field: Schema) -> str:
    if "$ref" in field:
        return _name(field["$ref"])
    if "const" in field:
        return f"Literal[{field['const']!r}]"
    if "anyOf" in field:
        return " | ".join(_annotation(one) for one in field["anyOf"])
    kind = field["type"]
    if isinstance(kind, list):
        return " | ".join(_annotation(field | {"type": one}) for one in kind)
    if kind == "string":
        return "Path" if field.get("format") == "path" else "str"
    if kind == "array" and "prefixItems" in field:
        return f"tuple[{', '.join(map(_annotation, field['prefixItems']))}]"
    if kind == "array":
        return f"tuple[{_annotation(field['items'])}, ...]"
    if kind == "object":
        return f"dict[str, {_annotation(field['additionalProperties'])}]"
    return _SIMPLE[kind]


def _default(field: Schema, is_required: bool) -> str:
    """What is not required and has no default may be absent."""
    if "const" in field:
        return f" = {field['const']!r}"
    if is_required:
        return ""
    default = field.get("default")
    if isinstance(default, dict):
        # Rust's `Default` of a type, which the type's own fields say too.
        return f" = {_annotation(field)}()"
    return " = ()" if default == [] else f" = {default!r}"


def _docstring(*paragraphs: str) -> str:
    lines = [line for text in paragraphs for line in _wrapped(text)]
    end = '"""' if len(lines) == 1 else '\n"""'
    return '"""' + "\n".join(lines) + end


def _wrapped(text: str) -> Iterable[str]:
    return textwrap.wrap(" ".join(text.split()), _WIDTH - 4, break_on_hyphens=False)


def _indented(text: str) -> str:
    return textwrap.indent(text, "    ")


def _tidy(text: str, file: Path) -> str:
    """In the project's format, without the imports that are not needed."""
    for verb in (["check", "--quiet", "--fix", "--select", "F401,I"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *verb, "--stdin-filename", str(file), "-"]
        ran = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT)
        assert ran.returncode == 0, f"{ran.stderr}{ran.stdout}"
        text = ran.stdout
    return text
