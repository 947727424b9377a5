"""What the site needs beyond ProperDocs: equations, docstrings as this project writes them, files outside docs/.

* Equations (``:math:`` and ``.. math::``) become MathML when the site is built. Browsers draw it themselves, so no
  script is loaded.
* Docstrings: one entry per argument where several share a line, a bold word for ``Shapes:``, links for public names.
* Links: a page may link to a file that is not in docs/. The site has it under ``repository/``; where ``repo_url`` is
  set, the link goes there instead (an image is still copied).
"""

import importlib
import json
import posixpath
import re
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import griffe
from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor
from properdocs.config.defaults import ProperDocsConfig
from properdocs.exceptions import PluginError
from properdocs.structure.files import File, Files
from properdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "results/README.md")  # not in docs/, but pages of the site
OUTSIDE = "repository"  # where the site has the files that are not in docs/


def on_config(config: ProperDocsConfig) -> ProperDocsConfig:
    config.markdown_extensions.append(Equations())  # type: ignore[arg-type]
    return config


# Equations

# What docstrings write as a character and TeX has a command for: the command knows the space around it.
COMMANDS = {
    "←": r"\leftarrow ",
    "⊙": r"\odot ",
    "∘": r"\circ ",
    "·": r"\cdot ",
    "…": r"\dots ",
    "‖": r"\| ",
    "⁰": "^0",
    "²": "^2",
}
INLINE = re.compile(r":math:`([^`]+)`")
BLOCK = re.compile(r"^( *)\.\. math::(.*(?:\n\1 +\S.*|\n(?=\n\1 +\S))*)", re.MULTILINE)


def mathml(tex: str, display: str = "inline") -> str:
    """An equation as MathML."""
    for character, command in COMMANDS.items():
        tex = tex.replace(character, command)
    return convert(" ".join(tex.split()), display=display)


class Equations(Extension):
    """A Markdown extension: the equations of pages and docstrings as MathML."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (Markdown's name)
        md.preprocessors.register(_Equations(md), "equations", 22)  # after fenced code (25) is put aside


class _Equations(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        assert self.md is not None
        keep = self.md.htmlStash.store
        text = BLOCK.sub(lambda m: f"\n{m[1]}{keep(mathml(m[2], 'block'))}\n", "\n".join(lines))
        return INLINE.sub(lambda m: keep(mathml(m[1])), text).split("\n")


# Docstrings

SECTION = r"^{}:\n((?:(?: .*)?(?:\n|\Z))+)"
ARGS, SHAPES = (re.compile(SECTION.format(name), re.MULTILINE) for name in ("Args", "Shapes"))
SHARED = re.compile(r"^( +)(\w+(?:,\s+\w+)+):(.*(?:\n\1 +.*)*)", re.MULTILINE)  # "a, b: text"
QUOTED = re.compile(r"``(\w+)``")
STARS = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}


class Docstrings(griffe.Extension):
    """A griffe extension: docstrings as this project writes them become what griffe and Markdown read."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        public = [str(name) for name in pkg.exports or ()]
        for name in public:
            pkg.members[name].final_target.public = False  # its entry is rapgnn.NAME: none in its module
        _translate(pkg, set(public))


def _translate(thing: griffe.Object, public: set[str]) -> None:
    """Rewrite the docstring of a module, class, function or attribute, and those of its members."""
    if isinstance(thing, griffe.Class):
        _complete(thing)
    if thing.docstring:
        owner = thing if thing.is_class else thing.parent
        own = owner.all_members if owner and owner.is_class else {}  # ``fit`` is then the class's method
        text = ARGS.sub(lambda m: _arguments(thing, m[0]), thing.docstring.value)
        text = SHAPES.sub(lambda m: f"**Shapes:** {dedent(m[1])}", text)
        linked = public - own.keys() - {thing.name}
        thing.docstring.value = QUOTED.sub(lambda m: f"[`{m[1]}`][rapgnn.{m[1]}]" if m[1] in linked else m[0], text)
    for member in thing.members.values():
        if not member.is_alias:
            _translate(member, public)  # type: ignore[arg-type]


def _complete(thing: griffe.Class) -> None:
    """Arguments that a class documents elsewhere: in the base it takes them from, or below its fields."""
    if not thing.docstring or ARGS.search(thing.docstring.value):
        return
    text = thing.docstring.value
    if "__doc__" in thing.members:  # put together on import, of its own and its base's
        text += next(f"\n\n{c.docstring.value}" for c in thing.mro() if c.docstring and ARGS.search(c.docstring.value))
    elif "dataclass" in thing.labels:
        fields = [m for m in thing.members.values() if m.is_attribute and "property" not in m.labels and m.docstring]
        text += "\n\nArgs:\n" if fields else ""
        for field in fields:
            assert field.docstring
            text += indent(f"{field.name}: {indent(field.docstring.value, '    ').lstrip()}", "    ") + "\n"
            field.docstring = None  # type: ignore[misc]
    thing.docstring.value = text


def _arguments(thing: griffe.Object, text: str) -> str:
    """One entry per argument, variable ones with their stars."""
    text = SHARED.sub(lambda m: "\n".join(f"{m[1]}{name.strip()}:{m[3]}" for name in m[2].split(",")), text)
    for parameter in getattr(thing, "parameters", ()):
        name = parameter.name.lstrip("*")
        text = re.sub(rf"^( +){name}:", rf"\1{STARS.get(parameter.kind, '')}{name}:", text, flags=re.MULTILINE)
    return text


# Pages of the reference

MODULES = re.compile(r"^<!-- modules of (rapgnn[\w.]+) -->$", re.MULTILINE)


def _modules(room: str) -> str:
    """An entry for every module of a room."""
    home = importlib.import_module(room)
    names = getattr(home, "__all__", ())
    text = f"Importable from `{room}` itself: {', '.join(f'`{name}`' for name in names)}.\n\n" if names else ""
    files = sorted(Path(str(home.__file__)).parent.glob("[!_]*.py"))
    return text + "\n".join(f"::: {room}.{file.stem}\n" for file in files)


def _check_reference(folder: Path) -> None:
    """Refuse to build where a public name has no entry."""
    import rapgnn

    text = "\n".join(path.read_text("utf-8") for path in folder.glob("*.md"))
    missing = [name for name in rapgnn.__all__ if not re.search(rf"^::: rapgnn\.{name}$", text, re.MULTILINE)]
    if missing:
        raise PluginError(f"docs/reference has no '::: rapgnn.NAME' for {', '.join(missing)}: add it to a page there.")


# What is wider than a screen


def on_page_content(html: str, **kwargs: Any) -> str:
    """Code, tables and equations that scroll by themselves can be reached by keyboard."""
    html = html.replace("<pre>", '<pre tabindex="0">').replace('display="block"', 'display="block" tabindex="0"')
    return html.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")


# The search


def on_post_build(config: ProperDocsConfig, **kwargs: Any) -> None:
    """The search looks through the guide; of the reference it knows public names, of files outside docs/ nothing."""
    path = Path(config.site_dir) / "search" / "search_index.json"
    index, entries = json.loads(path.read_text(encoding="utf-8")), []
    for entry in index["docs"]:
        page, _, place = entry["location"].partition("#")
        if page.startswith("reference/"):
            entry |= {"title": place.removeprefix("rapgnn."), "text": ""}
        if not page.startswith(OUTSIDE) and (not page.startswith("reference/") or re.fullmatch(r"rapgnn\.\w+", place)):
            entries.append(entry)
    path.write_text(json.dumps(index | {"docs": entries}), encoding="utf-8")


# Files that are not in docs/

FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
IMAGES = (".png", ".svg")
LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:|#|/)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, *, config: ProperDocsConfig) -> Files:
    """Add the pages outside docs/, and whatever file a page links to."""
    docs = Path(config.docs_dir)
    _check_reference(docs / "reference")
    waiting, seen = [*(ROOT / page for page in PAGES), *docs.rglob("*.md")], set()
    while waiting:
        path = waiting.pop().resolve()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        if not path.is_relative_to(docs):
            files.append(File.generated(config, f"{OUTSIDE}/{_in_repository(path)}", abs_src_path=str(path)))
        if path.suffix == ".md":
            linked = [path.parent / link for _, link, _ in LINK.findall(path.read_text("utf-8"))]
            waiting += [file for file in linked if not config.repo_url or file.suffix in IMAGES]
    return files


def on_page_markdown(markdown: str, *, page: Page, config: ProperDocsConfig, files: Files) -> str:
    """Send links where the site has the file; write out the modules of a room."""
    here, docs = Path(str(page.file.abs_src_path)).parent, Path(config.docs_dir)

    def send(match: re.Match[str]) -> str:
        text, anchor = match[1], match[3] or ""
        target = here.joinpath(match[2]).resolve()
        if not target.exists():
            return match[0]  # ProperDocs names it and refuses
        inside = target.is_relative_to(docs)
        place = target.relative_to(docs).as_posix() if inside else f"{OUTSIDE}/{_in_repository(target)}"
        if files.get_file_from_path(place) is not None:
            return f"[{text}]({posixpath.relpath(place, posixpath.dirname(page.file.src_uri))}{anchor})"
        if not config.repo_url:
            return text  # a folder
        return f"[{text}]({config.repo_url.rstrip('/')}/blob/HEAD/{_in_repository(target)}{anchor})"

    parts = FENCE.split(MODULES.sub(lambda m: _modules(m[1]), markdown))
    parts[::2] = [LINK.sub(send, part) for part in parts[::2]]
    return "".join(parts)


def _in_repository(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
