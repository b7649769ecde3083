#!/usr/bin/env python3
"""The code blocks of README.md, docs/*.md and docs/examples, for the tests that compile and run them.

    tests/pages/page_blocks.py fragments DIR    writes each block of C++ as DIR/pages/PAGE/HEADING_NUMBER.inc
    tests/pages/page_blocks.py project DIR      writes a project of the plug-ins of the pages, by their lines of CMake

A fragment begins with a #line of its page, so that the compiler names that. Its includes are in DIR/pages/includes.inc:
blocks stand within functions, where nothing can be included. A file that would not change is not written.
"""
import dataclasses
import hashlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUGIN = re.compile(r"^MAILGRAD_(?:PLUGIN|POLICY|CURE)\((\w+)\) *(?://.*)?$", re.MULTILINE)
INCLUDE = re.compile(r"^#include .*$", re.MULTILINE)


@dataclasses.dataclass
class Block:
    page: str  # "docs/library.md"
    line: int  # of its first line of code
    language: str
    name: str  # "library/follow_a_run_and_end_it_early_2": the second of its language below this heading
    text: str

    def where(self):
        return f"{self.page}:{self.line}"

    def plugin(self):
        """The class that this makes a plug-in, and whose name its library has; none if it is no plug-in."""
        found = PLUGIN.search(self.text)
        return found and found[1]


def pages():
    """All pages but docs/README.md, which lists them, and the examples, each of which is one block."""
    listed = [p for p in (ROOT / "docs").glob("*.md") if p.name != "README.md"]
    return [ROOT / "README.md", *sorted([*listed, *(ROOT / "docs/examples").iterdir()])]


def blocks_of(page):
    if page.suffix != ".md":
        language = "ini" if page.suffix == ".service" else "sh"
        return [Block(str(page.relative_to(ROOT)), 1, language, page.name, page.read_text(encoding="utf-8"))]
    found, heading, numbers, opened = [], "begin", {}, None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            if opened is None:
                language = line[3:].strip()
                numbers[heading, language] = numbers.get((heading, language), 0) + 1
                name = f"{page.stem}/{heading}_{numbers[heading, language]}"
                opened = Block(str(page.relative_to(ROOT)), number + 1, language, name, "")
            else:
                found.append(opened)
                opened = None
        elif opened is not None:
            opened.text += line + "\n"
        elif line.startswith("#"):
            heading = re.sub(r"\W+", "_", line.lstrip("# ").lower()).strip("_")
    return found


def all_blocks(language=None):
    return [b for page in pages() for b in blocks_of(page) if language in (None, b.language)]


def write(path, text):
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_fragments(folder):
    """Beside includes.inc goes a list of what it depends on. It has a digest of all fragments, since a build compiles
    anew when that file has changed."""
    includes, content = {}, hashlib.sha256()
    for block in all_blocks("cpp"):
        includes |= dict.fromkeys(INCLUDE.findall(block.text))
        fragment = f'#line {block.line} "{block.page}"\n' + INCLUDE.sub("", block.text)
        content.update(fragment.encode())
        write(folder / f"{block.name}.inc", fragment)
    write(folder / "includes.inc", f"// {content.hexdigest()}\n" + "\n".join(includes) + "\n")
    write(folder / "includes.d", f"{folder / 'includes.inc'}: {ROOT / 'docs'} {' '.join(map(str, pages()))}\n")


def project_of(page):
    """The lines of CMake for what the page makes, its own where it has some, and the sources by their names."""
    blocks = blocks_of(page)
    cmake = "".join(b.text for b in blocks if b.language == "cmake")
    sources = {b.plugin(): b.text for b in blocks if b.language == "cpp" and b.plugin()}
    if sources and not cmake:
        cmake = "find_package(mailgrad REQUIRED COMPONENTS plugin)\n"
    for name in sources:
        if f"add_library({name} " not in cmake:
            cmake += f"add_library({name} MODULE {name}.cpp)\ntarget_link_libraries({name} PRIVATE mailgrad::plugin)\n"
    if "my_program" in cmake:  # is not built: the tests build such programs from the demos
        cmake = "add_executable(my_program EXCLUDE_FROM_ALL my_program.cpp)\n" + cmake
        sources["my_program"] = "int main() {}\n"
    return cmake, sources


def write_project(folder):
    top = "cmake_minimum_required(VERSION 3.25)\nproject(pages LANGUAGES CXX)\n"
    for page in pages():
        cmake, sources = project_of(page)
        if not cmake:
            continue
        top += f"add_subdirectory({page.stem})\n"
        write(folder / page.stem / "CMakeLists.txt", cmake)
        for name, text in sources.items():
            write(folder / page.stem / f"{name}.cpp", text)
    write(folder / "CMakeLists.txt", top)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("fragments", "project"):
        sys.exit(__doc__)
    to = pathlib.Path(sys.argv[2])
    write_fragments(to / "pages") if sys.argv[1] == "fragments" else write_project(to)
